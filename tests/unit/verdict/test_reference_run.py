"""A run that a host owner took once, by hand: what a verdict makes of it, with the figures worked out here.

The owner's own conclusions stand in the fixture. Each is compared with what the numbers give, and with the
largest noise that it bears.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_ngram.matrix.spec import STATEFUL_TYPES
from pytest_ngram.report.points import point_lines
from pytest_ngram.verdict.points import (
    Comparison,
    Conclusion,
    PointRow,
    PointVerdict,
    judge_points,
    points_from_builtins,
)
from pytest_ngram.verdict.types import Settings

FILE = Path(__file__).parents[3] / "fixtures" / "reference_run.yaml"


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return read


@pytest.fixture(scope="module")
def verdict(data: dict[str, Any]) -> PointVerdict:
    return judge_points(points_from_builtins(data), Settings(), STATEFUL_TYPES)


def row(verdict: PointVerdict, group: str, name: str) -> PointRow:
    (found,) = [each for each in verdict.rows if (each.group, each.id) == (group, name)]
    return found


def conclusion(verdict: PointVerdict, code: str) -> Conclusion:
    (found,) = [each for each in verdict.conclusions if each.what.code == code]
    return found


def compared(verdict: PointVerdict, code: str) -> dict[tuple[str, str, str], Comparison]:
    return {(c.group, c.config, c.against): c for c in conclusion(verdict, code).comparisons}


def test_every_figure_is_labelled_and_none_has_an_interval(verdict: PointVerdict) -> None:
    """17 figures, each a point estimate, unrepeated, of which nothing is decided; no line has a range."""
    assert len(verdict.rows) == 17
    assert all(each.reasons[0].code == "unrepeated" for each in verdict.rows)
    assert {each.decision for each in verdict.rows} == {"cannot tell"}
    lines = point_lines(verdict)
    figures = [line for line in lines if " t/s" in line]
    assert len(figures) == 17
    assert all("point estimate, unrepeated" in line for line in figures)
    assert not any("…" in line or "% to " in line for line in lines)


@pytest.mark.parametrize(
    ("group", "name", "change"),
    [
        ("general", "B", 0.23206),  # 10.30 ÷ 8.36
        ("general", "C", -0.45694),  # 4.54 ÷ 8.36
        ("general", "E", -0.43062),  # 4.76 ÷ 8.36
        ("general", "F", -0.00120),  # 8.35 ÷ 8.36
        ("agentic", "B", 0.22249),  # 10.22 ÷ 8.36
        ("agentic", "J", -0.05263),  # 7.92 ÷ 8.36
    ],
)
def test_changes_against_the_baseline_of_the_same_group(
    verdict: PointVerdict, group: str, name: str, change: float
) -> None:
    """tg ÷ tg of `none` in the same group, as worked out by hand."""
    assert row(verdict, group, name).change == pytest.approx(change, abs=1e-5)


def test_rows_compare_only_inside_one_group(verdict: PointVerdict) -> None:
    """The strict table was measured in a group without baseline or counterpart: no change is told of it."""
    assert row(verdict, "general_strict_table", "C").change is None
    groups = {each.group for made in verdict.conclusions for each in made.comparisons}
    assert groups == {"general", "agentic"}


def test_the_owner_has_five_conclusions_and_so_has_the_verdict(
    data: dict[str, Any], verdict: PointVerdict
) -> None:
    """One of ours for each of the owner's, in the same order."""
    assert len(data["owner_conclusions"]) == 5
    codes = [each.what.code for each in verdict.conclusions]
    assert codes == ["points-corpus", "points-lookup", "points-stacks", "points-mtp", "points-order"]


def test_the_corpus_adds_nothing_up_to_a_noise_of_4_8_percent(verdict: PointVerdict) -> None:
    """C is no better than E while noise is below 4.76 ÷ 4.54 - 1; D than G below 6.29 ÷ 5.46 - 1."""
    found = compared(verdict, "points-corpus")
    c = found["general", "ngram-cache+table", "ngram-cache"]
    d = found["general", "mtp1+ngram-cache+table", "mtp1+ngram-cache"]
    assert (c.claim, c.change, c.survives) == (
        "no better",
        pytest.approx(-0.04622, abs=1e-5),
        pytest.approx(0.04846, abs=1e-5),
    )
    assert (d.claim, d.survives) == ("no better", pytest.approx(0.15201, abs=1e-5))
    assert len(found) == 2
    assert conclusion(verdict, "points-corpus").survives == pytest.approx(0.04846, abs=1e-5)


def test_the_lookup_costs_43_percent_up_to_a_noise_of_75_6_percent(verdict: PointVerdict) -> None:
    """E is slower than A while noise is below 8.36 ÷ 4.76 - 1; F, which drafted nothing, is no claim."""
    ((key, e),) = compared(verdict, "points-lookup").items()
    assert key == ("general", "ngram-cache", "none")
    assert (e.claim, e.change) == ("slower", pytest.approx(-0.43062, abs=1e-5))
    assert e.survives == pytest.approx(0.75630, abs=1e-5)


def test_stacks_are_no_better_up_to_a_noise_of_0_7_percent(verdict: PointVerdict) -> None:
    """K bears 10.22 ÷ 10.15 - 1, L and M as one bear 10.22 ÷ sqrt(9.52 x 9.54) - 1, G 10.30 ÷ 6.29 - 1."""
    found = compared(verdict, "points-stacks")
    k = found["agentic", "mtp1+ngram-mod", "mtp1"]
    lm = found["agentic", "mtp1+ngram-map-k4v = ngram-map-k4v+mtp1", "mtp1"]
    g = found["general", "mtp1+ngram-cache", "mtp1"]
    assert [each.claim for each in (k, lm, g)] == ["no better"] * 3
    assert k.survives == pytest.approx(0.00690, abs=1e-5)
    assert (
        lm.survives == pytest.approx(10.22 / math.sqrt(9.52 * 9.54) - 1) == pytest.approx(0.07240, abs=1e-5)
    )
    assert g.survives == pytest.approx(0.63752, abs=1e-5)
    assert len(found) == 3
    assert conclusion(verdict, "points-stacks").survives == pytest.approx(0.00690, abs=1e-5)


def test_mtp_of_one_is_kept_up_to_a_noise_of_13_7_percent(verdict: PointVerdict) -> None:
    """B gains in both groups, H is a tie if noise is 0.5 % or more, I and J are worse; I bears the least."""
    found = compared(verdict, "points-mtp")
    said = {key: (each.claim, each.survives) for key, each in found.items()}
    assert said == {
        ("general", "mtp1", "none"): ("faster", pytest.approx(0.23206, abs=1e-5)),
        ("agentic", "mtp1", "none"): ("faster", pytest.approx(0.22249, abs=1e-5)),
        ("agentic", "mtp2", "mtp1"): ("tie", None),
        ("agentic", "mtp3", "mtp1"): ("slower", pytest.approx(0.13682, abs=1e-5)),  # 10.22 ÷ 8.99
        ("agentic", "mtp5", "mtp1"): ("slower", pytest.approx(0.29040, abs=1e-5)),  # 10.22 ÷ 7.92
    }
    assert found["agentic", "mtp2", "mtp1"].needs == pytest.approx(0.00489, abs=1e-5)  # 10.27 ÷ 10.22
    kept = conclusion(verdict, "points-mtp")
    assert kept.what.values["best"] == "mtp1"
    assert kept.survives == pytest.approx(0.13682, abs=1e-5)


def test_l_and_m_are_one_configuration(verdict: PointVerdict) -> None:
    """Their difference, 9.54 ÷ 9.52, is noise under any floor: it follows from the types, not from numbers.

    It is the only repeat of the run, and makes its only floor: t with one degree of freedom (12.706) × the
    log of that ratio. K's 0.7 % is within it, the corpus' 4.8 % is not.
    """
    order = conclusion(verdict, "points-order")
    ((key, each),) = compared(verdict, "points-order").items()
    assert key == ("agentic", "ngram-map-k4v+mtp1", "mtp1+ngram-map-k4v")
    assert (each.claim, each.change) == ("one configuration", pytest.approx(0.00210, abs=1e-5))
    assert order.survives is None
    assert verdict.own_floor == pytest.approx(math.expm1(12.7062 * math.log(9.54 / 9.52)), rel=1e-4)
    assert verdict.own_floor == pytest.approx(0.02702, abs=1e-5)


def test_what_would_split_the_loss_of_e_is_named(verdict: PointVerdict) -> None:
    """-43 % is one number of several causes: coverage, drafts, T(w) and replays would be needed."""
    (split,) = [each for each in row(verdict, "general", "E").reasons if each.code == "split-needs"]
    assert split.values["inputs"] == "coverage, drafts, T(w), replays"
    assert split.values["change"] == pytest.approx(-0.43062, abs=1e-5)


def test_inputs_that_are_known_are_not_asked_for(data: dict[str, Any]) -> None:
    """With the coverage and the replays of E written down, two inputs are left to ask for."""
    rows = [{**each, "coverage": 0.3, "replays": 0.1} for each in data["groups"]["general"]]
    judged = judge_points(points_from_builtins({"groups": {"general": rows}}), Settings())
    (split,) = [each for each in row(judged, "general", "E").reasons if each.code == "split-needs"]
    assert split.values["inputs"] == "drafts, T(w)"


def test_rows_of_types_that_keep_state_say_so(verdict: PointVerdict) -> None:
    """C, D, E and G depend on the order of the prompts; A and B do not."""
    marked = {
        each.id
        for each in verdict.rows
        if each.group == "general" and "keeps-state" in {r.code for r in each.reasons}
    }
    assert marked == {"C", "D", "E", "F", "G"}


def test_numbers_that_say_otherwise_are_concluded_otherwise(data: dict[str, Any]) -> None:
    """With a fast C and a slow B the same rules say that the corpus adds, and that no MTP is kept."""
    changed = {"C": 6.0, "B": 8.0}
    groups = {
        name: [{**each, "tg": changed.get(each["id"], each["tg"])} for each in rows]
        for name, rows in data["groups"].items()
    }
    verdict = judge_points(points_from_builtins({"groups": groups}), Settings())
    c = compared(verdict, "points-corpus")["general", "ngram-cache+table", "ngram-cache"]
    assert (c.claim, c.survives) == ("faster", pytest.approx(6.0 / 4.76 - 1))
    assert conclusion(verdict, "points-mtp").what.values["best"] == "none"
