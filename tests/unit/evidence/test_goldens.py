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
