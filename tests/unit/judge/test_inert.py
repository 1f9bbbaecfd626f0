"""A config is inert if one of its types is known to have drafted nothing at all, and only then."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_ngram.judge.inert import apply, judge
from pytest_ngram.record import Cell, Outcome, Record, Round, TypeDrafts

MOD = ["ngram-mod"]
STACK = ["draft-mtp", "ngram-mod"]
ROUND: dict[str, Any] = dict.fromkeys(Round.__struct_fields__)


def did(calls: int, drafted: int) -> TypeDrafts:
    return TypeDrafts(calls=calls, drafts=drafted, drafted=drafted, accepted=0)


def a_record(
    drafted: int | None = 0,
    by_type: dict[str, TypeDrafts] | None = None,
    *,
    status: Any = "ok",
    temperature: float = 0.0,
) -> Record:
    known = {"status": "ok", "seed": 1, "predicted_n": 48, "drafted": drafted, "by_type": by_type}
    round_ = Round(**{**ROUND, **known})
    return Record(
        cell=Cell(
            model="m",
            config="c",
            prompt="p",
            prompt_set="s",
            temperature=temperature,
            block=1,
            pass_="first",
            position=0,
        ),
        model=None,
        engine=None,
        server=None,
        rounds=(round_,) if status == "ok" else (),
        memory=None,
        host=None,
        table=None,
        outcome=Outcome(status=status, reason=None if status == "ok" else "because"),
    )


def reason_of(records: list[Record], types: list[str], abstains: dict[str, str] | None = None) -> str:
    outcome = judge(records, types, abstains or {}).outcome
    assert outcome is not None
    assert outcome.reason is not None
    return outcome.reason


def test_a_type_that_never_drafted_is_inert() -> None:
    """The reason names it, what was looked at, how often it was asked, and what to do."""
    records = [a_record(0, {"ngram-mod": did(46, 0)}), a_record(0, {"ngram-mod": did(40, 0)})]
    assert reason_of(records, MOD).splitlines() == [
        "ngram-mod never drafted anything, asked 86 times",
        "  checked: 2 cells ended well, temperature 0; 96 tokens generated",
        "  checked: ngram-mod: asked 86 times (calls of generate), 0 tokens drafted",
        "  to do: give it flags with which it drafts (shorter matches), or prompts that repeat themselves; "
        "if no draft is expected, say so in the matrix: models.m.abstains: {c: why}",
    ]


def test_nothing_drafted_on_one_prompt_is_an_honest_cell() -> None:
    """One draft anywhere in the run, and all of its cells stay what they are."""
    records = [a_record(0, {"ngram-mod": did(46, 0)}), a_record(3, {"ngram-mod": did(40, 3)})]
    assert judge(records, MOD).outcome is None


def test_a_stack_is_inert_if_one_of_its_types_never_drafted() -> None:
    """mtp1+ngram-mod without a draft of ngram-mod is mtp1 under another name; both types are told."""
    reason = reason_of([a_record(28, {"ngram-mod": did(30, 0), "draft-mtp": did(30, 28)})], STACK)
    assert reason.startswith("ngram-mod never drafted anything, asked 30 times\n")
    assert "draft-mtp: asked 30 times (calls of generate), 28 tokens drafted" in reason


def test_a_type_that_never_got_to_draft_is_told_from_one_that_never_did() -> None:
    """A type that comes later in llama.cpp's order is starved where those before it always draft."""
    reason = reason_of([a_record(90, {"ngram-mod": did(30, 90), "draft-mtp": did(0, 0)})], STACK)
    assert reason.startswith("draft-mtp never drafted anything: it was never asked\n")
    assert "draft-mtp: never got to draft, the types before it always did (0 calls)" in reason
    assert "take it out of the stack" in reason


def test_a_type_that_the_server_never_set_up() -> None:
    """The statistics of the others account for every draft, so one that is not among them did nothing."""
    reason = reason_of([a_record(28, {"ngram-mod": did(30, 28)})], STACK)
    assert reason.startswith("draft-mtp never drafted anything: the server never set it up\n")


@pytest.mark.parametrize("types", [MOD, STACK])
def test_without_a_log_the_total_decides_where_it_is_zero(types: list[str]) -> None:
    """No log tells of types, but nothing drafted at all is nothing drafted by any."""
    assert "never drafted anything\n" in reason_of([a_record(0), a_record(0)], types)


@pytest.mark.parametrize("drafted", [None, 5])
def test_what_is_not_known_is_not_judged(drafted: int | None) -> None:
    """A total of a stack does not say which type drafted; an unknown total says nothing."""
    assert judge([a_record(drafted), a_record(0)], STACK).outcome is None
    assert judge([a_record(drafted), a_record(0)], MOD).outcome is None


def test_one_request_that_is_not_known_keeps_a_type_from_being_judged() -> None:
    """It may have drafted where nobody looked."""
    quiet = a_record(28, {"ngram-mod": did(30, 0), "draft-mtp": did(30, 28)})
    assert judge([quiet, a_record(28)], STACK).outcome is None
    assert judge([quiet, a_record(0)], STACK).outcome is not None


def test_a_log_with_other_names_tells_nothing_of_types() -> None:
    """A build that calls its types otherwise is not taken for one that never set them up."""
    assert judge([a_record(28, {"mtp": did(30, 28)})], STACK).outcome is None
    assert judge([a_record(28, {"mtp": did(30, 28)})], ["draft-mtp"]).outcome is None


def test_failed_cells_are_told_and_keep_their_outcome() -> None:
    """A crash stays a crash, beside cells that are inert."""
    records = [a_record(0, {"ngram-mod": did(46, 0)}), a_record(status="crash")]
    outcome = judge(records, MOD).outcome
    assert outcome is not None
    assert "1 cell ended well, 1 did not" in str(outcome.reason)
    assert [record.outcome.status for record in apply(records, outcome)] == ["inert", "crash"]


def test_where_no_cell_ended_well_there_is_nothing_to_judge() -> None:
    """A config that crashed everywhere is not inert."""
    assert judge([a_record(status="crash")], MOD).outcome is None


def test_the_baseline_is_never_inert() -> None:
    """`none` has no type that could draft."""
    assert judge([a_record(0, {})], []).outcome is None


def test_temperatures_are_judged_apart() -> None:
    """The reason says at which temperature, since another may draft."""
    assert "temperature 0.7;" in reason_of([a_record(0, temperature=0.7)], MOD)


def test_an_expected_abstention_is_no_failure() -> None:
    """The cells stay ok, and say that nothing was drafted and why that was expected."""
    outcome = judge([a_record(0, {"ngram-mod": did(46, 0)})], MOD, {"ngram-mod": "matches 24 tokens"}).outcome
    assert outcome == Outcome(status="ok", reason="inert, as expected: matches 24 tokens")


def test_an_expected_abstention_of_a_stack_names_the_type() -> None:
    """What the rest of the stack drafts is not hidden by it; two types with one reason share it."""
    records = [a_record(28, {"ngram-mod": did(30, 0), "draft-mtp": did(30, 28)})]
    told = reason_of(records, STACK, {"ngram-mod": "why"})
    assert told == "inert, as expected (ngram-mod drafted nothing: why)"
    none = [a_record(0, {"ngram-mod": did(30, 0), "draft-mtp": did(30, 0)})]
    told = reason_of(none, STACK, {"ngram-mod": "why", "draft-mtp": "why"})
    assert told == "inert, as expected (ngram-mod and draft-mtp drafted nothing: why)"
    told = reason_of(none, STACK, {"ngram-mod": "why", "draft-mtp": "for this"})
    assert told == "inert, as expected (ngram-mod drafted nothing: why; draft-mtp drafted nothing: for this)"


@pytest.mark.parametrize("total", [None, 0])
def test_only_the_type_that_is_told_of_is_excused(total: int | None) -> None:
    """The matrix says that ngram-mod never drafts: an MTP that drafts nothing beside it is still inert."""
    by_type = {"ngram-mod": did(30, 0), "draft-mtp": did(30, 0)} if total is None else None
    outcome = judge([a_record(0, by_type)], STACK, {"ngram-mod": "why"}).outcome
    assert outcome is not None
    assert outcome.status == "inert"
    assert str(outcome.reason).startswith("draft-mtp never drafted anything")
    assert "models.m.abstains: {c: {draft-mtp: why}}" in str(outcome.reason)


@pytest.mark.parametrize("mtp", [0, 28])
def test_a_type_of_a_stack_that_drafts_after_all_is_told(mtp: int) -> None:
    """The warning names that type alone, whatever becomes of the rest of the stack."""
    records = [a_record(4 + mtp, {"ngram-mod": did(46, 4), "draft-mtp": did(40, mtp)})]
    finding = judge(records, STACK, {"ngram-mod": "why"})
    assert finding.warning == (
        "models.m.abstains: c is no longer true: at temperature 0 it drafted (ngram-mod 4 tokens)"
    )
    assert (finding.outcome.status if finding.outcome else None) == (None if mtp else "inert")


def test_an_abstention_that_is_no_longer_true_is_told() -> None:
    """The matrix says that it never drafts, and it drafted: a warning, and no other outcome."""
    finding = judge([a_record(4, {"ngram-mod": did(46, 4)})], MOD, {"ngram-mod": "why"})
    assert finding.outcome is None
    assert finding.warning == (
        "models.m.abstains: c is no longer true: at temperature 0 it drafted (ngram-mod 4 tokens)"
    )


def test_an_abstention_of_which_nothing_is_known_is_left_alone() -> None:
    """Neither confirmed nor denied."""
    finding = judge([a_record(None)], MOD, {"ngram-mod": "why"})
    assert (finding.outcome, finding.warning) == (None, None)


def test_a_part_of_the_prompts_is_told_and_fails_nothing() -> None:
    """A type that drafted nothing on one prompt of four may on the others: more of them come first."""
    records = [a_record(0, {"ngram-mod": did(46, 0)})]
    finding = judge(records, MOD, of_prompts=4)
    assert finding.outcome is not None
    assert finding.outcome.status == "inert"
    assert not finding.fails
    assert finding.warning == (
        "m/c at temperature 0 drafted nothing, but only 1 of 4 prompts of the profile ran: "
        "run more of them first"
    )
    reason = str(finding.outcome.reason)
    assert "  checked: 1 of 4 prompts of the profile ran\n" in reason
    assert "  to do: run more prompts of the profile first; then give it flags" in reason
    assert judge(records, MOD, of_prompts=1).fails
