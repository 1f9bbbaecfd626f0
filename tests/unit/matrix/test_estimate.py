"""The estimate: sums of what was measured, and nothing where nothing was."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.matrix.estimate import MARGIN, Estimate, Estimator, estimate
from pytest_ngram.matrix.plan import PlannedCell, plan
from pytest_ngram.matrix.timings import Answer, Between, ModelTimings, Source, Timing, gather
from pytest_ngram.record import Cell, Outcome, Record, Round, ServerStart

MATRIX = """
version: 1
warmup: hello
models:
  alpha: {path: a.gguf}
  beta: {path: b.gguf, configs: [none]}
configs:
  none: {}
  mtp1: {types: [draft-mtp]}
prompt_sets:
  chat: {path: chat.yaml}
profiles:
  smoke: {blocks: 2, n_predict: 11}
"""
# a start 3 s, and of a request: 1 s besides, 0.1 s a prompt token, 0.5 s a token after the first
NONE = Timing(
    starts=2, load_s=4, warmup_s=2, rounds=2, prompt_n=20, prompt_s=2, later_n=20, predicted_s=10, wall_s=14
)
SLOW = Timing(
    starts=1, load_s=5, warmup_s=1, rounds=1, prompt_n=10, prompt_s=1, later_n=10, predicted_s=20, wall_s=22
)


@pytest.fixture
def cells() -> list[PlannedCell]:
    return plan(decode_matrix(MATRIX, "m.yaml"), "smoke", {"chat": ["p", "q"]})


def of(cells: Sequence[PlannedCell], *sources: Source, restored: Sequence[Cell] = ()) -> Estimate:
    return estimate(cells, restored, sources)


def known(**configs: Timing) -> Source:
    return Source("old run", {"alpha": ModelTimings(configs, {"p": Answer(10), "q": Answer(10)})})


def test_an_estimate_is_starts_and_requests(cells: list[PlannedCell]) -> None:
    """Each start costs its load and warm-up once, each cell its prompt, its tokens and what goes around."""
    alpha = [cell for cell in cells if cell.start.model == "alpha"]
    (part,) = of(alpha, known(none=NONE, mtp1=SLOW)).models
    assert (part.starts, part.cells, part.tokens) == (6, 12, 12 * 11)
    per_none, per_mtp = 1 + 1 + 10 * 0.5, 1 + 1 + 10 * 2
    assert part.duration_s == pytest.approx(4 * 3 + 8 * per_none + 2 * 6 + 4 * per_mtp)
    assert part.load_s == pytest.approx((4 * 2 + 2 * 5) / 6)
    assert {config: origin.config for config, origin in part.origins.items()} == {
        "none": "none",
        "mtp1": "mtp1",
    }


def test_what_a_prompt_became_is_used(cells: list[PlannedCell]) -> None:
    """A known prompt counts with its own length, and an answer that ends early with its own."""
    prompts = {"p": Answer(30, rounds=1), "q": Answer(10, rounds=4, ended=4, ended_n=24)}
    source = Source("old run", {"alpha": ModelTimings({"none": NONE}, prompts, Between(cells=10, seconds=1))})
    one = [cell for cell in cells if cell.start.model == "alpha" and cell.start.config == "none"][:2]
    (part,) = of(one, source).models
    assert part.prompt_tokens == 40
    assert part.unknown_prompts == 0
    assert part.duration_s == pytest.approx(3 + (1 + 3 + 5 + 0.1) + (1 + 1 + 5 * 0.5 + 0.1))


def test_nothing_known_is_unknown(cells: list[PlannedCell]) -> None:
    """A model of which nothing was measured has no duration, and then the run has none; the rest is told."""
    found = of(cells, known(none=NONE))
    assert found.unknown == ("beta",)
    assert found.duration_s is None
    assert found.known_s > 0
    assert of(cells).known_s == 0


def test_the_baseline_stands_in_and_it_is_told(cells: list[PlannedCell]) -> None:
    """A config without figures of its own takes those of `none`, of another config only for want of them."""
    (part,) = of(cells[:12], known(none=NONE)).models
    assert part.origins["mtp1"].config == "none"
    (part,) = of(cells[:12], known(mtp1=SLOW)).models
    assert part.origins["none"].config != "none"
    assert part.duration_s is not None


def test_own_figures_win_over_a_better_source(cells: list[PlannedCell]) -> None:
    """What this host measured of a config is used before another config of the file that the user named."""
    named = Source("named", {"alpha": ModelTimings({"none": NONE})})
    host = Source("host", {"alpha": ModelTimings({"none": SLOW, "mtp1": SLOW})})
    (part,) = of(cells[:12], named, host).models
    assert {name: origin.label for name, origin in part.origins.items()} == {"none": "named", "mtp1": "host"}


def test_restored_cells_cost_nothing(cells: list[PlannedCell]) -> None:
    """Neither they nor starts of which all cells are restored."""
    alpha = cells[:12]
    whole = of(alpha, known(none=NONE))
    first = [cell.cell for cell in alpha if cell.start == alpha[0].start]
    rest = of(alpha, known(none=NONE), restored=first)
    assert rest.restored == len(first)
    assert rest.models[0].starts == whole.models[0].starts - 1
    assert whole.known_s - rest.known_s == pytest.approx(3 + len(first) * 7)


def test_a_running_server_needs_no_start(cells: list[PlannedCell]) -> None:
    """What is left of a start that was made costs its cells only."""
    estimator = Estimator([known(none=NONE)])
    one = cells[0]
    assert estimator.total_s([one]) - estimator.total_s([one], running={one.start}) == pytest.approx(3)


def round_of(**changes: object) -> Round:
    fields = (
        dict.fromkeys(Round.__struct_fields__)
        | {"status": "ok", "seed": 1, "prompt_n": 10, "prompt_ms": 1000.0, "predicted_n": 11, "stop": "limit"}
        | {"predicted_ms": 5000.0, "wall_s": 7.0}
    )
    return Round(**{**fields, **changes})  # type: ignore[arg-type]


def test_records_become_timings(cells: list[PlannedCell]) -> None:
    """Starts and requests of a run are summed; a failed cell and a round without times tell nothing."""

    def record(planned: PlannedCell, round_: Round, status: str = "ok") -> Record:
        parts = dict.fromkeys(("model", "engine", "server", "memory", "host", "table"))
        return Record(
            cell=planned.cell,
            rounds=(round_,),
            outcome=Outcome(status=status),
            **parts,  # type: ignore[arg-type]
        )

    p, q = cells[:2]
    start = ServerStart(
        serial=1, model="alpha", config="none", temperature=0, block=1, pass_="first", load_s=2, warmup_s=1
    )
    models = gather(
        [
            record(p, round_of()),
            record(q, round_of(stop="eos", predicted_n=6, predicted_ms=2500.0)),
            record(p, round_of(wall_s=1000.0), status="hang"),
            record(p, round_of(prompt_ms=None)),
        ],
        [start],
    )
    timing = models["alpha"].configs["none"]
    assert (timing.starts, timing.start_s, timing.rounds) == (1, 3, 2)
    assert timing.request_s(10, 11) == pytest.approx((14 - 2 - 7.5) / 2 + 1 + 5)
    assert models["alpha"].prompts == {"p": Answer(10, 1), "q": Answer(10, 1, 1, 6)}


@given(st.floats(1, 1e4), st.floats(1, 1e4))
def test_fading_keeps_the_means(rounds: float, tokens: float) -> None:
    """Old figures lose weight, not their value."""
    timing = Timing(2, 4, 2, rounds, 20, 2, tokens, 10, 30)
    faded = timing.faded(1.0)
    assert max(faded.rounds, faded.starts) == pytest.approx(1)
    assert faded.start_s == pytest.approx(timing.start_s)
    assert faded.request_s(5, 7) == pytest.approx(timing.request_s(5, 7))


@given(st.integers(2, 500), st.floats(1, 9), st.floats(0, 9))
def test_no_answer_is_expected_to_be_longer_than_allowed(n_predict: int, rounds: float, ended: float) -> None:
    """Whatever ended by itself before, an answer has between 0 and n_predict tokens."""
    ended = min(ended, rounds)
    assert 0 <= Answer(3, rounds, ended, ended * 100).tokens(n_predict) <= n_predict * (1 + 1e-9)


def test_prompts_of_unknown_length_are_not_made_up(cells: list[PlannedCell]) -> None:
    """Where no prompt of a model is known, none is counted; where some are, the others are as their mean."""
    one = [cell for cell in cells if cell.start.model == "alpha" and cell.start.config == "none"][:2]
    (part,) = of(one, Source("probe", {"alpha": ModelTimings({"none": NONE})})).models
    assert part.uncounted
    assert part.duration_s == pytest.approx(3 + 2 * (1 + 5))
    some = Source("x", {"alpha": ModelTimings({"none": NONE}, {"p": Answer(30)})})
    (part,) = of(one, some).models
    assert (part.uncounted, part.unknown_prompts) == (False, 1)
    assert part.duration_s == pytest.approx(3 + 2 * (1 + 3 + 5))


def test_a_stand_in_has_a_margin(cells: list[PlannedCell]) -> None:
    """A config that was not measured may be slower than the baseline: its requests count for more."""
    estimator = Estimator([known(none=NONE)])
    none, mtp = (next(c for c in cells if c.start.config == name) for name in ("none", "mtp1"))
    assert estimator.cell_s(none) == pytest.approx(7)
    assert estimator.cell_s(mtp) == pytest.approx(7 * (1 + MARGIN))


def test_what_there_is_to_do_for_a_prompt(cells: list[PlannedCell]) -> None:
    """Known answers count before lengths, and only where all prompts of the model have one."""
    both = {"p": Answer(30, 1, 1, 4), "q": Answer(10, 2)}
    estimator = Estimator([Source("x", {"alpha": ModelTimings({"none": NONE}, both)})])
    assert estimator.sizes(cells[:12], {}) == {("alpha", "p"): (4, 30), ("alpha", "q"): (11, 10)}
    one = Estimator(
        [Source("x", {"alpha": ModelTimings({"none": NONE}, {"p": Answer(30), "q": Answer(10, 2)})})]
    )
    assert one.sizes(cells[:12], {}) == {("alpha", "p"): (0, 30), ("alpha", "q"): (0, 10)}
    assert Estimator([]).sizes(cells[:12], {"p": 5, "q": 7}) == {
        ("alpha", "p"): (0, 5),
        ("alpha", "q"): (0, 7),
    }
