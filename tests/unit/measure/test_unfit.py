"""What cannot be measured is told from the model files, before servers start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from pytest_ngram.engine import preflight
from pytest_ngram.engine.vocabulary import AnyFlags
from pytest_ngram.errors import EngineError, MatrixError
from pytest_ngram.matrix.spec import ModelSpec
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.servers import compose_argv
from pytest_ngram.measure.setup import Setup, read_setup
from pytest_ngram.measure.unfit import check_context, check_start, takes_tools, unfit
from pytest_ngram.models.gguf_file import ModelFacts

MATRIX = """
version: 1
warmup: hello
models:
  alpha: {path: a.gguf}
configs:
  none: {}
  mtp1: {types: [draft-mtp]}
  ngram-mod: {types: [ngram-mod]}
prompt_sets:
  chat: {path: chat.yaml}
  agent: {path: agent.yaml}
profiles:
  smoke: {blocks: 1, n_predict: 100}
  few: {blocks: 1, n_predict: 8, configs: [none, mtp1]}
"""
CHAT = 'set: chat\nsystem: ""\nprompts:\n  - {id: p, kind: k, messages: [{role: user, content: hi}]}\n'
AGENT = CHAT.replace("set: chat", "set: agent\ntools: tools.json").replace("id: p, ", "id: q, tools: [run], ")
TOOLS = '[{"type": "function", "function": {"name": "run"}}]'


@dataclass
class Facts:
    """The facts that are asked for."""

    chat_template: str | None = "{% for m in messages %}"
    nextn: int = 0
    path: Path = Path("a.gguf")


@dataclass
class Whole(Facts):
    """What a start is checked by."""

    arch: str = "a"
    n_ctx_train: int = 4096
    recurrent_layers: int = 0
    n_vocab: int = 100


class Peeked:
    """Models whose files say so."""

    def __init__(self, facts: Facts | None) -> None:
        self._facts = facts

    def peek(self, _name: str) -> Facts | None:
        return self._facts


def peeked(facts: Facts | None) -> Models:
    return cast(Models, Peeked(facts))


def facts_of(**given: object) -> ModelFacts:
    return cast(ModelFacts, Facts(**given))  # type: ignore[arg-type]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Setup]:
    for name, text in (
        ("m.yaml", MATRIX), ("chat.yaml", CHAT), ("agent.yaml", AGENT), ("tools.json", TOOLS),
    ):  # fmt: skip
        (tmp_path / name).write_text(text, encoding="utf-8")

    def of(profile: str = "smoke", old: str = "", new: str = "") -> Setup:
        (tmp_path / "m.yaml").write_text(MATRIX.replace(old, new) if old else MATRIX, encoding="utf-8")
        return read_setup(tmp_path / "m.yaml", profile)

    return of


def test_what_a_model_lacks_is_told_for_each_reason(read: Callable[..., Setup]) -> None:
    """No tools in the template, no MTP block: a line each, with the prompt set and the configs."""
    setup = read()
    assert unfit(setup, peeked(Facts()), setup.cells) == [
        "models.alpha: its chat template has no place for the tools of agent",
        "models.alpha: it has no MTP block, which mtp1 draft with",
    ]
    fit = Facts(chat_template="{% if tools %}", nextn=1)
    assert unfit(setup, peeked(fit), setup.cells) == []
    assert unfit(setup, peeked(None), setup.cells) == []
    chat_only = [cell for cell in setup.cells if cell.prompt == "p" and cell.start.config == "none"]
    assert unfit(setup, peeked(Facts()), chat_only) == []


@pytest.mark.parametrize("place", ["path: a.gguf", "types: [draft-mtp]"])
@pytest.mark.parametrize("flag", ["-md mtp.gguf", "--spec-draft-model mtp.gguf", "--model-draft mtp.gguf"])
@pytest.mark.parametrize("nextn", [0, 1])
def test_what_is_told_of_mtp_is_what_is_refused(
    read: Callable[..., Setup], tmp_path: Path, place: str, flag: str, nextn: int
) -> None:
    """The block may lie in a file of its own (`-md`), in the flags of the model or of the config."""
    (tmp_path / "mtp.gguf").touch()
    flag = flag.replace("mtp.gguf", str(tmp_path / "mtp.gguf"))
    for setup in (read(), read("smoke", place, f"{place}, flags: {flag}")):
        model, config = setup.matrix.models["alpha"], setup.matrix.configs["mtp1"]
        parsed = AnyFlags().parse(compose_argv("a.gguf", model, config, None, AnyFlags()))
        facts = Facts(chat_template="{{ tools }}", nextn=nextn)
        try:
            preflight.check(cast(preflight.Facts, Whole(nextn=nextn)), parsed)
            refused = False
        except EngineError:
            refused = True
        assert bool(unfit(setup, peeked(facts), setup.cells)) == refused


def test_a_template_of_the_flags_is_not_judged_by_the_file() -> None:
    """`--chat-template` replaces the file's template; one without any has no place for tools."""
    assert not takes_tools(facts_of(), ModelSpec())
    assert not takes_tools(facts_of(chat_template=None), ModelSpec())
    assert takes_tools(facts_of(chat_template="{{ tools }}"), ModelSpec())
    assert takes_tools(facts_of(), ModelSpec(flags="--chat-template-file x.jinja"))


def test_a_start_of_nothing_but_tools_is_refused_before_it_loads(read: Callable[..., Setup]) -> None:
    """Loading a model of many GB to refuse each of its cells is spared; other prompts still get a server."""
    setup = read()
    agent = [cell for cell in setup.cells if cell.prompt == "q"]
    with pytest.raises(EngineError, match="no place for tools") as caught:
        check_start(setup, facts_of(), agent)
    assert caught.value.outcome == "refused"
    check_start(setup, facts_of(), setup.cells)
    check_start(setup, facts_of(chat_template="{{ tools }}"), agent)
    check_start(setup, facts_of(), [])


def test_a_cell_that_does_not_fit_into_the_context_is_refused(read: Callable[..., Setup]) -> None:
    """Prompt and answer together; the error says which -c would do. An unknown context refuses nothing."""
    cell = read().cells[0]
    check_context(cell, 412, 512)
    check_context(cell, 10**6, None)
    with pytest.raises(EngineError, match="do not fit") as caught:
        check_context(cell, 413, 512)
    assert "-c 768" in caught.value.fix
    assert caught.value.outcome == "refused"


def test_what_a_profile_leaves_out_is_told(read: Callable[..., Setup]) -> None:
    """A config that the default profile does not take is never left out silently."""
    assert read().left_out_lines() == []
    assert read("few").left_out_lines() == ["configs that profile few leaves out: ngram-mod"]
    assert {cell.start.config for cell in read("few").cells} == {"none", "mtp1"}
    assert read("few").servers() == ["alpha/none", "alpha/mtp1"]


def test_a_config_that_no_model_runs_is_told(read: Callable[..., Setup]) -> None:
    """One that is written down and stands in no model's `configs` would be left out silently."""
    told = "configs that no model runs: ngram-mod; name them in a model's `configs`"
    alone = read("smoke", "path: a.gguf", "path: a.gguf, configs: [none, mtp1]")
    assert alone.left_out_lines() == [told]
    few = read("few", "path: a.gguf", "path: a.gguf, configs: [none, mtp1]")
    assert few.left_out_lines() == [told]
    second = read("smoke", "configs:\n  none: {}", "configs:\n  none: {}\n  second: {types: [draft-simple]}")
    assert second.left_out_lines() == [
        "configs that no model runs: second; they draft with a second model: give a model a `draft`"
    ]


def test_a_profile_that_leaves_nothing_to_compare_is_refused(read: Callable[..., Setup]) -> None:
    """`none` alone tells nothing; a model that has nothing else anyway may be measured."""
    alone = "path: a.gguf, configs: [none, ngram-mod]"
    with pytest.raises(MatrixError, match="leaves model 'alpha' with 'none' alone"):
        read("few", "path: a.gguf", alone)
    assert read("few", "path: a.gguf", "path: a.gguf, configs: [none]").cells


def test_a_missing_part_or_draft_is_told(read: Callable[..., Setup], tmp_path: Path) -> None:
    """Before the first cell: which part is not there, and which draft, if a chosen config needs it."""
    (tmp_path / "a.1").touch()
    setup = read("smoke", "path: a.gguf", "parts: [{path: a.1}, {path: a.2}], draft: {path: d.gguf}")
    assert setup.missing_files(setup.cells) == [f"models.alpha.parts[1]: {tmp_path / 'a.2'} is not there"]
    drafted = read(
        "smoke",
        "path: a.gguf}\nconfigs:\n",
        "path: a.1, draft: {path: d.gguf}}\nconfigs:\n  second: {types: [draft-simple]}\n",
    )
    assert drafted.missing_files(drafted.cells) == [f"models.alpha.draft: {tmp_path / 'd.gguf'} is not there"]
