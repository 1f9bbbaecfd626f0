"""What the gates of a matrix ask: its section checked, and the cases of each gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from pytest_ngram.matrix.spec import BASELINE, MatrixSpec
from pytest_ngram.matrix.strict import fail, unknown

Over = Literal[
    "model",
    "model/prompt",
    "config",
    "config/prompt",
    "drafting",
    "drafting/prompt",
    "rule",
    "some",
    "later",
]
# the longest draft of these types is `--spec-draft-n-max`, which the policy `self` changes
_SELF_TYPES = "draft-"


class GateCase(msgspec.Struct, frozen=True):
    """One test of a gate: what it is about. `config` is the baseline where a gate asks nothing else."""

    model: str
    config: str = BASELINE
    prompt: str | None = None

    @property
    def id(self) -> str:
        """`model/config/prompt`, or `model/config` where all prompts are judged together."""
        return "/".join(filter(None, (self.model, self.config, self.prompt)))

    @property
    def group(self) -> str:
        """Cases of one group share servers, so one xdist worker should run them."""
        return f"{self.model}/{self.config}"


def prompt_of(case: GateCase) -> str:
    """Return the prompt of a case of a gate that is asked for each prompt."""
    assert case.prompt is not None  # noqa: S101 - such gates are asked for prompts
    return case.prompt


def models_of(matrix: MatrixSpec, chosen: Sequence[str]) -> list[str]:
    """Return the models that the gates ask, in the order of the matrix."""
    named = matrix.gates.models
    return [name for name in matrix.models if name in chosen and (named is None or name in named)]


def prompts_of(matrix: MatrixSpec, model: str, prompts: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """Return the (set, prompt) pairs that the gates send to a model, in the order in which they are sent."""
    return [
        (prompt_set, prompt)
        for prompt_set in matrix.prompt_sets_of(model)
        for prompt in prompts[prompt_set][: matrix.gates.prompts.get(prompt_set)]
    ]


def cases(
    matrix: MatrixSpec, chosen: Sequence[str], prompts: Mapping[str, Sequence[str]], over: Over
) -> list[GateCase]:
    """Return the cases of a gate.

    Args:
        matrix: the decoded matrix.
        chosen: models that the user wants.
        prompts: prompt ids by prompt set.
        over: what a case is: a model, a config (`drafting`: without the baseline; `rule`: each config and
            prompt of the hand-built models; `some`: that and, of other models, the first prompt alone;
            `later`: each prompt but the first), each for all prompts together or for each prompt.
    """
    found: list[GateCase] = []
    for model in models_of(matrix, chosen):
        names = [name for _, name in prompts_of(matrix, model, prompts)]
        chosen_names = _prompts(names, over, handbuilt=matrix.models[model].generate is not None)
        for config in _configs(matrix, model, over):
            found += [GateCase(model, config, prompt) for prompt in chosen_names]
    return found


def policy(matrix: MatrixSpec, model: str, config: str) -> str:
    """Return what the text of a config must be; the hand-built model has no near-ties to excuse it."""
    return "strict" if matrix.models[model].generate is not None else matrix.configs[config].identity


def abstains_of(matrix: MatrixSpec, model: str, config: str) -> str | None:
    """Return why a config is expected to draft nothing at all; None where any type of it is to draft."""
    said = matrix.models[model].abstains.get(config)
    if not isinstance(said, dict):
        return said
    silent = set(matrix.configs[config].types) <= said.keys()
    return "; ".join(dict.fromkeys(said.values())) if silent else None


def check_gates(file: str, matrix: MatrixSpec) -> None:
    """Fail for names in `gates:` that the matrix lacks, and for a policy that a config cannot keep."""
    gates = matrix.gates
    for i, model in enumerate(gates.models or ()):
        _known(file, f"gates.models[{i}]", "model", model, matrix.models)
    for i, asked in enumerate(gates.configs or ()):
        _known(file, f"gates.configs[{i}]", "config", asked, matrix.configs)
    for prompt_set in gates.prompts:
        _known(file, f"gates.prompts.{prompt_set}", "prompt set", prompt_set, matrix.prompt_sets)
    _check_asked(file, matrix)
    pairs = [f"{model}/{config}" for model in matrix.models for config in matrix.configs_of(model)]
    for pair, reason in gates.never_rejected.items():
        _known(file, f"gates.never_rejected.{pair}", "model and config", pair, pairs)
        if not reason.strip():
            fail(file, f"gates.never_rejected.{pair}", "is empty", fix="say why every draft is right there")
    for name, config in matrix.configs.items():
        if config.identity == "self" and not any(t.startswith(_SELF_TYPES) for t in config.types):
            fail(
                file,
                f"configs.{name}.identity",
                "'self' needs a type whose drafts --spec-draft-n-max shortens",
                checked=[f"types: {', '.join(config.types) or '(none)'}"],
                fix="write strict or near-tie",
            )


def _check_asked(file: str, matrix: MatrixSpec) -> None:
    """Fail for a config that no model of the gates has: it would be asked of none, in silence."""
    models = models_of(matrix, tuple(matrix.models))
    had = {config for model in models for config in matrix.configs_of(model)}
    for i, asked in enumerate(matrix.gates.configs or ()):
        if models and asked not in had:
            fail(
                file,
                f"gates.configs[{i}]",
                f"{asked!r} is a config of no model that the gates ask",
                checked=[f"models: {', '.join(models)}"],
                fix="add it to `configs:` of one of these models, or remove it here",
            )


def _configs(matrix: MatrixSpec, model: str, over: Over) -> list[str]:
    if over.startswith("model"):
        return [BASELINE]
    drafting, named = over.startswith("drafting"), matrix.gates.configs
    asked = [name for name in matrix.configs_of(model) if named is None or name in named]
    return [name for name in asked if not (drafting and name == BASELINE)]


def _prompts(names: list[str], over: Over, *, handbuilt: bool) -> list[str] | list[None]:
    """The hand-built model costs next to nothing; others are sent the dearer requests of one prompt only."""
    if over.endswith("/prompt") or (over in ("rule", "some") and handbuilt):
        return names
    if over == "rule":
        return []
    if over == "later":
        return names[1:]
    return names[:1] if over == "some" else [None]


def _known(file: str, path: str, what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        unknown(file, path, what, name, known)
