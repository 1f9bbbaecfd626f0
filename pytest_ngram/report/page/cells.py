"""The table of all cells, to which other numbers link, and what speaks against some of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pytest_ngram.record import ECHO, Record
from pytest_ngram.report.catalogue import Catalogue
from pytest_ngram.report.numbers import UNKNOWN, number
from pytest_ngram.report.page.types import CellGroup, CellRow, CellTable, Head, Notice, Td
from pytest_ngram.verdict.contention import is_contended, is_throttled
from pytest_ngram.verdict.shares import acceptance, coverage, mean_of, tokens_per_step, total
from pytest_ngram.verdict.summary import BASELINE, seconds_per_token

_HEAD = ("outcome", "tg", "tokens", "acceptance", "coverage", "per-step", "pp", "rss", "marks")
_WORDS = {"outcome", "marks"}


class Cells:
    """The cells of a model at a temperature, in the order in which they are shown, with the ids to link to.

    Args:
        prefix: of all ids, so that they are unique in the page.
        records: the cells.
        config_order: of the configs; the others come after these.
    """

    def __init__(self, prefix: str, records: Sequence[Record], config_order: Sequence[str]) -> None:
        rank = {config: i for i, config in enumerate(config_order)}
        seen = {record.cell.config: None for record in records}
        self.configs = sorted(seen, key=lambda name: (name != BASELINE, rank.get(name, len(rank))))
        place = {config: i for i, config in enumerate(self.configs)}
        self.records = sorted(records, key=lambda record: (place[record.cell.config], *_within(record)))
        self.id = f"{prefix}cells"
        self._ids = {id(record): f"{prefix}c{n}" for n, record in enumerate(self.records, 1)}
        self._groups = {config: f"{prefix}g{n}" for n, config in enumerate(self.configs, 1)}
        pairs = dict.fromkeys((record.cell.config, record.cell.prompt) for record in self.records)
        self._pairs = {pair: f"{prefix}p{n}" for n, pair in enumerate(pairs, 1)}

    def of(self, config: str, prompt: str | None = None) -> list[Record]:
        """Return the cells of a config, or of a config and a prompt."""
        return [r for r in self.records if r.cell.config == config and prompt in (None, r.cell.prompt)]

    def href(self, config: str, prompt: str | None = None) -> str | None:
        """Return the link to the cells of a config, or of a config and a prompt; None without any."""
        found = self._groups.get(config) if prompt is None else self._pairs.get((config, prompt))
        return None if found is None else f"#{found}"

    def href_of(self, record: Record) -> str:
        """Return the link to one cell."""
        return f"#{self._ids[id(record)]}"

    def table(self, texts: Catalogue, caption: str) -> CellTable:
        """Return the table."""
        head = (
            Head(texts.tell("cells-cell"), number=False),
            *(
                Head(texts.tell(f"cells-{name}"), texts.tell(f"cells-{name}-hint"), name not in _WORDS)
                for name in _HEAD
            ),
        )
        groups = []
        before = None
        for (config, prompt), own in groupby(self.records, key=lambda r: (r.cell.config, r.cell.prompt)):
            groups.append(
                CellGroup(
                    id=self._pairs[config, prompt],
                    config_id=self._groups[config],
                    config=config,
                    prompt=prompt,
                    first=config != before,
                    rows=tuple(self._row(record, texts) for record in own),
                )
            )
            before = config
        return CellTable(self.id, caption, head, tuple(groups))

    def notices(self, texts: Catalogue, *, well: bool) -> tuple[Notice, ...]:
        """Return what speaks against cells: against those that ended well, or against the others."""
        return tuple(
            self._notice(record, reasons, texts)
            for record in self.records
            if (record.outcome.status == "ok") is well and (reasons := _reasons(record, texts))
        )

    def _notice(self, record: Record, reasons: Sequence[str], texts: Catalogue) -> Notice:
        own, status = self._ids[id(record)], record.outcome.status
        marks = ", ".join(texts.tell(f"mark-{name}") for name in _marks(record))
        return Notice(
            id=f"n-{own}",
            name=name_of(record),
            href=f"#{own}",
            status=marks if status == "ok" and marks else texts.tell(f"outcome-{status}"),
            reason="\n".join(reasons),
            log_tail=record.outcome.log_tail,
        )

    def _row(self, record: Record, texts: Catalogue) -> CellRow:
        rounds, own = record.rounds, self._ids[id(record)]
        status = record.outcome.status
        marks = [texts.tell(f"mark-{name}") for name in _marks(record)]
        values = (
            number(tg_of(record)),
            number(total(rounds, "predicted_n"), "d"),
            number(acceptance(rounds), ".3f"),
            number(coverage(rounds), ".0%"),
            number(tokens_per_step(rounds), ".2f"),
            number(pp_of(record)),
            number(record.memory.rss_mb if record.memory else None, ".0f"),
        )
        href = f"#n-{own}" if _reasons(record, texts) else None
        return CellRow(
            id=own,
            cells=(
                Td(_short_name(record), number=False),
                Td(texts.tell(f"outcome-{status}"), href if status != "ok" else None, number=False),
                *map(Td, values),
                Td(", ".join(marks), href if marks else None, number=False),
            ),
            bad=status != "ok",
        )


def name_of(record: Record) -> str:
    """Return the id that `-k` and the terminal have for a cell."""
    cell = record.cell
    return f"{cell.model}/{cell.config}/{cell.prompt}/t{cell.temperature:g}/{_short_name(record)}"


def pp_of(record: Record) -> float | None:
    """Prompt tokens per second."""
    tokens = total(record.rounds, "prompt_n")
    ms = mean_of(round_.prompt_ms for round_ in record.rounds)
    return None if not tokens or not ms else 1000 * tokens / (ms * len(record.rounds))


def tg_of(record: Record) -> float | None:
    """Tokens per second of a cell: 1 ÷ the mean over its rounds; None where any of them has none."""
    seconds = mean_of(map(seconds_per_token, record.rounds))
    return 1 / seconds if seconds else None


def _short_name(record: Record) -> str:
    cell = record.cell
    return f"b{cell.block}/{cell.pass_}" if cell.config == BASELINE else f"b{cell.block}"


def _within(record: Record) -> tuple[str, int, str]:
    return record.cell.prompt, record.cell.block, record.cell.pass_


def _marks(record: Record) -> list[str]:
    paged = record.memory is not None and bool(record.memory.majflt)
    told = (
        ("contended", is_contended(record)),
        ("throttled", is_throttled(record)),
        ("repeated", record.disturbance is not None and record.disturbance.repeats > 0),
        ("paged", paged),
        ("echo", record.cell.prompt_set == ECHO),
    )
    return [name for name, true in told if true]


def _reasons(record: Record, texts: Catalogue) -> list[str]:
    """What is said of a cell, each reason in the words of the record."""
    told = [record.outcome.reason] if record.outcome.reason else []
    if record.outcome.status != "ok" and not told:
        told.append(UNKNOWN)
    disturbance = record.disturbance
    if disturbance is not None:
        told += [texts.tell("notice-contended", why=why) for why in disturbance.contended]
        told += [texts.tell("notice-throttled", why=why) for why in disturbance.throttled]
        if told and disturbance.not_repeated:
            told.append(texts.tell("notice-not-repeated", why=disturbance.not_repeated))
    elif is_contended(record):
        told.append(texts.tell("notice-pressure"))
    return told
