"""What of a plan cannot be measured, told from the model files before any server starts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from pytest_ngram.engine.preflight import lacks_mtp
from pytest_ngram.engine.vocabulary import AnyFlags
from pytest_ngram.errors import EngineError
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.matrix.spec import ModelSpec
from pytest_ngram.measure.models import Models
from pytest_ngram.measure.servers import compose_argv
from pytest_ngram.measure.setup import Setup
from pytest_ngram.models.gguf_file import ModelFacts

_CELL_STEP = 256  # llama.cpp rounds a context up to a multiple of this


def unfit(setup: Setup, models: Models, cells: Iterable[PlannedCell]) -> list[str]:
    """Say which cells will be refused for what their model is, a line for each reason.

    Models that are yet to be made are not looked at; what cannot be opened is told elsewhere.
    """
    by_model: dict[str, list[PlannedCell]] = {}
    for cell in cells:
        by_model.setdefault(cell.start.model, []).append(cell)
    said: list[str] = []
    for name, of_model in by_model.items():
        facts = models.peek(name)
        if facts is None:
            continue
        if not takes_tools(facts, setup.matrix.models[name]):
            sets = dict.fromkeys(cell.prompt_set for cell in of_model if setup.tools[cell.prompt])
            said += [
                f"models.{name}: its chat template has no place for the tools of {each}" for each in sets
            ]
        mtp = dict.fromkeys(
            cell.start.config for cell in of_model if _lacks_mtp(setup, name, cell.start.config, facts)
        )
        said += [f"models.{name}: it has no MTP block, which {', '.join(mtp)} draft with"] if mtp else []
    return said


def _lacks_mtp(setup: Setup, model: str, config: str, facts: ModelFacts) -> bool:
    """The rule by which a start is refused, on its command line; a wrong one is told elsewhere."""
    any_flags = AnyFlags()
    try:
        spec, drafting = setup.matrix.models[model], setup.matrix.configs[config]
        argv = compose_argv(f"{model}.gguf", spec, drafting, None, any_flags)
        return lacks_mtp(facts.nextn, any_flags.parse(argv))
    except EngineError:
        return False


def check_start(setup: Setup, facts: ModelFacts, cells: Sequence[PlannedCell]) -> None:
    """Refuse a start if each of its cells needs tools and the model cannot take them.

    Raises:
        EngineError: outcome `refused`.
    """
    model = setup.matrix.models[cells[0].start.model] if cells else ModelSpec()
    if cells and all(setup.tools[cell.prompt] for cell in cells) and not takes_tools(facts, model):
        raise EngineError(
            "the model's chat template has no place for tools",
            outcome="refused",
            checked=[
                f"{facts.path}: its template does not name `tools`, and all prompts of this start have some"
            ],
            fix="leave the prompt set out for this model, or name a template with --chat-template",
        )


def takes_tools(facts: ModelFacts, model: ModelSpec) -> bool:
    """Whether a model's chat template may take tools: True unless it is sure that it does not.

    A template gets them in a variable `tools`; one that does not name it cannot render them. Whether one that
    does name it renders them, the server says. A template out of the model's flags is not looked at.
    """
    if any(word.startswith(("--chat-template", "--no-jinja")) for word in shlex.split(model.flags)):
        return True
    return "tools" in (facts.chat_template or "")


def check_context(planned: PlannedCell, prompt_tokens: int, n_ctx: int | None) -> None:
    """Refuse a cell whose prompt and answer do not fit into the context, before it is asked.

    Raises:
        EngineError: outcome `refused`.
    """
    need = prompt_tokens + planned.n_predict
    if n_ctx is None or need <= n_ctx:
        return
    raise EngineError(
        f"prompt {planned.prompt!r} and its answer do not fit into the context",
        outcome="refused",
        checked=[f"{prompt_tokens} tokens of the prompt + n_predict {planned.n_predict}, of {n_ctx} (-c)"],
        fix=f"give the model -c {-(-need // _CELL_STEP) * _CELL_STEP} or a smaller n_predict, "
        f"or leave prompt set {planned.prompt_set!r} out",
    )
