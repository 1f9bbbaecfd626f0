"""How a line of the doctor looks, and how the last one sums up."""

from __future__ import annotations

from pytest_ngram.doctor.line import fail, ok, rendered, summary, warn, worst

WELL = ok("cores", "2 cores")
BAD = warn("swap", "900 MiB in use", "close the browser")
BROKEN = fail("engine", "there is no llama-server", "name its path")


def test_lines_are_aligned() -> None:
    """Status and name take the same room in each line, and what to do stands below what was found."""
    texts = [rendered(line) for line in (WELL, BAD, BROKEN)]
    assert texts[0] == "ok    cores         2 cores"
    assert [text.index(line.found) for text, line in zip(texts, (WELL, BAD, BROKEN), strict=True)] == [20] * 3
    assert texts[1].splitlines()[1] == " " * 20 + "to do: close the browser"


def test_colour_only_if_asked() -> None:
    """A pipe gets plain text; a terminal gets the status in colour and the rest as it is."""
    assert "\033" not in rendered(BROKEN)
    assert rendered(BROKEN, colour=True) == rendered(BROKEN).replace("fail", "\033[31mfail\033[0m")


def test_foreign_names_cannot_move_the_cursor() -> None:
    """What a process or file calls itself is shown without control characters."""
    assert rendered(ok("busy", "evil\033[2Jname\n")) == "ok    busy          evil?[2Jname?"


def test_summary_counts_and_says_what_it_means() -> None:
    """The last line tells the three outcomes apart."""
    assert summary([WELL, WELL]) == "2 checks: 2 ok, 0 warn, 0 fail. Ready to measure"
    assert summary([WELL, BAD]).startswith("2 checks: 1 ok, 1 warn, 0 fail. It can be measured")
    assert (
        summary([WELL, BAD, BROKEN]) == "3 checks: 1 ok, 1 warn, 1 fail. Mend what fails before you measure"
    )


def test_worst_line_counts() -> None:
    """Of several looks at one thing the first of the worst is told."""
    other = fail("engine", "second", "x")
    assert worst([WELL, BAD, BROKEN, other]) is BROKEN
    assert worst([WELL, BAD]) is BAD
