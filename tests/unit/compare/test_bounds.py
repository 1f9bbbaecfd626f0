"""`--fail-on`: what may be written, and what a bound says of a figure."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_ngram.errors import OptionError
from pytest_ngram.record import Disturbance, Outcome, Record, RunData
from pytest_ngram.verdict.bounds import Bound, Checked, check, parse, reach
from pytest_ngram.verdict.comparison import compare
from pytest_ngram.verdict.figures import KINDS, Figure

Make = Callable[..., RunData]
Change = Callable[[RunData, Callable[[Record], Record]], RunData]


def test_the_form_of_the_docs_is_read() -> None:
    """Percent for speeds and memory, a difference for shares; spaces do not matter."""
    assert parse("tg:-5%, acceptance:-0.05 ,rss:+10%,pp:-10%") == (
        Bound("tg", True, 0.05, "tg:-5%"),
        Bound("acceptance", True, 0.05, "acceptance:-0.05"),
        Bound("rss", False, 0.10, "rss:+10%"),
        Bound("pp", True, 0.10, "pp:-10%"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty part"),
        ("tg:-5%,", "empty part"),
        ("tg=-5%", "no `:`"),
        ("speed:-5%", "no figure 'speed'; there are tg"),
        ("tg:5%", "'5%' has no sign"),
        ("tg:-5", "tg takes percent, such as tg:-5%"),
        ("acceptance:-5%", "acceptance takes a difference, such as acceptance:-0.05"),
        ("tg:-x%", "'-x%' is no number"),
        ("tg:-1e3%", "'-1e3%' is no number"),
        ("tg:-5%,tg:-6%", "two bounds on one side"),
        ("tg:-100%", "nothing can fall by 100 %"),
        ("coverage:+1.5", "coverage is a share"),
        (f"rss:+{'9' * 400}%", "beyond all numbers"),
        (f"tokens_per_step:-{'9' * 400}", "beyond all numbers"),
    ],
)
def test_anything_else_is_refused_by_name(text: str, said: str) -> None:
    """The error names the part, what is wrong with it, the option, and a form that works."""
    with pytest.raises(OptionError, match="--ngram-fail-on") as caught:
        parse(text, "--ngram-fail-on")
    assert said in caught.value.cause
    assert "tg:-5%,acceptance:-0.05" in caught.value.fix


@given(st.text(alphabet="tgpcs:+-%0123456789., ", max_size=20))
def test_nothing_is_half_read(text: str) -> None:
    """Whatever is written is read whole, part by part, or refused."""
    try:
        bounds = parse(text)
    except OptionError:
        return
    assert [bound.text.partition(":")[0] for bound in bounds] == [
        part.partition(":")[0].strip() for part in text.split(",")
    ]
    assert all(bound.figure in KINDS and bound.size >= 0 for bound in bounds)


def test_the_farther_of_interval_and_floor_counts() -> None:
    """A change of −10 % with an interval of ±1 % and a floor of 5 % may be −14.3 to −5.5 %."""
    figure = Figure(old=1.0, new=0.9, kind="ratio", change=-0.1, low=-0.11, high=-0.09, floor=0.05, blocks=3)
    assert reach(figure) == pytest.approx((0.9 / 1.05 - 1, 0.9 * 1.05 - 1))


def outcome(checked: Checked, config: str) -> tuple[str, ...]:
    return tuple(each.outcome for each in checked.checks if each.config == config)


@pytest.mark.parametrize(("slower", "expected"), [(1.0, "pass"), (1.2, "fail"), (1.0526, "cannot tell")])
def test_a_bound_on_a_speed(make_run: Make, slower: float, expected: str) -> None:
    """Clear of the bound with all of its doubt it passes or fails; with the bound in the doubt, neither."""
    found = check(compare(make_run("old"), make_run("new", slower={"mtp1": slower})), parse("tg:-5%"))
    assert outcome(found, "mtp1") == (expected,)
    assert outcome(found, "none") == ("pass",)
    assert found.outcome == expected


def test_a_rise_is_another_side(make_run: Make) -> None:
    """`+` looks for a rise: a config that became 20 % faster fails `tg:+10%` and keeps to `tg:-10%`."""
    faster = compare(make_run("old", slower={"mtp1": 1.2}), make_run("new"))
    assert check(faster, parse("tg:+10%")).outcome == "fail"
    assert check(faster, parse("tg:-10%")).outcome == "pass"


def test_acceptance_needs_no_floor(make_run: Make) -> None:
    """It is counted, not timed: 16 of 24 to 14 of 26 is −0.128, and the same run keeps to any bound."""
    old, new = make_run("old", configs=("mtp1",)), make_run("new", configs=("mtp1",), accepted=14)
    assert check(compare(old, new), parse("acceptance:-0.05")).outcome == "fail"
    assert check(compare(old, old), parse("acceptance:-0")).outcome == "pass"


def test_a_bound_that_is_just_kept_is_kept(make_run: Make) -> None:
    """0.5 to 0.45 is no more than 0.05, whatever a binary fraction makes of it."""
    figures = [
        Figure(old=0.8, new=0.75, kind="difference", change=0.75 - 0.8, low=0.75 - 0.8, high=0, blocks=3)
    ]
    compared = compare(make_run("old"), make_run("new"))
    (model,) = compared.models
    configs = [replace(c, figures={"acceptance": figures[0]}) for c in model.configs if c.config == "mtp1"]
    kept = replace(compared, models=(replace(model, configs=tuple(configs)),))
    assert check(kept, parse("acceptance:-0.05")).outcome == "pass"


def test_fewer_than_three_blocks_tell_nothing(make_run: Make) -> None:
    """Not even a config that is half as fast, nor an acceptance that is the same."""
    found = check(
        compare(make_run("old", blocks=2), make_run("new", blocks=2, slower={"mtp1": 2.0})),
        parse("tg:-5%,acceptance:-0.05"),
    )
    assert outcome(found, "mtp1") == ("cannot tell", "cannot tell")
    assert {each.why.code for each in found.checks} == {"bound-few-blocks"}


def test_without_the_baseline_the_noise_is_not_known(make_run: Make) -> None:
    """A speed has no floor then, so no bound on it can be told; acceptance still can."""
    runs = make_run("old", configs=("mtp1",)), make_run("new", configs=("mtp1",), slower={"mtp1": 2.0})
    found = check(compare(*runs), parse("tg:-5%,acceptance:-0.05"))
    assert [each.outcome for each in found.checks] == ["cannot tell", "pass"]
    assert found.checks[0].why.code == "bound-no-floor"
    assert found.outcome == "cannot tell"


def test_a_figure_that_is_not_known_is_no_pass(make_run: Make, change_cells: Change) -> None:
    """Without memory on one side `rss` cannot be told."""
    blind = change_cells(make_run("new"), lambda record: replace(record, memory=None))
    found = check(compare(make_run("old"), blind), parse("rss:+10%"))
    assert {each.outcome for each in found.checks} == {"cannot tell"}


def test_drafts_are_asked_of_configs_that_draft(make_run: Make) -> None:
    """`none` has no acceptance: no check of it, and no doubt."""
    found = check(compare(make_run("old"), make_run("new")), parse("acceptance:-0.05"))
    assert [each.config for each in found.checks] == ["mtp1"]


@pytest.mark.parametrize(
    ("status", "expected"), [("crash", "fail"), ("hang", "fail"), ("oom", "cannot tell")]
)
def test_cells_that_end_badly_now_are_no_pass(
    make_run: Make, change_cells: Change, status: str, expected: str
) -> None:
    """What crashes or hangs since the bump fails, even if all that is left keeps to the bounds."""

    def broken(record: Record) -> Record:
        worse = record.cell.config == "mtp1" and record.cell.prompt == "q"
        return replace(record, rounds=(), outcome=Outcome(status=status, reason="x")) if worse else record  # type: ignore[arg-type]

    found = check(compare(make_run("old"), change_cells(make_run("new"), broken)), parse("tg:-50%"))
    assert found.outcome == expected
    assert next(each for each in found.checks if each.outcome == expected).why.code == "ended-badly-now"


def test_what_cannot_be_compared_is_no_pass(make_run: Make) -> None:
    """Two runs without a cell in common keep to no bound."""
    assert check(compare(make_run("old", prompts=("p",)), make_run("new", prompts=("r",))), ()).outcome == (
        "cannot tell"
    )


def test_a_config_of_one_side_is_told_and_no_doubt(make_run: Make) -> None:
    """What was measured on one side alone is a choice: it stands in the comparison, not in the checks."""
    compared = compare(make_run("old", configs=("none", "mtp1", "mtp2")), make_run("new"))
    assert check(compared, parse("tg:-5%")).outcome == "pass"
    (model,) = compared.models
    assert {c.config: c.only_old for c in model.configs}["mtp2"] == 6


SLOWER_IS_KEPT = parse("tg:-90%,gain:-90%,pp:-90%,rss:+90%")


@pytest.mark.parametrize(
    ("quiet", "outcome"), [(4, "pass"), (3, "pass"), (2, "cannot tell"), (1, "cannot tell")]
)
def test_speeds_of_half_of_the_prompts_keep_to_no_bound(
    make_run: Make, change_cells: Change, quiet: int, outcome: str
) -> None:
    """Undisturbed cells of a few prompts tell of these; memory is of all cells and keeps to its bound."""
    prompts = ("p", "q", "r", "s")
    marks = Disturbance(contended=("others",))
    new = change_cells(
        make_run("new", prompts=prompts),
        lambda r: r if r.cell.prompt in prompts[:quiet] else replace(r, disturbance=marks),
    )
    found = check(compare(make_run("old", prompts=prompts), new), SLOWER_IS_KEPT)
    assert found.outcome == outcome
    assert {each.why.code for each in found.checks if each.outcome != "pass"} == (
        set() if outcome == "pass" else {"few-of-the-prompts"}
    )
    assert {each.outcome for each in found.checks if each.bound == "rss:+90%"} == {"pass"}


def test_answers_that_end_early_keep_to_no_bound(make_run: Make, change_cells: Change) -> None:
    """A build that ends each answer early is not as fast as before: it does other work."""
    short = change_cells(
        make_run("new", tokens=10, accepted=4),
        lambda r: replace(r, rounds=tuple(replace(each, stop="eos") for each in r.rounds)),
    )
    found = check(compare(make_run("old"), short), SLOWER_IS_KEPT)
    assert found.outcome == "cannot tell"
    assert {each.why.code for each in found.checks if each.outcome != "pass"} == {"other-lengths"}


def test_a_bound_on_what_no_config_has_says_so(make_run: Make) -> None:
    """`none` has no acceptance; that is no lack of shared cells."""
    run = make_run(configs=("none",))
    found = check(compare(run, run), parse("acceptance:-0.05"))
    assert found.outcome == "cannot tell"
    assert [each.why.code for each in found.checks] == ["no-such-figure"]
