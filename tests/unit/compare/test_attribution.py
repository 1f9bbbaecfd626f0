"""The attribution: its parts add up, each input moves its own part, and old and new are alike to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_ngram.record import RunData, Telemetry
from pytest_ngram.verdict.attribution import PARTS, Attribution, Inputs, attribute, attribution_of, cost_ms

TIMES = st.floats(0.01, 1000)


@st.composite
def of_steps(draw: st.DrawFn, least: int = 0) -> Inputs:
    """What a trace may have made: at least so many plain and verify steps, replays and accepted tokens."""
    plain, verify = draw(st.integers(least, 50)), draw(st.integers(least, 50))
    plain = plain or (verify == 0)
    accepted = draw(st.integers(least, 200)) if verify else 0
    replays = draw(st.integers(least, verify)) if verify else 0
    return Inputs(
        coverage=verify / (plain + verify),
        accepted=accepted / verify if verify else None,
        replays=replays / verify if verify else None,
        draft_ms=draw(st.floats(0, 100)),
        plain_ms=draw(TIMES) if plain else None,
        verify_ms=draw(TIMES) if verify else None,
        replay_ms=draw(TIMES) if replays else None,
        rest_ms=draw(st.floats(-1, 1)),
    )


FIELD = {
    "acceptance": "accepted",
    "coverage": "coverage",
    "draft": "draft_ms",
    "plain": "plain_ms",
    "verify": "verify_ms",
    "replay": "replay_ms",
    "rest": "rest_ms",
}


def inputs(**changes: float | None) -> Inputs:
    fields: dict[str, float | None] = {
        "coverage": 1.0,
        "accepted": 3.0,
        "replays": 0.0,
        "draft_ms": 0.0,
        "plain_ms": None,
        "verify_ms": 12.0,
        "replay_ms": None,
        "rest_ms": 0.0,
    }
    return Inputs(**{**fields, **changes})  # type: ignore[arg-type]  # a test's own fields


def test_the_worked_example() -> None:
    """As the docstring has it: 3 to 8 ms, of which verify +1.5 and acceptance +3.5."""
    found = attribute(inputs(), inputs(verify_ms=16.0, accepted=1.0))
    assert (found.old_ms, found.new_ms) == (3, 8)
    assert found.parts == pytest.approx(dict.fromkeys(PARTS, 0) | {"verify": 1.5, "acceptance": 3.5})


def test_the_formula_counts_steps() -> None:
    """4 plain steps of 10 ms and 2 verify steps of 14 with 4 accepted, a replay of 6 ms: 11 tokens."""
    own = inputs(coverage=1 / 3, accepted=2.0, replays=0.5, plain_ms=10.0, verify_ms=14.0, replay_ms=6.0)
    assert cost_ms(own) == pytest.approx((40 + 28 + 6) / (4 + 2 + 1 + 4))


@given(of_steps(), of_steps())
def test_the_parts_add_up(old: Inputs, new: Inputs) -> None:
    """Whatever differs, the parts are the whole change and nothing else."""
    found = attribute(old, new)
    scale = abs(found.old_ms) + abs(found.new_ms) + max(map(abs, found.parts.values()))
    assert sum(found.parts.values()) == pytest.approx(found.change_ms, abs=1e-9 * (1 + scale))


@given(of_steps(), of_steps())
def test_it_is_symmetric(old: Inputs, new: Inputs) -> None:
    """Old and new exchanged: each part with the other sign."""
    there, back = attribute(old, new), attribute(new, old)
    for part in PARTS:
        assert there.parts[part] == pytest.approx(-back.parts[part], abs=1e-6)


@given(of_steps(least=1), st.sampled_from(PARTS), st.floats(0.1, 0.9))
def test_one_input_moves_its_part_alone(old: Inputs, part: str, factor: float) -> None:
    """Where one input differs, its part is the whole change and all others are 0."""
    new = replace(old, **{FIELD[part]: getattr(old, FIELD[part]) * factor})
    found = attribute(old, new)
    assert found.parts[part] == pytest.approx(found.change_ms, abs=1e-9)
    assert all(found.parts[other] == 0 for other in PARTS if other != part)


def test_what_one_side_has_no_steps_of_has_not_changed() -> None:
    """A config that drafts since the bump: all is coverage, though verify steps had no time before."""
    found = attribute(
        inputs(coverage=0.0, accepted=None, verify_ms=None, plain_ms=10.0), inputs(plain_ms=None)
    )
    assert found.parts["coverage"] == pytest.approx(found.change_ms) == pytest.approx(3 - 10)
    assert [part for part in PARTS if found.parts[part]] == ["coverage"]


def rounds_of(run: RunData) -> Attribution | None:
    rounds = [r for record in run.records for r in record.rounds if record.cell.config == "mtp1"]
    return attribution_of(rounds, rounds)[0]


def test_the_cost_is_that_of_the_requests(make_run: Callable[..., RunData]) -> None:
    """What the formula makes of counts and times is the mean ms per token that the server reported."""
    run = make_run()
    found = rounds_of(run)
    told = [
        r.predicted_ms / (r.predicted_n - 1)
        for record in run.records
        if record.cell.config == "mtp1"
        for r in record.rounds
        if r.predicted_ms is not None and r.predicted_n is not None
    ]
    assert found is not None
    assert found.old_ms == pytest.approx(sum(told) / len(told))


def test_without_a_trace_there_is_a_reason(make_run: Callable[..., RunData]) -> None:
    """Null telemetry on a side: no attribution, and why, with the server's line if there is one."""
    (round_, *_) = (r for record in make_run().records for r in record.rounds)
    untold = replace(round_, telemetry=Telemetry(unread="line 3 is of another form"))
    for bad, why in ((untold, "line 3"), (replace(round_, telemetry=None), "no trace")):
        found, (said,) = attribution_of([round_], [bad])
        assert found is None
        assert said.code == "no-step-trace"
        assert why in str(said.values["why"])


def test_steps_that_are_not_known_are_no_zero(make_run: Callable[..., RunData]) -> None:
    """A count that is null leaves the attribution null."""
    (round_, *_) = (r for record in make_run().records for r in record.rounds)
    found, (said,) = attribution_of([replace(round_, replays=None)], [round_])
    assert found is None
    assert (said.code, said.values) == ("no-step-counts", {"requests": 1, "of": 1})
