"""In projects that do not use it, the plugin is not to be noticed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("httpx", "numpy", "msgspec", "gguf", "yaml", "psutil", "scipy", "xllamacpp", "pytest_ngram.session")


def test_an_unrelated_project_runs_as_before(pytester: pytest.Pytester) -> None:
    """No line of output, no file, no marker that would need to be declared."""
    pytester.makepyfile("def test_one(): pass")
    result = pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert "ngram" not in "\n".join(line for line in result.outlines if not line.startswith("plugins:"))
    assert not (pytester.path / ".ngram").exists()


def test_an_unrelated_benchmark_is_saved_as_before(pytester: pytest.Pytester) -> None:
    """The JSON of benchmarks that are no cells has no `ngram` object."""
    pytester.makepyfile("def test_one(benchmark): benchmark(lambda: None)")
    result = pytester.runpytest_subprocess("--benchmark-json=out.json", "--benchmark-max-time=0.01")
    result.assert_outcomes(passed=1)
    assert '"ngram"' not in (pytester.path / "out.json").read_text()


def test_nothing_heavy_is_imported(pytester: pytest.Pytester) -> None:
    """Loading the plugin imports none of the libraries that measuring needs."""
    pytester.makepyfile(
        f"""
        import sys

        def test_imports():
            assert [name for name in {HEAVY!r} if name in sys.modules] == []
        """
    )
    # other plugins may import some of these themselves
    result = pytester.runpytest_subprocess(
        "-p", "no:hypothesispytest", "-p", "no:anyio", "-p", "no:benchmark"
    )
    result.assert_outcomes(passed=1)


def test_the_command_line_imports_nothing_heavy() -> None:
    """`pytest-ngram --help` is for looking up a word, so it has to be quick."""
    code = (
        "import sys; from pytest_ngram.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        f"assert [name for name in {HEAVY!r} if name in sys.modules] == []"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


OWN = ("llama_server", "ngram_planned", "ngram_cell", "ngram_table", "prompt_set", "ngram_session")


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("place", ["conftest", "module", "mark"])
def test_a_fixture_of_the_same_name_stays_the_projects(
    pytester: pytest.Pytester, name: str, place: str
) -> None:
    """A project's own fixture or parameter of that name is what its test gets, once, and nothing is said."""
    fixture = f"import pytest\n\n@pytest.fixture\ndef {name}():\n    return 'mine'\n\n"
    test = f"def test_it({name}):\n    assert {name} == 'mine'\n"
    if place == "conftest":
        pytester.makeconftest(fixture)
    elif place == "mark":
        test = f"import pytest\n\n@pytest.mark.parametrize({name!r}, ['mine'])\n{test}"
    pytester.makepyfile(fixture + test if place == "module" else test)
    result = pytester.runpytest_subprocess("-v")
    result.assert_outcomes(passed=1)
    assert "ngram:" not in result.stdout.str()
    assert "warning" not in result.stdout.str()
    assert not (pytester.path / ".ngram").exists()


def test_a_parametrised_fixture_of_the_same_name_stays_the_projects(pytester: pytest.Pytester) -> None:
    """Its own parameters are what it runs with; a text in them is not taken for a cell."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(params=["one", "two"])
        def ngram_planned(request):
            return request.param

        @pytest.fixture(params=["three", "four"])
        def llama_server(request):
            return request.param

        def test_it(ngram_planned, llama_server):
            assert ngram_planned in ("one", "two")
            assert llama_server in ("three", "four")
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=4)


def test_help_and_fixtures_read_well(pytester: pytest.Pytester) -> None:
    """Every option and fixture has a text of its own."""
    text = pytester.runpytest_subprocess("--help").stdout.str()
    for option in ("--ngram-matrix=FILE", "--ngram-profile=NAME", "--ngram-resume=JOURNAL", "--ngram-force"):
        assert option in text
    for option in ("--ngram-budget=TIME", "--ngram-estimate-from=FILE", "--ngram-probe"):
        assert option in text
    lines = pytester.runpytest_subprocess("--fixtures").outlines
    for name in ("llama_server", "ngram_table", "prompt_set", "ngram_cell", "ngram_session"):
        (place,) = [i for i, line in enumerate(lines) if line.startswith(f"{name} ")]
        assert lines[place + 1].strip() not in ("", "no docstring available")
