"""The terminal table: one a model, made of lines that a hook prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_ngram.record import Record
from pytest_ngram.report.numbers import UNKNOWN, counted, number
from pytest_ngram.verdict.summary import BASELINE, ModelSummary, Row, Spread

_CHECKED = "  checked: "  # as errors.NgramError writes it
_SHORT = 120
HEADER = (
    "config",
    "tg t/s",
    "in blocks",
    f"vs {BASELINE}",
    "in blocks",
    "accept @ coverage",
    "tok/step",
    "pp t/s",
    "RSS MiB",
    "cells",
)
COST_HEADER = (
    "config",
    "draft",
    "verify",
    "replay",
    "plain",
    "rest",
    "accepted len",
    "step ms by tokens verified",
)
# What a narrow terminal does without, in this order: columns of HEADER, and what to call them.
_SPARE = ((8, "RSS MiB"), (7, "pp t/s"), (4, f"vs {BASELINE} in blocks"), (2, "tg t/s in blocks"))


def table_lines(summary: ModelSummary, columns: int | None = None) -> list[str]:
    """Return the table of one model, its title first.

    Args:
        summary: of the model.
        columns: of the terminal; None where that is not known, and then nothing is left out.
    """
    has_baseline = any(row.config == BASELINE for row in summary.rows)
    cells = [HEADER, *(_cells(row, has_baseline, summary.noise) for row in summary.rows)]
    cells, left_out = _narrowed(cells, columns)
    widths = _widths(cells)
    lines = [_title(summary)]
    for i, row in enumerate(cells):
        lines.append(
            "  " + "  ".join(_pad(text, widths[n], left=n == 0) for n, text in enumerate(row)).rstrip()
        )
        if i == 0:
            lines.append("  " + "  ".join("-" * width for width in widths))
    notes = _notes(summary, has_baseline)
    if left_out:
        notes.append(f"columns left out for want of width: {', '.join(left_out)}; all are in the JSON")
    return [*lines, *cost_lines(summary, columns), *(f"  {note}" for note in notes)]


def cost_lines(summary: ModelSummary, columns: int | None = None) -> list[str]:
    """Return where the time of a generated token goes, by config; nothing where no config drafted.

    Args:
        summary: of the model.
        columns: of the terminal; step times that do not fit are left out, and a `…` says so.
    """
    rows = [row for row in summary.rows if row.cost is not None]
    if not any(row.cost and row.cost.verify_ms for row in rows):
        return []
    cells = [COST_HEADER, *(_cost_cells(row) for row in rows)]
    widths = _widths(cells)
    widths[-1] = 0
    lines = ["", "  ms per generated token; draft without MTP's catch-up decode, verify with it"]
    for row in cells:
        text = "  ".join(_pad(cell, widths[n], left=n in (0, 7)) for n, cell in enumerate(row))
        lines.append("  " + _cut(text.rstrip(), columns))
    return lines


def _cut(text: str, columns: int | None) -> str:
    return text if columns is None or len(text) + 2 <= columns else text[: max(0, columns - 3)] + "…"


def _cost_cells(row: Row) -> tuple[str, ...]:
    cost = row.cost
    if cost is None:
        return (row.config, *[UNKNOWN] * 7)
    parts = (cost.draft_ms, cost.verify_ms, cost.replay_ms, cost.plain_ms, cost.rest_ms)
    told = [f"{ms:.3f}" for ms in parts]
    if cost.plain_from == "unclear":
        told[1], told[3] = f"~{told[1]}", f"~{told[3]}"
    length = number(row.mean_accepted_length, ".2f")
    return (row.config, *told, length, ", ".join(f"{width}: {ms:.2f}" for width, ms in row.step_ms.items()))


def _widths(cells: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def _narrowed(cells: list[tuple[str, ...]], columns: int | None) -> tuple[list[tuple[str, ...]], list[str]]:
    """The rows with as many spare columns left out as it takes, and the names of those."""
    left_out: list[str] = []
    for place, name in _SPARE:
        if columns is None or sum(width + 2 for width in _widths(cells)) <= columns:
            break
        cells = [(*row[:place], *row[place + 1 :]) for row in cells]
        left_out.append(name)
    return cells, left_out


def failure_lines(records: Iterable[Record]) -> list[str]:
    """Return one line per distinct failure: its outcome, its cells, its cause, and a short `checked`."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    checked: dict[tuple[str, str, str], set[str]] = {}
    for record in records:
        status = record.outcome.status
        reason = (record.outcome.reason or "no reason known").splitlines()[0]
        # a config is inert, not a cell
        whole = (
            f"{_config_of(record)} at temperature {record.cell.temperature:g}" if status == "inert" else ""
        )
        grouped.setdefault((status, reason, whole), []).append(_name(record))
        checked.setdefault((status, reason, whole), set()).add(_checked(record))
    return [
        f"{key[0]}: {key[2] or names[0]}{_more(names, whole=bool(key[2]))}: {key[1]}{_shared(checked[key])}"
        for key, names in grouped.items()
    ]


def _checked(record: Record) -> str:
    """Return the first thing that was looked at before the cell was given up, such as a path.

    Of an inert config it is a count, which is of no use in a line.
    """
    if record.outcome.status == "inert":
        return ""
    lines = (record.outcome.reason or "").splitlines()
    return next((line.removeprefix(_CHECKED) for line in lines if line.startswith(_CHECKED)), "")


def _shared(checked: set[str]) -> str:
    """What was checked, in brackets, if it is short and the same for all cells of a line."""
    text = next(iter(checked)) if len(checked) == 1 else ""
    return f" ({text})" if 0 < len(text) <= _SHORT else ""


def _config_of(record: Record) -> str:
    return f"{record.cell.model}/{record.cell.config}"


def _name(record: Record) -> str:
    cell = record.cell
    name = f"{_config_of(record)}/{cell.prompt}/t{cell.temperature:g}/b{cell.block}"
    return f"{name}/{cell.pass_}" if cell.config == BASELINE else name


def _more(names: Sequence[str], *, whole: bool) -> str:
    if whole:
        return f", {counted(len(names), 'cell')}"
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _title(summary: ModelSummary) -> str:
    text = f"{summary.model}: {counted(summary.prompts, 'prompt')}, temperature {summary.temperature:g}"
    if summary.noise is not None:
        text += f"; {BASELINE} first and last in a block differ by up to {summary.noise:.1%}"
    return text


def _notes(summary: ModelSummary, has_baseline: bool) -> list[str]:
    notes = []
    if not has_baseline:
        notes.append(f"no change can be told without the baseline: add `or {BASELINE}` to -k")
    elif not any(row.config == BASELINE and row.tg for row in summary.rows):
        notes.append(f"no change can be told: no prompt of {BASELINE} ended well in every block")
    blocks = max((row.tg.blocks for row in summary.rows if row.tg), default=0)
    if blocks == 1:
        notes.append("one block only: no spread can be told")
    notes += [
        f"{row.config}: tells of {row.prompts} of {summary.prompts} prompts, those that "
        + ("always ended well" if row.failed else "were measured")
        for row in summary.rows
        if 0 < row.prompts < summary.prompts
    ]
    notes += _partial_changes(summary)
    notes += [f"{row.config}: {row.abstained}" for row in summary.rows if row.abstained]
    unexplained = [row.config for row in summary.rows if row.cost is not None and row.cost.unexplained]
    if unexplained:
        notes.append(f"the steps of the trace do not make up the generation time: {', '.join(unexplained)}")
    if any(row.cost is not None and row.cost.plain_from == "unclear" for row in summary.rows):
        notes.append("~: verify and plain steps could not be told apart well; only their sum is sure")
    if summary.unread:
        notes.append(f"{counted(len(summary.unread), 'request')} without a step trace: {summary.unread[0]}")
    if summary.apart:
        cells = counted(summary.apart, "cell")
        notes.append(f"{cells}: the client waited for over 5 % longer (or shorter) than the server says")
    notes += _disturbed(summary)
    if summary.paged:
        cells = counted(summary.paged, "cell")
        notes.append(f"{cells} read the model from disk while they ran (major page faults)")
    return notes


def _disturbed(summary: ModelSummary) -> list[str]:
    """What speaks against numbers, what was measured again, and what was not."""
    notes = []
    if summary.contended:
        cells = counted(summary.contended, "cell")
        notes.append(f"{cells} contended: others took cores, or tasks waited (the record says which)")
    if summary.throttled:
        notes.append(f"{counted(summary.throttled, 'cell')} throttled: the machine was too hot")
    if summary.repeated:
        requests = counted(summary.repeated, "request")
        notes.append(f"{requests} measured again since they were disturbed; the quietest are kept")
    if summary.stateful:
        cells = counted(summary.stateful, "cell")
        notes.append(f"{cells} disturbed and not measured again: their configs keep state between requests")
    return notes


def _partial_changes(summary: ModelSummary) -> list[str]:
    """Say of a change that it is over less than the speeds of its row, or of the baseline's."""
    measured = {row.config: (row.prompts, row.tg.blocks) for row in summary.rows if row.tg}
    notes = []
    for row in summary.rows:
        shared = (row.prompts_of_change, row.change.blocks) if row.change else None
        if shared is None or {shared} == {measured.get(row.config), measured.get(BASELINE)}:
            continue
        over = f"{counted(shared[0], 'prompt')} × {counted(shared[1], 'block')}"
        shares = f"which it shares with {BASELINE}; the speeds are of more"
        notes.append(f"{row.config}: its change is over {over}, {shares}")
    return notes


def _cells(row: Row, has_baseline: bool, noise: float | None) -> tuple[str, ...]:
    ok = row.cells - sum(row.failed.values())
    failed = "".join(f", {count} {status}" for status, count in sorted(row.failed.items()))
    return (
        row.config,
        number(row.tg.value if row.tg else None),
        _range(row.tg, "{:.1f}"),
        _change(row, has_baseline, noise),
        _range(row.change, "{:+.1%}"),
        acceptance(row),
        number(row.tokens_per_step, ".2f"),
        number(row.pp),
        number(row.rss_mb, ".0f"),
        f"{ok} ok{failed}{', inert as expected' if row.abstained else ''}",
    )


def _change(row: Row, has_baseline: bool, noise: float | None) -> str:
    """A change that the baseline's own two passes reach is marked as noise."""
    if row.config == BASELINE:
        return "baseline"
    if row.change is None:
        return UNKNOWN if has_baseline else f"{UNKNOWN}, add `or {BASELINE}`"
    mark = "noise " if noise is not None and abs(row.change.value) <= noise else ""
    return f"{mark}{row.change.value:+.1%}"


def acceptance(row: Row) -> str:
    """Acceptance never stands without its coverage: 0.9 of one step in fifty is not 0.9 of all."""
    if row.acceptance is None:
        return "nothing drafted" if row.coverage == 0 and row.config != BASELINE else UNKNOWN
    return f"{row.acceptance:.3f} @ {number(row.coverage, '.0%')}"


def _range(spread: Spread | None, form: str) -> str:
    if spread is None or spread.blocks < 2:
        return UNKNOWN
    return f"{form.format(spread.low)}…{form.format(spread.high)}"


def _pad(text: str, width: int, *, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)


def all_lines(summaries: Sequence[ModelSummary], columns: int | None = None) -> list[str]:
    """Return the tables of all models, an empty line between them, for a terminal of so many columns."""
    lines: list[str] = []
    for summary in summaries:
        table = table_lines(summary, columns)
        lines += ["", *table] if lines else table
    return lines
