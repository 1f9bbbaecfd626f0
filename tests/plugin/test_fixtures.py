"""The fixtures in somebody's own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Project


def test_a_test_of_llama_server_runs_once_per_server(project: Project) -> None:
    """A test that asks for a server gets each model and config of the matrix, and can talk to it."""
    project.pytester.makepyfile(
        test_own="""
        import httpx

        def test_it_answers(llama_server):
            assert httpx.get(llama_server.url + "/health").json() == {"status": "ok"}
            assert llama_server.client.tokenize(" model", parse_special=False, add_special=False)
        """
    )
    result = project.pytester.runpytest_subprocess("test_own.py", "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*test_it_answers[[]tiny/mtp1[]] PASSED*"])


def test_a_server_can_be_chosen(project: Project) -> None:
    """Indirect parametrisation names `model/config`; another name is an error that lists the allowed ones."""
    project.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.parametrize("llama_server", ["tiny/none", "tiny/nnoe"], indirect=True)
        def test_it(llama_server):
            assert llama_server.url
        """
    )
    result = project.pytester.runpytest_subprocess("test_own.py")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the matrix has no server 'tiny/nnoe'*", "*allowed: tiny/none, tiny/mtp1*"])


def test_prompt_sets_are_read(project: Project) -> None:
    """`prompt_set` gives prompts, in order; an unknown set is an error."""
    project.pytester.makepyfile(
        test_own="""
        import pytest
        from pytest_ngram.errors import OptionError

        def test_it(prompt_set):
            assert [prompt.id for prompt in prompt_set("words").prompts] == ["word-en", "word-ru"]
            with pytest.raises(OptionError, match="no prompt set 'wrods'"):
                prompt_set("wrods")
        """
    )
    project.pytester.runpytest_subprocess("test_own.py").assert_outcomes(passed=1)


def test_a_table_can_be_had_without_a_cell(project: Project) -> None:
    """`ngram_table` builds the table through the model's own tokenizer, and again gives the same file."""
    project.edit(
        "prompt_sets:\n", "tables:\n  chats: {corpus: {path: c.jsonl}, min_count: 1}\nprompt_sets:\n"
    )
    (project.bench / "c.jsonl").write_text(
        '{"v":1,"role":"user","content":" model token memory model token"}\n'
    )
    project.pytester.makepyfile(
        test_own="""
        def test_it(ngram_table):
            table = ngram_table("tiny", "chats")
            assert table.path.read_bytes()
            assert table.manifest.messages == 1
            # a b c a b: the pairs (a b)->c, (b c)->a, (c a)->b
            assert table.table.keys == 3
            assert ngram_table("tiny", "chats") is table
        """
    )
    project.pytester.runpytest_subprocess("test_own.py").assert_outcomes(passed=1)


def test_a_matrix_that_is_named_is_not_replaced(project: Project) -> None:
    """The plugin's own matrix is for projects without one: a name that leads nowhere stays an error."""
    project.pytester.makeini("[pytest]\nngram_matrix = nowhere.yaml\n")
    project.pytester.makepyfile(test_own="def test_it(prompt_set): prompt_set('instrument')")
    result = project.pytester.runpytest_subprocess("test_own.py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the matrix cannot be read: No such file or directory*"])


def test_the_plugins_own_matrix_is_said(project: Project) -> None:
    """Without a matrix it is used and said, once; with one, nothing is said."""
    code = "def test_it(prompt_set): assert prompt_set('{}').prompts\n\ndef test_again(prompt_set): pass"
    told = "there is no bench/matrix.yaml"
    project.pytester.makepyfile(test_own=code.format("words"))
    result = project.pytester.runpytest_subprocess("test_own.py")
    result.assert_outcomes(passed=2)
    assert told not in result.stdout.str()
    project.matrix.unlink()
    project.pytester.makepyfile(test_own=code.format("instrument"))
    result = project.pytester.runpytest_subprocess("test_own.py")
    result.assert_outcomes(passed=2)
    assert result.stdout.str().count(told) == 1


def test_a_fixture_that_builds_on_ours_gets_every_server(project: Project) -> None:
    """An own `llama_server` that asks for the plugin's is run once for each server, as the plugin's is."""
    project.pytester.makepyfile(
        test_own="""
        import pytest

        @pytest.fixture
        def llama_server(llama_server):
            return llama_server.url

        def test_it(llama_server):
            assert llama_server.startswith("http://")
        """
    )
    project.pytester.runpytest_subprocess("test_own.py").assert_outcomes(passed=3)
