"""The verdict on the terminal: the answer first, then a line for each config."""

from __future__ import annotations

from pytest_ngram.report.verdict import verdict_lines
from pytest_ngram.verdict.codes import reason
from pytest_ngram.verdict.types import Effect, GateResults, ModelVerdict, Settings, Verdict

GAIN = reason("gain", gain=0.3, low=0.25, high=0.35, threshold=0.05, floor=0.02)
SLOWER = reason("slower", gain=-0.2, low=-0.25, high=-0.15)


def lines(*effects: Effect, best: str | None = None, **fields: object) -> list[str]:
    answer = (
        reason("answer-adopt", config=best, gain=0.3, low=0.25, high=0.35)
        if best
        else reason("answer-keep", baseline="none")
    )
    given: dict[str, object] = {
        "model": "m",
        "temperature": 0.7,
        "answer": answer,
        "best": best,
        "ties": (),
        "floor": None,
        "effects": effects,
        "corpus": (),
        "excluded": {},
    }
    model = ModelVerdict(**{**given, **fields})  # type: ignore[arg-type]
    *said, _, gates = verdict_lines(Verdict(Settings(), None, (model,)))
    assert gates.startswith("gates: not run")
    return said


def test_gates_are_counted_below_the_verdict() -> None:
    """How many passed and failed, also where none did, of which file and build; without cells nothing."""
    assert verdict_lines(Verdict(Settings(), None, ())) == []
    model = ModelVerdict("m", 0.0, reason("answer-keep", baseline="none"), None, (), None, (), (), {})
    results = GateResults(source="g.json, b1", counts={"passed": 12, "known issue": 2})
    said = verdict_lines(Verdict(Settings(), results, (model,)))
    assert said[-1] == "gates: passed 12, failed 0, known issues 2 (g.json, b1)"


def test_the_answer_stands_first_then_each_config() -> None:
    """One sentence with model and temperature; then a line a config, aligned, with its reasons."""
    adopt = Effect(config="mtp1", against="none", decision="adopt", reasons=(GAIN, reason("gates-not-run")))
    slow = Effect(config="ngram-cache", against="none", decision="do not adopt", reasons=(SLOWER,))
    said = lines(adopt, slow, best="mtp1")
    assert said[0] == "m, temperature 0.7: adopt mtp1: +30.0% tg (+25.0% to +35.0%)"
    assert said[1].startswith("  mtp1         adopt: +30.0% tg")
    assert said[2] == "  ngram-cache  do not adopt: slower: -20.0% tg (-25.0% to -15.0%)"


def test_gates_that_were_not_run_are_told_once_with_an_adopt() -> None:
    """However many are adopted, a line says it; where nothing is adopted, none does."""
    effects = [
        Effect(config=name, against="none", decision="adopt", reasons=(GAIN, reason("gates-not-run")))
        for name in ("a", "b")
    ]
    told = [line for line in lines(*effects, best="a") if "gates were not run" in line]
    assert len(told) == 1
    slow = Effect(config="a", against="none", decision="do not adopt", reasons=(SLOWER,))
    assert not any("gates" in line for line in lines(slow))


def test_a_kind_of_prompts_that_is_decided_otherwise_is_told() -> None:
    """A kind with a verdict of its own stands below its config; one that cannot tell does not."""
    strata = {
        "general/fix": Effect(config="x", against="none", decision="do not adopt", reasons=(SLOWER,)),
        "general/code": Effect(config="x", against="none", decision="cannot tell", reasons=()),
        "general/rewrite": Effect(config="x", against="none", decision="adopt", reasons=(GAIN,)),
    }
    said = lines(
        Effect(config="x", against="none", decision="adopt", reasons=(GAIN,), strata=strata), best="x"
    )
    assert [line.strip().split(":")[0] for line in said[2:]] == ["on general/fix"]


def test_cells_left_out_are_counted_once() -> None:
    """How many of all cells entered nothing, and why."""
    assert lines(excluded={"contended": 3, "crash": 1})[-1] == "  cells left out: 4 (3 contended, 1 crash)"


def test_without_a_baseline_nothing_but_that_is_said() -> None:
    """No config, no percent."""
    said = lines(answer=reason("answer-no-baseline", baseline="none"))
    assert said == ["m, temperature 0.7: nothing is claimed: there is no `none` in this run to compare with"]
