"""What a verdict is made of: one number of each kind from each cell, whatever it was read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pytest_ngram.record import ECHO, Cell, Pass, Prompt, Record, Status
from pytest_ngram.verdict.contention import is_contended, is_throttled
from pytest_ngram.verdict.shares import mean_of
from pytest_ngram.verdict.summary import seconds_per_token

DISTURBED = ("contended", "throttled")
NOT_TIMED = "untimed"  # why a cell enters nothing that ended well: its answer has a single token


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One cell.

    `seconds` are per generated token, `prompt_seconds` per prompt token; null where not known or not ended
    well. `tokens` were generated. `disturbed` says why the number is not of the engine alone (`contended`,
    `throttled`): such a cell enters nothing and is counted. `strata` are the kinds that the prompt is one of.
    `types`, `flags` and `table` tell which config does without a table what another does with one.
    `idle`: it has a type and is known to have drafted nothing.
    """

    model: str
    temperature: float
    config: str
    prompt: str
    strata: tuple[str, ...] = ()
    block: int
    pass_: Pass = "first"
    status: Status = "ok"
    seconds: float | None
    tokens: int | None = None
    prompt_seconds: float | None = None
    rss_mb: float | None = None
    disturbed: str | None = None
    idle: bool = False
    types: frozenset[str] | None = None
    flags: tuple[str, ...] | None = None
    table: str | None = None

    @property
    def usable(self) -> bool:
        """Whether the cell enters the estimates."""
        return self.status == "ok" and self.disturbed is None and self.seconds is not None


def from_records(records: Iterable[Record], prompts: Iterable[Prompt] = ()) -> list[Sample]:
    """Return a sample of each cell; prompts that were taken out of a table's corpus are left out.

    Args:
        records: cells of one run.
        prompts: of the run. A prompt is of its set, and of its kind where one of these tells it.
    """
    kinds = {each.prompt: each.kind for each in prompts if each.kind is not None}
    return [_sample(record, kinds) for record in records if record.cell.prompt_set != ECHO]


def _sample(record: Record, kinds: Mapping[str, str]) -> Sample:
    cell, engine = record.cell, record.engine
    tokens = [round_.predicted_n for round_ in record.rounds]
    return Sample(
        model=cell.model,
        temperature=cell.temperature,
        config=cell.config,
        prompt=cell.prompt,
        strata=(cell.prompt_set, *_kind(cell, kinds)),
        block=cell.block,
        pass_=cell.pass_,
        status=record.outcome.status,
        seconds=mean_of(map(seconds_per_token, record.rounds)),
        tokens=None if None in tokens else sum(n for n in tokens if n is not None),
        prompt_seconds=_prompt_seconds(record),
        rss_mb=record.memory.rss_mb if record.memory is not None else None,
        disturbed=_disturbed(record),
        idle=bool(types_of(record)) and all(round_.drafted == 0 for round_ in record.rounds),
        types=frozenset(engine.spec_types) if engine is not None else None,
        flags=_flags(engine.argv) if engine is not None else None,
        table=record.table.sha256 if record.table is not None else None,
    )


def types_of(record: Record) -> list[str]:
    """Return the speculative types of a server's command line; none where that is not told."""
    argv = record.engine.argv if record.engine is not None else ()
    named = [argv[i + 1] for i, word in enumerate(argv[:-1]) if word == "--spec-type"]
    return [name for text in named for name in text.split(",") if name and name != "none"]


def _kind(cell: Cell, kinds: Mapping[str, str]) -> tuple[str, ...]:
    return (f"{cell.prompt_set}/{kinds[cell.prompt]}",) if cell.prompt in kinds else ()


def _prompt_seconds(record: Record) -> float | None:
    def of(n: int | None, ms: float | None) -> float | None:
        return ms / 1000 / n if n and ms is not None and ms > 0 else None

    return mean_of(of(round_.prompt_n, round_.prompt_ms) for round_ in record.rounds)


def _disturbed(record: Record) -> str | None:
    """Why a number is not of the engine alone."""
    return "contended" if is_contended(record) else "throttled" if is_throttled(record) else None


_OWN = {"-lcs", "--lookup-cache-static", "--spec-type", "--port", "--host", "--log-file", "--alias"}


def _flags(argv: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line without those that differ between two starts anyway."""
    words = list(argv)
    kept = [word for i, word in enumerate(words) if word not in _OWN and (i == 0 or words[i - 1] not in _OWN)]
    return tuple(kept)
