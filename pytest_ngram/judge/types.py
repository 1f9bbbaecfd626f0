"""What is judged, and what a judgement is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Status = Literal["passed", "failed", "known issue", "cannot compare", "not checked"]
STATUSES: tuple[Status, ...] = ("passed", "failed", "known issue", "cannot compare", "not checked")
STORED = "stored"  # the class of a golden that was just made, and so not compared
NO_CASES = "no cases"  # the class of a test that asks nothing, and so proves nothing
NONE_NEEDED = "no cases needed"  # the same where a matrix may rightly have none for it
GATES = (
    "control",
    "prompt",
    "identity",
    "vacuity",
    "isolation",
    "accounting",
    "golden",
    "seam",
    "known issues",
)


class Trace(msgspec.Struct, frozen=True):
    """The server's own lines about each verify step of one request, replays set apart. Counts of tokens.

    `widths` are the tokens of the verify batches (draft + 1), smallest and largest; `ends_whole` is whether
    the last of these drafts was accepted as a whole. Both are None without a draft.
    """

    verify: int
    replays: int
    drafted: int
    accepted: int
    per_position: tuple[int, ...]
    widths: tuple[int, int] | None = None
    ends_whole: bool | None = None


class TypeCounts(msgspec.Struct, frozen=True):
    """What the `statistics` line of one drafting type grew by in one request, in tokens."""

    drafted: int
    accepted: int


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer and every count of it, each from its own source.

    Args:
        prompt: the prompt's id.
        prompt_ids: what the server's own template and tokenizer made of it.
        tokens: the generated ids.
        text: the tokens' text, for those who read goldens.
        stop: `eos`, `limit` or `word`.
        prompt_n, cache_n, predicted_n, draft_n, draft_n_accepted: of `timings`, in tokens; the last two are
            None where the answer lacks them, as it does where nothing was drafted.
        metrics: `/metrics` after the request minus before, by name; None where the server has none.
        trace: of the log; None where its closing line never came.
        by_type: growth of the `statistics` lines; None where there is no log of the request.
        prompt_decodes: decodes that a prompt of this length takes.
        id_slot: the slot that worked on it, as the answer says; None where it does not.
    """

    prompt: str
    prompt_ids: tuple[int, ...]
    tokens: tuple[int, ...]
    text: str = ""
    stop: str
    prompt_n: int
    cache_n: int
    predicted_n: int
    draft_n: int | None
    draft_n_accepted: int | None
    metrics: dict[str, float] | None
    trace: Trace | None
    by_type: dict[str, TypeCounts] | None
    prompt_decodes: int
    id_slot: int | None = None

    @property
    def drafted(self) -> int:
        """Tokens drafted, as the answer says."""
        return self.draft_n or 0

    @property
    def accepted(self) -> int:
        """Of these, accepted."""
        return self.draft_n_accepted or 0


class Together(msgspec.Struct, frozen=True):
    """Two answers that slots of one server worked on at once, and how often it decoded for both.

    `decodes` is the growth of `/metrics` `n_decode_total`; None where the server has no such count.
    """

    answers: tuple[Answer, Answer]
    decodes: float | None


class Margin(msgspec.Struct, frozen=True):
    """How sure the baseline was of one token: its lead over the runner-up, in nats."""

    token: int
    runner_up: int
    lead: float


class Verdict(msgspec.Struct, frozen=True):
    """What a gate found.

    Args:
        gate: one of `GATES`.
        status: what is counted.
        kind: the class of what was seen, such as `logic fault`; None where nothing was.
        lines: what a reader needs to see it for himself.
    """

    gate: str
    status: Status
    kind: str | None = None
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The first line names gate, class and what was seen; the others follow."""
        head = f"{self.gate}: {self.kind or self.status}"
        return "\n".join([head, *(f"  {line}" for line in self.lines)])


def passed(gate: str, *lines: str, kind: str | None = None) -> Verdict:
    """Return a pass; a kind on it is counted apart on the last lines."""
    return Verdict(gate, "passed", kind, lines)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict that decides over several; of equally bad ones the first.

    Failed is worse than what could not be compared or was not checked, then a known issue, then a pass of a
    kind that is counted apart, such as a near-tie, then a plain pass.
    """
    order = ("failed", "cannot compare", "not checked", "known issue", "passed")
    return min(verdicts, key=lambda each: (order.index(each.status), each.kind is None))


def failed(gate: str, kind: str, lines: Sequence[str]) -> Verdict:
    """Return a failure of a class."""
    return Verdict(gate, "failed", kind, tuple(lines))
