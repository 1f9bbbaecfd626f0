"""The Markdown report: the answer first, tables that hold, and nothing that others wrote takes effect."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from pytest_ngram.record import ECHO, Record
from pytest_ngram.report.html import page
from pytest_ngram.report.markdown import markdown
from pytest_ngram.report.page import Section, Shown

Cells = Callable[..., list[Record]]
Make = Callable[..., Shown]


def test_it_begins_with_the_answer_the_table_and_the_floor(cells_of: Cells, shown: Make) -> None:
    """What a reviewer needs stands before anything is unfolded."""
    text = markdown(shown(cells_of("none", "mtp1")))
    first = text.split("<details>")[0].splitlines()
    assert first[0].startswith("## adopt mtp1: +42.9%")
    assert any(line.startswith("| mtp1 | adopt | +42.9%<br>") for line in first)
    assert any(line.startswith("Noise floor:") for line in first)


def test_every_row_has_as_many_columns_as_its_head(
    cells_of: Cells, shown: Make, failed_of: Callable[..., Record]
) -> None:
    """Names and reasons with bars and line ends break no table."""
    cells = [
        replace(r, cell=replace(r.cell, prompt=f"a|b\n{r.cell.prompt}")) for r in cells_of("none", "mtp1")
    ]
    cells[-1] = failed_of(cells[-1], "hang", "a | b", "c | d")
    table: list[str] = []
    for line in [*markdown(shown(cells)).splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
        elif table:
            assert len({row.replace("\\|", "").count("|") for row in table}) == 1
            table = []


def test_what_others_wrote_takes_no_effect(
    cells_of: Cells, shown: Make, failed_of: Callable[..., Record]
) -> None:
    """No HTML, no emphasis, no call of somebody's name; a log stays in its fence."""
    cells = cells_of("none", "mtp1")
    cells[-1] = failed_of(cells[-1], "crash", "<b>why</b>", "```", "# not a title", "@somebody")
    text = markdown(shown(cells, [Section("s", "<img src=x> *x* @somebody #12", ("[link](y)",))]))
    assert "<img" not in text
    assert "&lt;img src=x&gt; \\*x\\* @<!-- -->somebody #<!-- -->12" in text
    assert "\\[link\\](y)" in text
    assert "````text\n```\n# not a title\n@somebody\n````" in text


def test_the_same_run_makes_the_same_text(cells_of: Cells, shown: Make) -> None:
    """A comment is only written anew when something changed."""
    cells = cells_of("none", "mtp1")
    assert markdown(shown(cells)) == markdown(shown(cells))


def test_without_a_baseline_it_claims_nothing(cells_of: Cells, shown: Make) -> None:
    """A run that can tell nothing says so in its title."""
    assert markdown(shown(cells_of("mtp1", blocks=1), run=False)).startswith("## nothing is claimed")


def test_a_run_of_nothing_that_counts_says_so(cells_of: Cells, shown: Make) -> None:
    """Prompts out of the corpus alone are no result, in either report."""
    echo = [replace(r, cell=replace(r.cell, prompt_set=ECHO)) for r in cells_of("none")]
    assert markdown(shown(echo)).startswith("## nothing is claimed")
    assert "nothing is claimed" in page(shown(echo))
