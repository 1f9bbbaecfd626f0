"""What is said before a run: how long it will take, from what, and what a budget gave up."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_ngram.matrix.budget import VERDICT_BLOCKS, Cut
from pytest_ngram.matrix.duration import said
from pytest_ngram.matrix.estimate import MARGIN, Estimate, ModelEstimate
from pytest_ngram.report.numbers import UNKNOWN

HEADER = ("model", "server starts × load", "cells", "tokens + of prompts", "duration")


def forecast_lines(found: Estimate, *, probe: bool = False) -> list[str]:
    """Return the estimate by model and in total, and where its figures come from.

    Args:
        found: the estimate.
        probe: whether a probe was asked for, so that it is not proposed.
    """
    if not found.models:
        return ["nothing is left to measure"]
    rows = [HEADER, *map(_row, found.models), *([_total(found)] if len(found.models) > 1 else [])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    lines = [
        "  ".join(text.ljust(widths[n]) if n == 0 else text.rjust(widths[n]) for n, text in enumerate(row))
        for row in rows
    ]
    return [*lines, *_sources(found), *_uncounted(found, probe=probe), *_missing(found, probe=probe)]


def budget_lines(cut: Cut, budget_s: float) -> list[str]:
    """Return what a budget chose and gave up."""
    given_up = [
        f"{of} {what} → {kept}"
        for what, of, kept in (
            ("blocks", cut.of_blocks, cut.blocks),
            ("prompts", cut.of_prompts, cut.prompts),
        )
        if kept < of
    ]
    if not given_up:
        return [f"budget: everything fits, {said(cut.duration_s)} of {said(budget_s)}"]
    cells = f"{cut.of_cells} cells → {len(cut.cells)}"
    lines = [f"budget: {', '.join(given_up)}; {cells}; {said(cut.duration_s)} of {said(budget_s)}"]
    if cut.prompts < cut.of_prompts:
        lines.append(f"  prompts that stay: {_named(cut)}")
    if cut.blocks < min(VERDICT_BLOCKS, cut.of_blocks):
        lines.append(f"  fewer than {VERDICT_BLOCKS} blocks can never give a verdict")
    if not cut.kinds:
        lines.append("  not every kind of prompt has one left")
    return lines


def _named(cut: Cut) -> str:
    """The prompts that stay; by model where they are not the same for all."""
    if len(set(cut.names.values())) == 1:
        return ", ".join(next(iter(cut.names.values())))
    return "; ".join(f"{model}: {', '.join(names)}" for model, names in cut.names.items())


def _row(part: ModelEstimate) -> tuple[str, ...]:
    load = UNKNOWN if part.load_s is None else said(part.load_s)
    least = "at least " if part.uncounted else ""
    duration = "unknown" if part.duration_s is None else f"{least}{said(part.duration_s)}"
    return (part.model, f"{part.starts} × {load}", str(part.cells), _tokens([part]), duration)


def _total(found: Estimate) -> tuple[str, ...]:
    starts, cells = (sum(getattr(part, name) for part in found.models) for name in ("starts", "cells"))
    least = f"at least {said(found.known_s)}" if found.known_s else "unknown"
    duration = least if found.duration_s is None or found.uncounted else said(found.duration_s)
    return ("all", str(starts), str(cells), _tokens(found.models), duration)


def _tokens(parts: Sequence[ModelEstimate]) -> str:
    """Tokens generated at most, and those of the prompts, where some are known; `≥` where not all are."""
    prompts = sum(part.prompt_tokens for part in parts)
    mark = "≥ " if any(part.unknown_prompts for part in parts) else ""
    return f"{sum(part.tokens for part in parts)} + {f'{mark}{prompts}' if prompts else UNKNOWN}"


def _sources(found: Estimate) -> list[str]:
    """Say where the figures come from, and where one config's stand for another's."""
    labels: dict[str, list[str]] = {}
    stand_ins: dict[str, list[str]] = {}
    for part in found.models:
        for label in dict.fromkeys(origin.label for origin in part.origins.values()):
            labels.setdefault(label, []).append(part.model)
        for config, origin in part.origins.items():
            if origin.config != config:
                stand_ins.setdefault(origin.config, []).append(f"{part.model}/{config}")
    lines = [f"figures of {', '.join(models)}: {label}" for label, models in labels.items()]
    return lines + [
        f"not measured yet, so taken to be as fast as {config}, with {MARGIN:.0%} on top: {', '.join(names)}"
        for config, names in stand_ins.items()
    ]


def _uncounted(found: Estimate, *, probe: bool) -> list[str]:
    """Say which prompts are in no duration, and which only by the mean of others."""
    lines = [
        f"{part.unknown_prompts} prompts of {part.model} of unknown length count as the mean of the others"
        for part in found.models
        if part.unknown_prompts and part.duration_s is not None and not part.uncounted
    ]
    if found.uncounted:
        advice = "" if probe else "; --ngram-probe finds out"
        names = ", ".join(found.uncounted)
        lines.append(f"prompts of {names} are not counted: their length is not known{advice}")
    return lines


def _missing(found: Estimate, *, probe: bool) -> list[str]:
    if not found.unknown:
        return []
    names = ", ".join(found.unknown)
    why = f"nothing measured yet on this host with this engine of {names}"
    advice = "the probe did not end well" if probe else "--ngram-probe takes one start a model"
    return [f"duration unknown: {why}; {advice}"]
