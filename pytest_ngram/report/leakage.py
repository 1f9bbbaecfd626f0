"""Lines that say what of the prompts is in the corpus of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_ngram.matrix.spec import LeakageSpec
from pytest_ngram.record import ECHO, Leakage, Record
from pytest_ngram.report.numbers import counted

_CLOSE = 0.5  # of a bound
_LEAST = 0.01


def leakage_lines(records: Iterable[Record], bounds: Mapping[str, LeakageSpec]) -> list[str]:
    """Return one line for each model and config with a table; prompts taken out of a corpus are not told of.

    Args:
        records: of a run.
        bounds: those of each config's table, by config.
    """
    prompts: dict[tuple[str, str], dict[str, Leakage | None]] = {}
    for record in records:
        cell = record.cell
        if record.table is not None and cell.config in bounds and cell.prompt_set != ECHO:
            prompts.setdefault((cell.model, cell.config), {})[cell.prompt] = record.table.leakage
    return [f"{model}/{config}: {_line(found, bounds[config])}" for (model, config), found in prompts.items()]


def _line(prompts: Mapping[str, Leakage | None], bounds: LeakageSpec) -> str:
    known = {prompt: found for prompt, found in prompts.items() if found is not None}
    if not known:
        return "whether its prompts are in the corpus of the table is not known: it is a ready file"
    above = [prompt for prompt, found in known.items() if _of_bound(found, bounds) > 1]
    close = [prompt for prompt, found in known.items() if _CLOSE < _of_bound(found, bounds) <= 1]
    if above:
        line = f"{len(above)} of {len(known)} prompts are in the corpus of the table: {', '.join(above)}"
    else:
        line = f"no prompt of {len(known)} is in the corpus of the table: {_most(known.values())}"
    line += f"; above half of a bound: {', '.join(close)}" if close else ""
    short = sum(found.share is None for found in known.values())
    return f"{line}; too short to tell, fewer than 8 tokens: {short}" if short else line


def _most(found: Iterable[Leakage]) -> str:
    found = list(found)
    run = max((each.run for each in found if each.run is not None), default=None)
    share = max((each.share for each in found if each.share is not None), default=None)
    said = [] if run is None else [f"longest run {counted(run, 'token')}"]
    return ", ".join([*said, *([] if share is None else [_of_grams(share)])])


def _of_grams(share: float) -> str:
    if share == 0:
        return "no 8-gram"
    return f"at most {share:.0%} of 8-grams" if share >= _LEAST else f"less than {_LEAST:.0%} of 8-grams"


def _of_bound(found: Leakage, bounds: LeakageSpec) -> float:
    """How far a prompt is towards its nearest bound; above 1 it is a leak."""
    run = (found.run or 0) / bounds.max_run_tokens
    share = found.share or 0.0
    of_share = share / bounds.max_share if bounds.max_share else float(share > 0) * 2
    return max(run, of_share)
