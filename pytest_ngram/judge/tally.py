"""What the gates say at the end: one line per kind of gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_ngram.judge.types import GATES, NO_CASES, NONE_NEEDED, STATUSES, STORED, Verdict

SPEED = "compare two saved runs: pytest bench --benchmark-compare=NUMBER --benchmark-compare-fail=mean:20%"
# the seam reports by itself what a build does not have
_SHOWN = 3
_BREAK = "\n"
_MAY_BE_UNCHECKED = frozenset({"seam"})
_JUDGED = frozenset({"passed", "failed", "known issue"})
# no hand-built model, one prompt only, `issues: []`
_MAY_HAVE_NO_CASES = frozenset({"rule", "later", "issue"})


def lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return one line per kind of gate that ran: its counts, and the classes of what was not a plain pass."""
    gates = [gate for gate in GATES if any(verdict.gate == gate for verdict in verdicts)]
    if not gates:
        return []
    width = max(len(gate) for gate in (*gates, "speed"))
    rows = [f"{gate:<{width}}  {_counts([v for v in verdicts if v.gate == gate])}" for gate in gates]
    return [*rows, f"{'speed':<{width}}  1 not checked ({SPEED})"]


def told(verdicts: Sequence[tuple[str, Verdict]]) -> list[str]:
    """Return what is to be read of all that is neither a plain pass nor a failure, equal ones together.

    What cannot be compared is shown whole: that is where two builds part.

    Args:
        verdicts: what each case is called, and its verdict. Failures have a section of their own.
    """
    groups: dict[str, list[str]] = {}
    for name, verdict in verdicts:
        if verdict.status != "failed" and (verdict.status != "passed" or verdict.kind is not None):
            groups.setdefault(_said(verdict), []).append(name)
    return [
        line
        for said, names in groups.items()
        for line in (f"{said.partition(_BREAK)[0]} ({_names(names)})", *said.split(_BREAK)[1:])
    ]


def _said(verdict: Verdict) -> str:
    head = f"{verdict.gate}: {verdict.status}"
    if verdict.status == "cannot compare":
        return _BREAK.join([f"{head}; {verdict.kind}", *(f"  {line}" for line in verdict.lines)])
    return "; ".join(filter(None, [head, verdict.kind, *verdict.lines[:1]]))


def _names(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
    return ", ".join(distinct[:_SHOWN]) + more


def no_cases(gate: str, over: str) -> Verdict:
    """Return the verdict of a test that has no case at all, by what its cases are about."""
    if over in _MAY_HAVE_NO_CASES:
        return Verdict(gate, "not checked", NONE_NEEDED, (f"nothing in the matrix is asked for `{over}`",))
    lines = (f"the matrix and the options leave nothing for `{over}`: see gates.models and gates.configs",)
    return Verdict(gate, "not checked", NO_CASES, lines)


def vacuous(verdicts: Sequence[Verdict]) -> list[str]:
    """Return why a run proves nothing: each kind of gate that ran and judged nothing.

    A run that stores goldens was not asked to judge them. What the seam cannot look at, and a matrix without
    known issues, are no failure beside other gates; a run of nothing else has judged nothing.
    """
    asked = [verdict for verdict in verdicts if verdict.kind != STORED]
    found = []
    for gate in GATES:
        own = [verdict for verdict in asked if verdict.gate == gate]
        if any(verdict.kind == NO_CASES for verdict in own):
            found.append(f"the gate {gate} has a test without cases")
            continue
        if gate == "known issues" and {verdict.kind for verdict in own} == {NONE_NEEDED}:
            continue  # `issues: []` says that there are none
        statuses = {verdict.status for verdict in own}
        if statuses and not statuses & _JUDGED and gate not in _MAY_BE_UNCHECKED:
            found.append(f"the gate {gate} judged nothing: {' and '.join(sorted(statuses))} in every case")
    if asked and not found and not any(verdict.status in _JUDGED for verdict in asked):
        counted = Counter(f"{verdict.status}, {verdict.kind}" for verdict in asked)
        said = "; ".join(f"{count} {what}" for what, count in sorted(counted.items()))
        found.append(f"no gate was judged at all: {said}")
    return found


def not_compared(verdicts: Sequence[tuple[str, Verdict]]) -> list[str]:
    """Return a line for each gate and model of which not one case could be compared.

    Other models may carry the gate, so that the run is green: that must not hide it.

    Args:
        verdicts: what each case is called, `model/config/prompt`, and its verdict.
    """
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for name, verdict in verdicts:
        if "/" in name:
            groups.setdefault((verdict.gate, name.partition("/")[0]), []).append(verdict)
    return [
        f"{gate} of {model}: {_kinds(own)}, and no case that was compared"
        for (gate, model), own in groups.items()
        if all(verdict.status == "cannot compare" for verdict in own)
    ]


def _counts(verdicts: Sequence[Verdict]) -> str:
    by_status = Counter(verdict.status for verdict in verdicts)
    parts = [f"{by_status[status]} {status}" for status in STATUSES]
    kinds = _kinds(verdicts)
    return ", ".join(parts) + (f" ({kinds})" if kinds else "")


def _kinds(verdicts: Iterable[Verdict]) -> str:
    counted = Counter(verdict.kind for verdict in verdicts if verdict.kind is not None)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counted.items()))
