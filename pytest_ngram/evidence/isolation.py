"""The gates of isolation: what one request leaves behind for the next, or does to the one beside it."""

from __future__ import annotations

import msgspec

from pytest_ngram.evidence.differences import Differences
from pytest_ngram.evidence.runs import Runs
from pytest_ngram.judge import isolation
from pytest_ngram.judge.identity import Seen
from pytest_ngram.judge.types import Answer, Verdict, worst
from pytest_ngram.matrix.gates import GateCase, prompt_of

_MIXED = "how wide its verify batches were is not known: the lines of two requests are mixed in the log"


class Isolation:
    """One session's gates of isolation.

    Args:
        runs: asks servers.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._differences = Differences(runs)

    def after_others(self, case: GateCase) -> Verdict:
        """Return whether a prompt is answered and drafted for after others as on a fresh server."""
        prompts = self._runs.prompts(case.model)
        before = prompts[: prompts.index(prompt_of(case))]
        alone = self._runs.fresh(case.model, case.config, prompt_of(case))
        after = self._runs.warmed(case.model, case.config)[prompt_of(case)]
        return self._judge(case, alone, after, f"after {', '.join(before)}")

    def three_times(self, case: GateCase) -> Verdict:
        """Return whether the same prompt is answered and drafted for equally three times over."""
        first, *again = self._runs.three_times(case.model, case.config, prompt_of(case))
        return worst(
            [
                self._judge(case, first, answer, f"the {word} time")
                for word, answer in zip(("second", "third"), again, strict=True)
            ]
        )

    def second_slot(self, case: GateCase) -> Verdict:
        """Return whether slot 1 answers as if nothing had been asked of slot 0."""
        first = self._other_prompt(case)
        alone, other, after = self._runs.second_slot(case.model, case.config, first, prompt_of(case))
        what = f"after {first} on slot 0"
        placed = isolation.on_slots(("alone", alone, 1), (first, other, 0), (what, after, 1))
        own_kind = isolation.DRAFTS_DIFFER_ON_ANOTHER_SLOT
        return worst([placed, self._judge(case, alone, after, what, differ=own_kind)])

    def at_once(self, case: GateCase) -> Verdict:
        """Return whether two slots that work together give the texts that each gives alone."""
        first = self._other_prompt(case)
        together = self._runs.at_once(case.model, case.config, first, prompt_of(case))
        verdicts = [
            self._judge(
                msgspec.structs.replace(case, prompt=answer.prompt),
                self._runs.fresh(case.model, case.config, answer.prompt),
                answer,
                f"together with {other}",
                counts=False,
            )
            for answer, other in zip(together.answers, (prompt_of(case), first), strict=True)
        ]
        return worst([isolation.at_once(together), *verdicts])

    def _judge(
        self,
        case: GateCase,
        alone: Answer,
        beside: Answer,
        what: str,
        *,
        counts: bool = True,
        differ: str = isolation.DRAFTS_DIFFER,
    ) -> Verdict:
        seen = Seen(
            expected=alone.tokens,
            got=beside.tokens,
            prompts=alone.prompt_ids == beside.prompt_ids,
            widths=beside.trace.widths if beside.trace is not None else None,
            unknown=() if counts else (_MIXED,),
        )
        shown = self._differences.shown(case, seen)
        return isolation.judge(alone, beside, what=what, seen=shown, counts=counts, differ=differ)

    def _other_prompt(self, case: GateCase) -> str:
        return next((name for name in self._runs.prompts(case.model) if name != case.prompt), prompt_of(case))
