"""Golden files: written whole, in order, and read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.errors import MatrixError, OptionError
from pytest_ngram.evidence.goldens import Goldens, readable
from pytest_ngram.judge.golden import Fingerprint, Golden, PromptFile, Text

RULE = Fingerprint(model="rule of seed 1")
HERE = Fingerprint(model="abc", family="xllamacpp", isa=("CPU", "AVX2"), threads=1, flash_attn="auto")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def golden(print_: Fingerprint, prompt: str, ids: tuple[int, ...], text: str = "да 🙂\n") -> Golden:
    return Golden(made_with="b1", fingerprint=print_, n_predict=8, texts={prompt: Text(text, ids)})


@pytest.fixture
def goldens(tmp_path: Path) -> Goldens:
    return Goldens(tmp_path / "golden", tmp_path / "lock")


def test_what_is_stored_is_read(goldens: Goldens) -> None:
    """Texts of each fingerprint, and prompts, come back as they were; new ones join, others are replaced."""
    for prompt, ids in (("b", (1,)), ("a", (2,)), ("b", (3,))):
        goldens.store_text("m", golden(HERE, prompt, ids))
        goldens.store_prompt("m", PromptFile(made_with="b1", model="abc", prompts={prompt: ids}))
    goldens.store_text("m", golden(RULE, "a", (9,)))
    found = {each.fingerprint: each.texts for each in goldens.texts("m")}
    assert found == {
        HERE: {"a": Text("да 🙂\n", (2,)), "b": Text("да 🙂\n", (3,))},
        RULE: {"a": Text("да 🙂\n", (9,))},
    }
    prompts = goldens.prompts("m")
    assert prompts is not None
    assert list(prompts.prompts.items()) == [("a", (2,)), ("b", (3,))]


@settings(deadline=None, max_examples=30)  # each example waits for the disk
@given(text=texts)
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Whatever a model writes can be stored, and what can be read is not changed."""
    folder = tmp_path_factory.mktemp("golden")
    goldens = Goldens(folder, folder / "lock")
    goldens.store_text("m", golden(RULE, "a", (1,), readable(text)))
    assert goldens.texts("m")[0].texts["a"].text == readable(text)
    assert readable(text) == text or not text.isprintable()


def test_another_build_starts_the_file_anew(goldens: Goldens) -> None:
    """A file never mixes texts of two builds under the name of one."""
    goldens.store_text("m", golden(HERE, "a", (1,)))
    newer = Golden(made_with="b2", fingerprint=HERE, n_predict=8, texts={"b": Text("", (2,))})
    goldens.store_text("m", newer)
    assert goldens.texts("m") == [newer]


def test_another_models_name_is_another_file(goldens: Goldens) -> None:
    """Goldens of `m` are not those of `m-2`."""
    goldens.store_text("m-2", golden(RULE, "a", (1,)))
    assert goldens.texts("m") == []
    assert goldens.prompts("m") is None


def test_nothing_but_goldens_is_written(goldens: Goldens) -> None:
    """The lock lies elsewhere: the folder is under version control."""
    goldens.store_text("m", golden(RULE, "a", (1,)))
    assert [path.name for path in goldens.folder.iterdir()] == ["m.texts.yaml"]


@pytest.mark.parametrize(
    "change",
    [("schema: 1", "schema: 2"), ("n_predict", "n_predicted"), ("ids: [1]", "ids: [x]"), ("- ", "- [")],
)
def test_a_damaged_file_is_told(goldens: Goldens, change: tuple[str, str]) -> None:
    """A file that was edited into something else names itself in the error."""
    path = goldens.store_text("m", golden(HERE, "a", (1,)))
    text = path.read_text(encoding="utf-8").replace("isa: [CPU, AVX2]", "isa:\n  - CPU")
    assert change[0] in text
    path.write_text(text.replace(change[0], change[1], 1), encoding="utf-8")
    with pytest.raises((OptionError, MatrixError), match=path.name):
        goldens.texts("m")


def test_two_files_of_one_fingerprint_are_told(goldens: Goldens) -> None:
    """Which of them an answer is held against must not hang on their names."""
    path = goldens.store_text("m", golden(HERE, "a", (1,)))
    for copy in ("m.texts.aa.yaml", "m.texts.zz.yaml"):
        (goldens.folder / copy).write_bytes(path.read_bytes())
        with pytest.raises(OptionError, match="same fingerprint"):
            goldens.texts("m")
        (goldens.folder / copy).unlink()
    assert len(goldens.texts("m")) == 1


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """The error names the golden and the folder, and leaves what is there."""
    taken = tmp_path / "golden"
    taken.write_text("a file")
    goldens = Goldens(taken, tmp_path / "lock")
    with pytest.raises(OptionError, match=r"m\.texts\.xllamacpp.*cannot be written.*\n.*golden"):
        goldens.store_text("m", golden(HERE, "a", (1,)))
    with pytest.raises(OptionError, match=r"m\.prompts\.yaml cannot be written"):
        goldens.store_prompt("m", PromptFile(made_with="b1", model="abc", prompts={"a": (1,)}))
    assert taken.read_text() == "a file"
