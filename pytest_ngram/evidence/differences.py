"""What servers are asked about the first difference of two texts, only where there is one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pytest_ngram.errors import EngineError
from pytest_ngram.evidence.runs import Runs
from pytest_ngram.judge.identity import Seen, first_difference
from pytest_ngram.judge.types import Margin
from pytest_ngram.matrix.gates import GateCase, prompt_of


class Differences:
    """Asks the baseline how sure it was where two texts part.

    Args:
        runs: asks servers.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def margin(self, case: GateCase, expected: Sequence[int], index: int) -> Margin | None:
        """Return the baseline's lead at a place that it reached by the same tokens. Raises `EngineError`."""
        text = self._runs.margins(case.model)[prompt_of(case)]
        same_way = text.tokens[:index] == tuple(expected[:index])
        return text.margins[index] if same_way and index < len(text.margins) else None

    def bound(self, model: str) -> float:
        """The hand-built model's leads are built to be out of rounding's reach: it has no near-ties."""
        handbuilt = self._runs.servers.matrix.models[model].generate is not None
        return 0.0 if handbuilt else self._runs.bound(model)

    def shown(self, case: GateCase, seen: Seen) -> Seen:
        """Add the baseline's lead to a difference whose class does not depend on it.

        A server that cannot tell the lead does not hide the difference: that, too, is said.
        """
        index = first_difference(seen.expected, seen.got)
        if index is None or not seen.prompts:
            return seen
        try:
            margin = self.margin(case, seen.expected, index)
        except EngineError as error:
            return _unknown(seen, f"the baseline could not be asked for its lead: {error.cause}")
        if margin is None:
            return _unknown(
                seen, "the baseline's lead is not known: its own text parts, or ends, before that"
            )
        return msgspec.structs.replace(seen, margin=margin)


def _unknown(seen: Seen, line: str) -> Seen:
    return msgspec.structs.replace(seen, unknown=(*seen.unknown, line))
