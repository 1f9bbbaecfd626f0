"""What a report shows of a run: the numbers, where they lead, and what is said where there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from pytest_ngram.record import ECHO, Disturbance, Record
from pytest_ngram.report.catalogue import catalogue
from pytest_ngram.report.numbers import UNKNOWN
from pytest_ngram.report.page import Figure, ModelPart, Page, Section, Shown, Table, build

Cells = Callable[..., list[Record]]
Make = Callable[..., Shown]
TEXTS = catalogue()


def page_of(shown: Shown) -> Page:
    return build(shown, TEXTS)


def only(page: Page) -> ModelPart:
    (part,) = page.models
    return part


def row_of(table: Table, config: str) -> dict[str, str]:
    (row,) = [row for row in table.rows if row[0].text == config]
    return {head.text: cell.text for head, cell in zip(table.head, row, strict=True)}


def figure_of(part: ModelPart, name: str) -> Figure:
    (figure,) = [figure for figure in part.figures if figure.id.endswith(f"-{name}")]
    return figure


def tables_of(part: ModelPart) -> Iterator[Table]:
    yield part.table
    yield from (figure.table for figure in part.figures if figure.table is not None)
    if part.strata is not None:
        yield part.strata


@pytest.fixture
def two(cells_of: Cells, shown: Make) -> Page:
    return page_of(shown(cells_of("none", "mtp1")))


def test_the_first_screen_has_answer_table_and_floor(two: Page) -> None:
    """One sentence, one row a config with its numbers, and the noise floor with its blocks."""
    part = only(two)
    assert part.answer.startswith("adopt mtp1: +42.9%")
    row = row_of(part.table, "mtp1")
    assert row["verdict"] == "adopt"
    assert row["change of tg"].startswith("+42.9%")
    assert "…" in row["change of tg"]
    assert row["accept @ coverage"] == "0.667 @ 100%"
    assert row["tokens/step"] == "1.67"
    assert row["RSS, MiB"] == "15\n+0.0%"
    assert row["cells"] == "6 ok"
    assert row_of(part.table, "none")["verdict"] == "baseline"
    assert "3 blocks" in part.floor
    assert two.overview is None


def test_every_link_leads_to_cells_that_are_there(two: Page) -> None:
    """Each number's link is the id of a config's, a prompt's or one cell, in the same page."""
    part = only(two)
    ids = {group.id for group in part.cells.groups} | {group.config_id for group in part.cells.groups}
    ids |= {row.id for group in part.cells.groups for row in group.rows} | {part.cells.id}
    links = {cell.href for table in tables_of(part) for row in table.rows for cell in row if cell.href}
    assert links
    assert {link.removeprefix("#") for link in links} <= ids
    assert row_links(part.table, "mtp1") == {
        f"#{group.config_id}" for group in part.cells.groups if group.config == "mtp1"
    }


def test_every_number_leads_to_cells(two: Page) -> None:
    """No number of a model's tables stands alone: each leads to the cells behind it, if it is known."""
    for table in tables_of(only(two)):
        alone = [
            (table.caption, head.text, cell.text)
            for row in table.rows
            for head, cell in zip(table.head, row, strict=True)
            if cell.number and cell.text != UNKNOWN and not cell.href and head.text != "place in the run"
        ]
        assert alone == []


def row_links(table: Table, config: str) -> set[str]:
    return {cell.href for row in table.rows if row[0].text == config for cell in row if cell.href}


def test_every_plot_has_a_table_with_its_values(two: Page) -> None:
    """Of each plot that is drawn, the table has every value; and it is told in words what it shows."""
    drawn = [figure for figure in only(two).figures if figure.plot is not None]
    assert len(drawn) == 8
    for figure in drawn:
        assert figure.plot is not None
        assert figure.table is not None
        marks = sum(len(series.marks) for series in figure.plot.series)
        assert 0 < marks <= len(figure.table.rows) * len(figure.table.head), figure.id
        assert figure.alt
        assert figure.note
        assert "{" not in figure.alt + figure.note


def test_a_plots_place_has_the_interval_and_the_floor(two: Page) -> None:
    """The change is drawn where the table says, with its interval, the floor around 0, and what is wanted."""
    part = only(two)
    plot = figure_of(part, "change").plot
    assert plot is not None
    assert plot.band is not None
    (mark,) = plot.series[0].marks
    assert mark.low is not None
    assert mark.high is not None
    assert mark.low < mark.value < mark.high
    assert (
        f"{mark.value:+.1%}\n{mark.low:+.1%}…{mark.high:+.1%}" == row_of(part.table, "mtp1")["change of tg"]
    )
    assert plot.band.low == -plot.band.high
    assert [rule.value for rule in plot.rules] == [0.05]


def test_a_config_has_the_same_style_in_all_plots(cells_of: Cells, shown: Make) -> None:
    """Colour and shape are a config's own, and the baseline's is the first."""
    part = only(page_of(shown(cells_of("ngram-simple", "none", "mtp1"))))
    styles: dict[str, set[int]] = {}
    for name in ("change", "tg", "prompts", "acceptance", "load", "drift"):
        plot = figure_of(part, name).plot
        assert plot is not None
        for series in plot.series:
            styles.setdefault(series.name, set()).add(series.style)
    assert {name: len(found) for name, found in styles.items()} == {"none": 1, "mtp1": 1, "ngram-simple": 1}
    assert styles["none"] == {0}


def test_drift_is_in_the_order_of_measuring(two: Page) -> None:
    """A cell's place is told by its server and the requests before it, not by where it stands in the file."""
    figure = figure_of(only(two), "drift")
    assert figure.table is not None
    names = [row[1].text for row in figure.table.rows]
    assert len(names) == 18
    assert [name.rsplit("/b")[1][0] for name in names] == sorted(name.rsplit("/b")[1][0] for name in names)


def test_one_block_claims_nothing(cells_of: Cells, shown: Make) -> None:
    """No interval, no verdict but `cannot tell`, and a line that says why."""
    part = only(page_of(shown(cells_of("none", "mtp1", blocks=1))))
    row = row_of(part.table, "mtp1")
    assert row["verdict"] == "cannot tell"
    assert "…" not in row["change of tg"]
    assert any("One block only" in note for note in part.notes)
    assert "adopt" not in part.answer


def test_without_baseline_nothing_is_claimed(cells_of: Cells, shown: Make) -> None:
    """Speeds are shown; no change, no floor, no verdict."""
    part = only(page_of(shown(cells_of("mtp1", "ngram-simple"))))
    assert row_of(part.table, "mtp1")["change of tg"] == UNKNOWN
    assert row_of(part.table, "mtp1")["verdict"] == UNKNOWN
    assert row_of(part.table, "mtp1")["tg, tokens/s"] != UNKNOWN
    assert part.floor.startswith("Noise floor: not known")
    assert figure_of(part, "change").plot is None
    assert figure_of(part, "change").note.startswith("nothing to compare")
    assert "nothing is claimed" in part.answer


def test_one_config_alone_is_shown(cells_of: Cells, shown: Make) -> None:
    """The baseline alone has its speed, and nothing is claimed."""
    part = only(page_of(shown(cells_of("none"))))
    assert row_of(part.table, "none")["verdict"] == "baseline"
    assert "nothing is claimed" in part.answer
    assert figure_of(part, "tg").plot is not None


def test_records_from_before_a_field_was_known(cells_of: Cells, shown: Make) -> None:
    """No trace, no server, no memory, no host, no starts: what is missing is said, never 0."""
    old = [
        replace(
            record,
            rounds=tuple(
                replace(r, telemetry=None, accepted_per_pos=None, steps=None) for r in record.rounds
            ),
            memory=None,
            host=None,
            server=None,
            model=None,
            engine=None,
            disturbance=None,
        )
        for record in cells_of("none", "mtp1")
    ]
    page = page_of(shown(old, run=False))
    part = only(page)
    row = row_of(part.table, "mtp1")
    assert row["RSS, MiB"] == row["tokens/step"] == UNKNOWN
    for name in ("curve", "acceptance", "memory", "load", "drift"):
        figure = figure_of(part, name)
        assert figure.plot is None, name
        assert figure.note, name
    assert figure_of(part, "tg").plot is not None
    assert page.lead.count(UNKNOWN) == 3


def test_cells_that_failed_are_shown_with_reason_and_log(
    cells_of: Cells, shown: Make, failed_of: Callable[..., Record]
) -> None:
    """Of a crash there are reason and log; the cell is marked and leads there, and back."""
    cells = cells_of("none", "mtp1")
    cells[-1] = failed_of(cells[-1], "crash", "exit code -9", "line 1", "line 2")
    cells[-2] = failed_of(cells[-2], "inert", "it never drafted")
    part = only(page_of(shown(cells)))
    assert [notice.status for notice in part.notices] == ["inert", "crash"]
    crash = part.notices[1]
    assert crash.reason == "exit code -9"
    assert crash.log_tail == ("line 1", "line 2")
    rows = {row.id: row for group in part.cells.groups for row in group.rows}
    assert rows[crash.href.removeprefix("#")].bad
    assert any(cell.href == f"#{crash.id}" for cell in rows[crash.href.removeprefix("#")].cells)
    assert row_of(part.table, "mtp1")["cells"] == "4 ok, 1 crash, 1 inert"


def test_disturbed_cells_are_marked_with_the_reason(cells_of: Cells, shown: Make) -> None:
    """Contended and throttled cells keep their number, carry a mark, and are counted."""
    cells = cells_of("none", "mtp1")
    cells[0] = replace(cells[0], disturbance=Disturbance(contended=("others took 30% of the cores",)))
    cells[1] = replace(cells[1], disturbance=Disturbance(throttled=("slowed down for heat 2 times",)))
    part = only(page_of(shown(cells)))
    assert [notice.status for notice in part.disturbed] == ["contended", "throttled"]
    assert part.disturbed[0].reason == "contended: others took 30% of the cores"
    assert part.notices == ()
    assert any("(contended): 1" in note for note in part.notes)
    assert any("1 contended, 1 throttled" in note for note in part.notes)


def test_prompts_out_of_the_corpus_count_nowhere(cells_of: Cells, shown: Make) -> None:
    """They are in the list of cells, with a mark, and in no number of the table."""
    cells = cells_of("none", "mtp1")
    echo = [
        replace(r, cell=replace(r.cell, prompt_set=ECHO, prompt="leaked"))
        for r in cells_of("mtp1", prompts=("x",))
    ]
    part = only(page_of(shown([*cells, *echo])))
    assert row_of(part.table, "mtp1")["cells"] == "6 ok"
    marked = [row for group in part.cells.groups if group.prompt == "leaked" for row in group.rows]
    assert [row.cells[-1].text for row in marked] == ["out of the corpus, counts nowhere"] * 3


def test_only_prompts_out_of_the_corpus_is_no_model(cells_of: Cells, shown: Make) -> None:
    """A run of nothing else has no part that could claim anything, and makes a page all the same."""
    echo = [replace(r, cell=replace(r.cell, prompt_set=ECHO)) for r in cells_of("none")]
    assert page_of(shown(echo)).models == ()


def test_several_models_have_an_overview(cells_of: Cells, shown: Make) -> None:
    """A line for each model and temperature, which leads to its part; no id is there twice."""
    cells = cells_of("none", "mtp1")
    other = [replace(r, cell=replace(r.cell, model="n", temperature=0.7)) for r in cells]
    page = page_of(shown([*cells, *other]))
    assert page.overview is not None
    assert [row[0].text for row in page.overview.rows] == ["m, temperature 0", "n, temperature 0.7"]
    assert [row[0].href for row in page.overview.rows] == [f"#{part.id}" for part in page.models]
    ids = [row.id for part in page.models for group in part.cells.groups for row in group.rows]
    assert len(ids) == len(set(ids)) == len(cells) * 2


def test_further_sections_stand_in_the_page(cells_of: Cells, shown: Make) -> None:
    """A comparison or a forecast is handed in, and is neither changed nor lost."""
    section = Section("compared", "Against the run before", ("nothing changed",))
    assert page_of(shown(cells_of("none"), [section])).sections == (section,)


def test_the_same_cells_make_the_same_page(cells_of: Cells, shown: Make) -> None:
    """Nothing depends on the order of cells, on time or on chance."""
    cells = cells_of("none", "mtp1", "ngram-simple")
    first, second = shown(cells), shown(cells[::-1])
    again = Shown(second.records, first.verdict, first.run, first.config_order)
    assert page_of(first) == page_of(again)


def test_answers_of_one_token_are_left_out_by_name(cells_of: Cells, shown: Make) -> None:
    """An answer that ends at once has no time per token, and a page says why it is out."""
    records = cells_of("none", "mtp1")
    cut = replace(records[-1], rounds=(replace(records[-1].rounds[0], predicted_n=1),))
    notes = " ".join(only(page_of(shown([*records[:-1], cut]))).notes)
    assert "1 not timed: a single token" in notes
