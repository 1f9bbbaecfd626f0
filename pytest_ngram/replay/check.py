"""Whether the drafters do what a recorded server did: drafted and accepted of each request, step by step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.drafting.counts import Counts
from pytest_ngram.drafting.policy import Policy
from pytest_ngram.drafting.slot import Replayed, Slot
from pytest_ngram.drafting.streams import Asked, Served, verify_steps
from pytest_ngram.errors import TableError
from pytest_ngram.matrix.spec import STATEFUL_TYPES
from pytest_ngram.record import Engine
from pytest_ngram.replay.recorded import policy_of, slots, table_paths
from pytest_ngram.replay.tables import load_counts


@dataclass(frozen=True)
class Compared:
    """One request.

    Args:
        id: as `streams.Asked`.
        difference: what differs; None where it is equal, or cannot be compared.
        skipped: why it cannot be compared; None where it was.
        ties, undefined: as `slot.Replayed`.
        by_step: whether its steps were compared, and not its sums alone.
    """

    id: str
    difference: str | None = None
    skipped: str | None = None
    ties: int = 0
    undefined: int = 0
    by_step: bool = False


class Tables:
    """The tables of a run's servers, each read once.

    Args:
        given: a file to use in place of the one that a record names.
    """

    def __init__(self, given: Path | None = None) -> None:
        self._given = given
        self._known: dict[tuple[str, str | None], Counts] = {}

    def of(self, served: Served) -> tuple[Counts | None, Counts | None]:
        """Return a server's static and dynamic table. Raises `TableError`."""
        record = served.record
        static, dynamic = table_paths(record.engine) if record.engine is not None else (None, None)
        sha256 = record.table.sha256 if record.table is not None else None
        if static is None and sha256 is not None:
            raise TableError("the run's table is not named", fix="name it with --table")
        path = str(self._given) if static is not None and self._given is not None else static
        return self._load(path, sha256), self._load(dynamic, None)

    def _load(self, path: str | None, sha256: str | None) -> Counts | None:
        if path is None:
            return None
        key = (path, sha256)
        if key not in self._known:
            self._known[key] = load_counts(Path(path), sha256)
        return self._known[key]


def check(servers: Iterable[Served], tables: Tables) -> list[Compared]:
    """Replay each server's requests with its own policy, and compare; those without drafts are left out."""
    return [compared for served in servers for compared in _check(served, tables)]


def _check(served: Served, tables: Tables) -> list[Compared]:
    why, policy = _unfit(served)
    if policy is None or why is not None:
        return [Compared(each.id, skipped=why) for each in served.asked]
    if not policy.drafters:
        return []
    try:
        static, dynamic = tables.of(served)
    except TableError as error:
        return [Compared(each.id, skipped=error.cause) for each in served.asked]
    slot = Slot(
        policy,
        longest=served.longest,
        total=served.total,
        restores=bool(served.restores),
        static=static,
        dynamic=dynamic,
    )
    if served.warmup is not None:
        slot.replay(served.warmup)
    stateful = _stateful(policy)
    found = []
    lost = False
    for number, asked in enumerate(served.asked):
        lost = lost or (stateful and served.unsure_from is not None and number >= served.unsure_from)
        if asked.request is None or lost:
            lost = stateful
            why = asked.lacks if asked.request is None else "the server saw a request that is not recorded"
            found.append(Compared(asked.id, skipped=why))
            continue
        found.append(_compare(asked, slot.replay(asked.request)))
    return found


def _unfit(served: Served) -> tuple[str | None, Policy | None]:
    """Why a server cannot be replayed, or its policy."""
    engine = served.record.engine
    policy = policy_of(engine) if engine is not None else None
    if engine is None or policy is None:
        return "a model drafts in its config, or what drafts is not told", None
    if any(flag in engine.argv for flag in ("--spec-synth-len", "--spec-synth-rates")):
        return "its acceptance was made up by --spec-synth", None
    return (_forgotten(served, engine) if _stateful(policy) else None), policy


def _forgotten(served: Served, engine: Engine) -> str | None:
    """What a server remembered that the record does not have."""
    for is_so, why in (
        (served.warmup is None, "its warm-up is not recorded, and its types remember it"),
        (engine.kind == "url", "what its server saw before is not known, and its types remember it"),
        (slots(engine) != 1, "its server has several slots, and which one answered is not recorded"),
        (served.unsure_from == 0, "its server saw requests that are not recorded"),
    ):
        if is_so:
            return why
    return None


def _stateful(policy: Policy) -> bool:
    return any(drafter.name in STATEFUL_TYPES for drafter in policy.drafters)


def _compare(asked: Asked, replayed: Replayed) -> Compared:
    recorded = asked.recorded
    told = verify_steps(recorded)
    ties, undefined = replayed.ties, replayed.undefined
    if recorded.drafted is None or recorded.accepted is None:
        return Compared(asked.id, skipped="what was drafted and accepted is not recorded")
    difference = None
    then, now = (recorded.drafted, recorded.accepted), (replayed.drafted, replayed.accepted)
    if told is not None:
        difference = _first_difference(told, replayed.pairs)
    if difference is None and then != now:
        difference = f"accepted {then[1]} of {then[0]} drafted, replayed {now[1]} of {now[0]}"
    return Compared(asked.id, difference, None, ties, undefined, told is not None)


def _first_difference(then: list[tuple[int, int]], now: list[tuple[int, int]]) -> str | None:
    if then == now:
        return None
    at = next(
        (i for i, (a, b) in enumerate(zip(then, now, strict=False)) if a != b), min(len(then), len(now))
    )
    step = [f"{pairs[at][1]}/{pairs[at][0]}" if at < len(pairs) else "none" for pairs in (then, now)]
    sums = [f"{sum(k for _, k in pairs)} of {sum(n for n, _ in pairs)}" for pairs in (then, now)]
    return (
        f"verify step {at + 1}: accepted {step[0]}, replayed {step[1]}; in all {sums[0]}, replayed {sums[1]}"
    )
