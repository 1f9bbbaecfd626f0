"""Recorded requests as token streams, in the order in which each server answered them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_ngram.drafting.slot import Request
from pytest_ngram.record import Prompt, Record, Round, ServerStart, unpack_tokens

EOS = "eos"


@dataclass(frozen=True)
class Asked:
    """One recorded request.

    Args:
        id: `model/config/prompt/t0/b1`, with the pass and the round where there are several.
        prompt: the prompt's id.
        request: its tokens; None where they cannot be known, and `lacks` says what.
        recorded: its round.
        lacks: what the record does not have of it.
    """

    id: str
    prompt: str
    request: Request | None
    recorded: Round
    lacks: str | None = None


@dataclass(frozen=True)
class Served:
    """What one server answered, in order.

    Args:
        record: of its first cell, for what all share.
        start: of the run's starts; None where it is not among them.
        warmup: the request that it was warmed up with; None in older records.
        asked: the measured requests.
        unsure_from: the first of these before which the server saw something that is not in the record.
    """

    record: Record
    start: ServerStart | None
    warmup: Request | None
    asked: tuple[Asked, ...]
    unsure_from: int | None

    @property
    def restores(self) -> bool | None:
        """Whether a rejection restores a checkpoint: on a model with recurrent layers. None where unknown."""
        model = self.record.model
        if model is not None and model.recurrent_layers is not None:
            return model.recurrent_layers > 0
        counts = [
            (each.recorded.replays, each.recorded.drafted, each.recorded.accepted) for each in self.asked
        ]
        if any(replays for replays, _drafted, _accepted in counts):
            return True
        rejected = any(replays == 0 and drafted != accepted for replays, drafted, accepted in counts)
        return False if rejected else None

    @property
    def longest(self) -> int:
        """Tokens of the longest request, the warm-up included."""
        return max((len(request.tokens) for request in self.requests()), default=0)

    @property
    def total(self) -> int:
        """Tokens of all requests."""
        return sum(len(request.tokens) for request in self.requests())

    def requests(self) -> list[Request]:
        """All requests that are known, the warm-up first."""
        known = [each.request for each in self.asked if each.request is not None]
        return ([self.warmup] if self.warmup is not None else []) + known


def verify_steps(recorded: Round) -> list[tuple[int, int]] | None:
    """Return drafted and accepted of each verify step; None where no trace tells, or it denies the sums."""
    told = recorded.telemetry.steps if recorded.telemetry is not None else None
    if told is None:
        return None
    numbers = unpack_tokens(told)
    steps = draft_steps(zip(numbers[1::4], numbers[2::4], numbers[3::4], strict=True))
    drafted, accepted = (sum(step[which] for step in steps) for which in range(2))
    return steps if (drafted, accepted) == (recorded.drafted or 0, recorded.accepted or 0) else None


def draft_steps(lines: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Return drafted and accepted of each draft.

    Lines of the trace tell what was drafted, what accepted, and whether a replay follows. The last replay
    confirms what was accepted and the target's own token, which does not count.
    """
    steps: list[tuple[int, int]] = []
    first_drafted: int | None = None
    for drafted, accepted, is_followed in lines:
        if is_followed:
            first_drafted = drafted if first_drafted is None else first_drafted
        elif first_drafted is None:
            steps.append((drafted, accepted))
        else:
            steps.append((first_drafted, max(accepted - 1, 0)))
            first_drafted = None
    return steps


def served(
    records: Iterable[Record], starts: Sequence[ServerStart], prompts: Iterable[Prompt]
) -> list[Served]:
    """Return what each server of a run answered, in the order of the servers' starts.

    Args:
        records: all cells, failed ones too.
        starts: of the run.
        prompts: the ids that prompts became.
    """
    ids = {(each.model, each.prompt): unpack_tokens(each.tokens) for each in prompts}
    by_serial: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if record.server is not None and record.rounds:
            by_serial[record.server.serial].append(record)
    start_of = {start.serial: start for start in starts}
    limits = _limits(by_serial)
    return [_served(by_serial[serial], start_of.get(serial), ids, limits) for serial in sorted(by_serial)]


def _served(
    records: list[Record],
    start: ServerStart | None,
    ids: Mapping[tuple[str, str], Sequence[int]],
    limits: Mapping[str, int],
) -> Served:
    records.sort(key=lambda record: record.server.answered if record.server else 0)
    asked: list[Asked] = []
    unsure_from = None
    for record in records:
        before = record.server.answered if record.server is not None else 0
        if before != len(asked) and unsure_from is None:
            unsure_from = len(asked)
        several = len(record.rounds) > 1
        for number, round_ in enumerate(record.rounds, 1):
            name = _name(record) + (f"#{number}" if several else "")
            asked.append(_asked(name, record, round_, ids, limits))
        if record.outcome.status not in ("ok", "inert") and unsure_from is None:
            unsure_from = len(asked)  # what failed may have been answered in part
    return Served(records[0], start, _warmup(start), tuple(asked), unsure_from)


def _asked(
    name: str,
    record: Record,
    round_: Round,
    ids: Mapping[tuple[str, str], Sequence[int]],
    limits: Mapping[str, int],
) -> Asked:
    prompt = ids.get((record.cell.model, record.cell.prompt))
    ended = round_.stop == EOS
    if prompt is None or round_.tokens is None:
        return Asked(name, record.cell.prompt, None, round_, "its token ids are not in the file")
    answer = unpack_tokens(round_.tokens)
    budget = round_.n_predict if round_.n_predict is not None else len(answer)
    if round_.n_predict is None and ended:  # older records: the limit is known where another answer met it
        known = limits.get(record.cell.model)
        if known is None:
            return Asked(
                name, record.cell.prompt, None, round_, "how many tokens were asked for is not recorded"
            )
        budget = max(known, len(answer))
    tokens = np.array([*prompt, *answer], np.int64)
    return Asked(name, record.cell.prompt, Request(tokens, len(prompt), budget, ended), round_)


def _limits(by_serial: Mapping[int, Sequence[Record]]) -> dict[str, int]:
    """How many tokens were asked for on each model, as answers that ended at the limit show."""
    found: dict[str, int] = {}
    for records in by_serial.values():
        for record in records:
            met = [r.predicted_n for r in record.rounds if r.stop == "limit" and r.predicted_n is not None]
            found[record.cell.model] = max([found.get(record.cell.model, 0), *met])
    return {model: limit for model, limit in found.items() if limit}


def _warmup(start: ServerStart | None) -> Request | None:
    if start is None or start.warmup is None:
        return None
    prompt, answer = unpack_tokens(start.warmup.prompt), unpack_tokens(start.warmup.tokens)
    tokens = np.array([*prompt, *answer], np.int64)
    return Request(tokens, len(prompt), start.warmup.n_predict, start.warmup.stop == EOS)


def _name(record: Record) -> str:
    cell = record.cell
    tail = "/last" if cell.pass_ == "last" else ""
    return f"{cell.model}/{cell.config}/{cell.prompt}/t{cell.temperature:g}/b{cell.block}{tail}"
