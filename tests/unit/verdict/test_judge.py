"""The verdict: what it says of runs of which the truth is known, and what must not change it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_ngram.verdict.judge import judge
from pytest_ngram.verdict.samples import Sample
from pytest_ngram.verdict.types import Effect, GateFailure, GateNote, GateResults, ModelVerdict, Settings

Cells = Callable[..., list[Sample]]
PASSED = GateResults(judged=(("m", "x"),))


def only(samples: list[Sample], **given_: object) -> ModelVerdict:
    (model,) = judge(samples, **given_).models  # type: ignore[arg-type]
    return model


def effect_of(samples: list[Sample], config: str = "x", **given_: object) -> Effect:
    (effect,) = [each for each in only(samples, **given_).effects if each.config == config]
    return effect


def codes(effect: Effect) -> list[str]:
    return [each.code for each in effect.reasons]


def test_a_clear_gain_is_adopted_and_said(run: Cells) -> None:
    """+30 % on a quiet host: adopt, the true gain inside a narrow interval, and that gates were not run."""
    effect = effect_of(run({"x": 0.3}))
    assert effect.decision == "adopt"
    assert effect.ratio == pytest.approx(1.3, rel=0.01)
    assert effect.low is not None
    assert effect.high is not None
    assert 1.25 < effect.low < 1.3 < effect.high < 1.35
    assert codes(effect) == ["gain", "gates-not-run"]
    assert (effect.n_blocks, effect.n_prompts, effect.n_cells) == (4, 4, 16)


def test_the_answer_names_the_best_and_its_ties(run: Cells) -> None:
    """Of two that gain alike the other is named beside the best; a clearly smaller gain is not."""
    model = only(run({"x": 0.30, "y": 0.302, "z": 0.15}))
    assert model.best in ("x", "y")
    assert {model.best, *model.ties} == {"x", "y"}
    assert model.answer.code == "answer-adopt-tied"


def test_a_loss_is_not_adopted_and_called_slower(run: Cells) -> None:
    """-20 %: do not adopt, since it is slower; the answer is to keep the baseline."""
    model = only(run({"x": -0.2}))
    assert model.effects[0].decision == "do not adopt"
    assert codes(model.effects[0]) == ["slower"]
    assert model.answer.code == "answer-keep"


def test_a_gain_that_is_not_worth_it_is_not_adopted(run: Cells) -> None:
    """+2 % where 5 % are wanted: do not adopt; where 1 % is wanted and the noise is small: adopt."""
    cells = run({"x": 0.02}, blocks=8, prompts=6, noise=0.003)
    assert codes(effect_of(cells)) == ["gain-too-small"]
    assert effect_of(cells, settings=Settings(threshold=0.01)).decision == "adopt"


def test_a_gain_at_the_threshold_cannot_be_told(run: Cells) -> None:
    """+5 % where 5 % are wanted: the interval has it in it, and what would tell is said."""
    effect = effect_of(run({"x": 0.05}, noise=0.03))
    assert effect.decision == "cannot tell"
    assert "interval-covers-threshold" in codes(effect)


def test_the_floor_alone_makes_it_impossible_to_tell(cells: Cells) -> None:
    """A config whose ratio is the same in each block, on a host whose two passes lie 30 % apart."""
    low, high = [[-0.15] * 4] * 4, [[0.15] * 4] * 4
    samples = cells("none", low, pass_="first") + cells("none", high, pass_="last")
    effect = effect_of(samples + cells("x", [[-0.1] * 4] * 4))
    assert effect.low == effect.high == pytest.approx(math.exp(0.1))
    assert effect.floor is not None
    assert effect.floor > 0.1
    assert effect.decision == "cannot tell"
    assert codes(effect)[0] == "floor-covers-threshold"


@pytest.mark.parametrize("blocks", [1, 2])
def test_fewer_than_three_blocks_never_tell(run: Cells, blocks: int) -> None:
    """However large the gain, one or two blocks cannot tell; how many are missing is said."""
    effect = effect_of(run({"x": 2.0}, blocks=blocks, noise=0.001))
    assert effect.decision == "cannot tell"
    assert codes(effect) == ["too-few-blocks"]
    assert effect.more_blocks == 3 - blocks
    assert (effect.low is None) == (blocks == 1)


def test_one_prompt_tells_nothing_of_others(run: Cells) -> None:
    """A gain on a single prompt is a gain on that prompt."""
    effect = effect_of(run({"x": 1.0}, prompts=1))
    assert effect.decision == "cannot tell"
    assert codes(effect) == ["one-prompt"]
    assert effect.these_prompts is not None


def test_without_a_baseline_nothing_is_claimed(run: Cells) -> None:
    """`-k mtp`: no effect, no percent, no config to adopt."""
    model = only([s for s in run({"x": 0.3, "y": 0.1}) if s.config != "none"])
    assert (model.effects, model.best, model.floor) == ((), None, None)
    assert model.answer.code == "answer-no-baseline"


def test_without_a_second_pass_there_is_no_floor_and_no_verdict(run: Cells) -> None:
    """Where the baseline was measured once a block, the noise is not known, and nothing is decided."""
    effect = effect_of([s for s in run({"x": 0.3}) if s.pass_ == "first"])
    assert effect.ratio is not None
    assert effect.floor is None
    assert codes(effect) == ["no-floor"]


def test_disturbed_cells_enter_nothing_and_are_counted(run: Cells) -> None:
    """A contended cell that took ten times as long moves no figure; it is counted by its reason."""
    quiet = run({"x": 0.3})
    disturbed = [
        replace(s, seconds=(s.seconds or 0) * 10, disturbed="contended")
        if (s.config, s.prompt, s.block) == ("x", "p1", 2)
        else s
        for s in quiet
    ]
    effect = effect_of(disturbed)
    assert effect.excluded == {"contended": 1}
    assert effect.n_cells == 15
    assert effect.filled == 1
    assert effect.ratio == pytest.approx(effect_of(quiet).ratio, rel=0.01)
    assert only(disturbed).excluded == {"contended": 1}
    assert "cells-excluded" in codes(effect)


def test_a_config_of_disturbed_cells_asks_for_a_quieter_machine(run: Cells) -> None:
    """Where no undisturbed pair is left there is no figure, and the reason is not that cells failed."""
    cells = [replace(s, disturbed="contended") if s.config == "x" else s for s in run({"x": 0.3})]
    effect = effect_of(cells)
    assert (effect.decision, effect.ratio) == ("cannot tell", None)
    assert codes(effect)[0] == "all-disturbed"
    gone = [s for s in run({"x": 0.3}) if s.config != "x" or s.block == 9]
    assert only(gone).effects == ()


def test_a_crash_forbids_whatever_the_speed(run: Cells) -> None:
    """A config that crashed in one cell is not adopted, though the rest is fast; a refusal only counts."""
    fast = run({"x": 0.5})
    first = next(s for s in fast if s.config == "x")
    crashed = [s if s is not first else replace(s, status="crash", seconds=None) for s in fast]
    effect = effect_of(crashed)
    assert effect.decision == "do not adopt"
    assert codes(effect)[0] == "ended-badly"
    assert effect.ratio == pytest.approx(1.5, rel=0.02)
    refused = [s if s is not first else replace(s, status="refused", seconds=None) for s in fast]
    assert effect_of(refused).decision == "adopt"
    assert effect_of(refused).excluded == {"refused": 1}


def test_an_inert_config_is_not_adopted(run: Cells) -> None:
    """Its numbers would be those of the baseline under another name: none, and the reason."""
    inert = [replace(s, status="inert") if s.config == "x" else s for s in run({"x": 0.5})]
    effect = effect_of(inert)
    assert effect.decision == "do not adopt"
    assert codes(effect)[0] == "inert"
    assert effect.ratio is None


def test_gates(run: Cells) -> None:
    """A failed gate of the config, its model or all forbids; that of another does not; not run is told."""
    cells = run({"x": 0.3})

    def judged(*failures: GateFailure) -> Effect:
        return effect_of(cells, gates=replace(PASSED, failures=failures))

    assert codes(judged()) == ["gain"]
    assert codes(effect_of(cells)) == ["gain", "gates-not-run"]
    for failure in (
        GateFailure("identity", "another text"),
        GateFailure("identity", "another text", model="m"),
        GateFailure("identity", "another text", model="m", config="x"),
    ):
        assert judged(failure).decision == "do not adopt"
        assert codes(judged(failure))[0] == "gate-failed"
    assert judged(GateFailure("identity", "another text", config="y")).decision == "adopt"
    assert judged(GateFailure("identity", "another text", model="other")).decision == "adopt"


def test_what_gates_did_not_judge_is_told_with_an_adopt(run: Cells) -> None:
    """Gates that never compared the config's text forbid nothing, and never pass for gates that passed."""
    cells = run({"x": 0.3})
    assert codes(effect_of(cells, gates=GateResults(judged=(("m", "y"), ("other", "x"))))) == [
        "gain",
        "no-gate-judged",
    ]
    notes = (
        GateNote("gate-known-issue", "isolation", "drafts differ", "m", "x"),
        GateNote("gate-not-judged", "golden", "of another family", "m"),
        GateNote("gate-not-judged", "golden", "of another family", "m", "y"),
        GateNote("gate-not-judged", "golden", "of another family", "other", "x"),
    )
    effect = effect_of(cells, gates=replace(PASSED, notes=notes))
    assert effect.decision == "adopt"
    assert codes(effect) == ["gain", "gate-known-issue", "gate-not-judged"]
    slow = effect_of(run({"x": -0.3}), gates=replace(PASSED, notes=notes))
    assert codes(slow) == ["slower"]


@pytest.mark.parametrize(
    ("slower_pp", "noise", "decision", "code"),
    [
        (0.0, 0.0, "adopt", None),
        (0.3, 0.0, "do not adopt", "pp-loss"),
        (0.19, 0.2, "cannot tell", "pp-loss-unsure"),
        (0.10, 0.2, "adopt", "pp-loss-possible"),
    ],
)
def test_the_cost_in_prompt_processing(
    run: Cells, slower_pp: float, noise: float, decision: str, code: str | None
) -> None:
    """Beyond the limit for sure forbids, beyond it perhaps makes unsure, within it perhaps is told."""
    cells = [
        replace(s, prompt_seconds=0.01 / (1 - slower_pp) * math.exp(noise * (s.block - 2.5) / 2.5))
        if s.config == "x"
        else s
        for s in run({"x": 0.3})
    ]
    effect = effect_of(cells, gates=PASSED)
    assert effect.decision == decision
    assert (code in codes(effect)) if code else codes(effect) == ["gain"]


def test_the_cost_in_memory(run: Cells) -> None:
    """+30 % and 300 MiB is beyond both limits; +30 % of 100 MiB is borne; what is not known is told."""

    def with_rss(mb: float | None, base_mb: float | None = 1000.0) -> Effect:
        cells = [replace(s, rss_mb=mb if s.config == "x" else base_mb) for s in run({"x": 0.3})]
        return effect_of(cells, gates=PASSED)

    assert codes(with_rss(1300.0))[0] == "rss-gain"
    assert with_rss(1300.0).decision == "do not adopt"
    assert with_rss(130.0, 100.0).decision == "adopt"
    assert codes(with_rss(None)) == ["gain", "rss-unknown"]


def test_several_configs_pay_for_their_number(run: Cells) -> None:
    """Each p-value is adjusted for all: never smaller, and the smallest by the number of configs."""
    effects = only(run({f"c{i}": 0.0 for i in range(6)}, noise=0.02)).effects
    known = [(each.p, each.p_holm) for each in effects]
    assert all(p is not None and p_holm is not None and p_holm >= p for p, p_holm in known)
    least = min(effects, key=lambda each: each.p or 1)
    assert least.p is not None
    assert least.p_holm == pytest.approx(min(1.0, 6 * least.p))


def test_a_gain_among_many_may_be_chance(cells: Cells) -> None:
    """A gain that would do alone cannot be told among thirty; blocks that would tell are asked for."""
    shakes = [-0.03, 0.0, 0.03, 0.01]
    base = [[0.0, 0.0, 0.0]] * 4
    samples = cells("none", base, pass_="first") + cells("none", base, pass_="last")
    gain = cells("x", [[-0.12 + shake] * 3 for shake in shakes])
    others = [s for i in range(29) for s in cells(f"c{i}", [[shake] * 3 for shake in shakes])]
    assert effect_of(samples + gain).decision == "adopt"
    effect = effect_of(samples + gain + others)
    assert effect.decision == "cannot tell"
    assert codes(effect) == ["chance-of-several", "more-blocks"]
    assert effect.more_blocks is not None


def with_strata(gain: float, other: float, rewrites: int = 5) -> list[Sample]:
    """`rewrite` prompts with one gain and `fix` prompts with another, of which the first are more."""
    cells = []
    for block in range(1, 6):
        for p in range(rewrites + 3):
            kind = "rewrite" if p < rewrites else "fix"
            own = gain if kind == "rewrite" else other
            shake = 0.003 * math.sin(block * 7 + p * 3)
            for config, pass_, g in (("none", "first", 0.0), ("none", "last", 0.0), ("x", "first", own)):
                seconds = 0.1 / (1 + g) * math.exp(shake * (1 if config == "x" else 0.5))
                cells.append(
                    Sample(
                        model="m",
                        temperature=0.0,
                        config=config,
                        prompt=f"p{p}",
                        strata=("all", f"all/{kind}"),
                        block=block,
                        pass_=pass_,  # type: ignore[arg-type]
                        seconds=seconds,
                    )
                )
    return cells


def test_kinds_of_prompts_are_told_apart() -> None:
    """A stack that gains on rewrites and loses on fixes: both are said, and it is not adopted for all."""
    effect = effect_of(with_strata(0.6, -0.1), gates=PASSED)
    assert set(effect.strata) == {"all/rewrite", "all/fix"}
    assert effect.strata["all/rewrite"].decision == "adopt"
    assert effect.strata["all/fix"].decision == "do not adopt"
    assert effect.strata["all/fix"].ratio == pytest.approx(0.9, rel=0.01)
    assert effect.decision == "cannot tell"


def test_a_losing_kind_takes_an_adopt_back() -> None:
    """The whole is beyond doubt faster, but one kind is beyond doubt slower: it depends on what is asked."""
    effect = effect_of(with_strata(0.6, -0.1, rewrites=17), gates=PASSED)
    assert effect.low is not None
    assert effect.low > 1.05
    assert effect.decision == "cannot tell"
    assert codes(effect) == ["stratum-loses", "gain"]
    assert effect_of(with_strata(0.6, 0.1, rewrites=17), gates=PASSED).decision == "adopt"


def test_temperatures_and_models_are_judged_apart(run: Cells) -> None:
    """Cells of another temperature or model change nothing of a verdict; each has one of its own."""
    cells = run({"x": 0.3})
    warm = [
        replace(s, temperature=0.7, seconds=(s.seconds or 0) * (3 if s.config == "x" else 1)) for s in cells
    ]
    other = [replace(s, model="n") for s in cells]
    models = judge([*warm, *cells, *other]).models
    assert [(m.model, m.temperature, m.best) for m in models] == [
        ("m", 0.0, "x"),
        ("m", 0.7, None),
        ("n", 0.0, "x"),
    ]
    assert models[0] == only(cells)


CACHE = frozenset({"ngram-cache"})


def as_tables(cells: list[Sample]) -> list[Sample]:
    """`t` is `c` with a table; `m` is another type without one."""
    types = {"c": CACHE, "t": CACHE, "m": frozenset({"draft-mtp"})}
    return [
        replace(
            s,
            types=types.get(s.config, frozenset()),
            flags=("-t", "4"),
            table="ab" if s.config == "t" else None,
        )
        for s in cells
    ]


def test_what_the_corpus_adds_is_never_against_the_baseline(run: Cells) -> None:
    """A table that makes a slow lookup less slow adds something, and is not adopted for that."""
    model = only(as_tables(run({"c": -0.4, "t": -0.3, "m": 0.2})))
    (corpus,) = model.corpus
    assert (corpus.config, corpus.against) == ("t", "c")
    assert corpus.ratio == pytest.approx(0.7 / 0.6, rel=0.02)
    assert [each.code for each in corpus.reasons] == ["corpus-adds"]
    assert {e.config: e.decision for e in model.effects} == {
        "c": "do not adopt",
        "t": "do not adopt",
        "m": "adopt",
    }


def test_a_fast_config_with_a_table_that_adds_nothing(run: Cells) -> None:
    """+20 % against the baseline, and the same without the table: the corpus adds nothing."""
    model = only(as_tables(run({"c": 0.2, "t": 0.2}, noise=0.003)))
    assert [each.code for each in model.corpus[0].reasons] == ["corpus-adds-nothing"]
    costs = only(as_tables(run({"c": 0.2, "t": 0.05}, noise=0.003)))
    assert [each.code for each in costs.corpus[0].reasons] == ["corpus-costs"]


def test_without_its_counterpart_nothing_is_said_of_a_corpus(run: Cells) -> None:
    """No run of the same types without a table: that is said, and no percent."""
    model = only(as_tables(run({"t": 0.2, "m": 0.1})))
    assert [each.code for each in model.corpus[0].reasons] == ["corpus-not-compared"]
    assert model.corpus[0].ratio is None


def test_token_weighted_and_per_prompt_stand_beside_each_other(cells: Cells) -> None:
    """A gain on a short prompt is half of the effect by prompts, and little of it by tokens."""

    def tokens(samples: list[Sample]) -> list[Sample]:
        return [replace(s, tokens=900 if s.prompt == "p0" else 100) for s in samples]

    base = [[0.0, 0.0]] * 3
    samples = (
        cells("none", base, pass_="first") + cells("none", base, pass_="last") + cells("x", [[0.0, -0.4]] * 3)
    )
    effect = effect_of(tokens(samples))
    assert effect.ratio == pytest.approx(math.exp(0.2))
    assert effect.token_weighted is not None
    assert effect.token_weighted.ratio == pytest.approx(math.exp(0.04))
    assert effect.per_prompt == pytest.approx({"p0": 1.0, "p1": math.exp(0.4)})


def test_500_cells_take_less_than_a_second(run: Cells) -> None:
    """A run of 500 cells is judged in under a second, and twice the same."""
    cells = run({f"c{i}": 0.05 * i for i in range(8)}, blocks=5, prompts=10)
    assert len(cells) == 500
    judge(cells)
    began_s = time.perf_counter()
    verdict = judge(cells)
    assert time.perf_counter() - began_s < 1.0
    assert msgspec.json.encode(judge(cells)) == msgspec.json.encode(verdict)


def test_a_verdict_goes_through_json(run: Cells) -> None:
    """What is saved and read back is the same verdict."""
    from pytest_ngram.verdict.types import Verdict

    verdict = judge(run({"x": 0.3, "y": 0.0}))
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


noise = st.floats(-0.3, 0.3)


@st.composite
def runs(draw: st.DrawFn) -> list[Sample]:
    """Runs of two configs with any noise, with cells missing, failed and disturbed."""
    blocks, prompts = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    cells = []
    for config, pass_ in (("none", "first"), ("none", "last"), ("x", "first"), ("y", "first")):
        for block in range(1, blocks + 1):
            for p in range(prompts):
                fate = draw(st.sampled_from(["ok"] * 8 + ["gone", "crash", "contended"]))
                if fate == "gone":
                    continue
                cells.append(
                    Sample(
                        model="m",
                        temperature=0.0,
                        config=config,
                        prompt=f"p{p}",
                        block=block,
                        pass_=pass_,  # type: ignore[arg-type]
                        status="crash" if fate == "crash" else "ok",
                        seconds=0.1 * math.exp(draw(noise)),
                        tokens=draw(st.integers(1, 99)),
                        disturbed="contended" if fate == "contended" else None,
                    )
                )
    return cells


@settings(max_examples=60, deadline=None)
@given(runs(), st.floats(0.01, 100))
def test_a_faster_machine_changes_no_verdict(cells: list[Sample], factor: float) -> None:
    """All times × a factor: the same decisions, the same ratios."""
    scaled = [replace(s, seconds=(s.seconds or 0) * factor) for s in cells]
    for one, other in zip(judge(cells).models, judge(scaled).models, strict=True):
        assert [e.config for e in one.effects] == [e.config for e in other.effects]
        for own, same in zip(one.effects, other.effects, strict=True):
            assert own.ratio == (None if same.ratio is None else pytest.approx(same.ratio))
            assert own.low == (None if same.low is None else pytest.approx(same.low))
            assert own.p == (None if same.p is None else pytest.approx(same.p, rel=1e-3, abs=1e-9))


@settings(max_examples=60, deadline=None)
@given(runs(), st.randoms(use_true_random=False))
def test_the_order_of_cells_changes_nothing(cells: list[Sample], random: object) -> None:
    """The same cells, shuffled, make the same JSON to the byte."""
    shuffled = list(cells)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert msgspec.json.encode(judge(shuffled)) == msgspec.json.encode(judge(cells))


@settings(max_examples=60, deadline=None)
@given(runs())
def test_exchanging_config_and_baseline_inverts_the_ratio(cells: list[Sample]) -> None:
    """x against y is 1 ÷ (y against x), and so are the ends, with the weights of tokens too."""
    from pytest_ngram.verdict.effect import measure

    x, y = ([s for s in cells if s.config == name] for name in ("x", "y"))
    if not x or not y:
        return
    one, other = measure(x, y, None, Settings()).effect, measure(y, x, None, Settings()).effect
    assert (one.ratio is None) == (other.ratio is None)
    assert one.p == (None if other.p is None else pytest.approx(other.p))
    if one.ratio is None or other.ratio is None:
        return
    assert one.ratio == pytest.approx(1 / other.ratio)
    assert one.low == (None if other.high is None else pytest.approx(1 / other.high))
    assert one.token_weighted is not None
    assert other.token_weighted is not None
    assert one.token_weighted.ratio == pytest.approx(1 / other.token_weighted.ratio)


@settings(max_examples=60, deadline=None)
@given(runs())
def test_every_cell_is_in_one_count(cells: list[Sample]) -> None:
    """Of a config's cells each entered, was excluded for a reason, or is of a prompt or block left out."""
    for effect in judge(cells).models[0].effects:
        own = [s for s in cells if s.config == effect.config]
        lost = [
            s for s in own if s.usable and (s.prompt in effect.lost_prompts or s.block in effect.lost_blocks)
        ]
        if effect.n_cells:
            assert effect.n_cells + sum(effect.excluded.values()) + len(lost) == len(own)
