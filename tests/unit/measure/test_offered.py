"""What a build lacks is said where a record cannot tell something for it, and only there."""

from __future__ import annotations

import pytest

from pytest_ngram.measure.offered import not_offered

NEW = {
    "metrics": True,
    "n-decode-total": True,
    "draft-counts": True,
    "verify-counts": True,
    "per-position-counts": True,
    "timing-lines": True,
    "statistics-lines": True,
    "trace-lines": True,
}
NO_LOG = {name: there for name, there in NEW.items() if not name.endswith("-lines")}


@pytest.mark.parametrize("capabilities", [{}, NEW, NO_LOG])
def test_a_build_that_has_it_all_is_not_talked_about(capabilities: dict[str, bool]) -> None:
    """Nor is one of which nothing was seen yet, or one without a log, as every server at a URL."""
    assert not_offered(capabilities, speculative=True) == []


def test_what_the_log_tells_instead_is_not_missed() -> None:
    """Older builds count no drafts in /metrics; their log does."""
    older = NEW | {"draft-counts": False, "verify-counts": False, "per-position-counts": False}
    assert not_offered(older, speculative=True) == []


def test_what_nothing_tells_is_said_with_its_consequence() -> None:
    """Without a log, what the metrics lack is null."""
    lacking = not_offered(NO_LOG | {"verify-counts": False, "per-position-counts": False}, speculative=True)
    assert [line.partition(": ")[2] for line in lacking] == [
        "verify_steps and coverage are null",
        "accepted_per_pos is null",
    ]


def test_the_baseline_misses_no_counts_of_drafts() -> None:
    """It drafts nothing, and that is known; its decodes are not."""
    older = NO_LOG | {"verify-counts": False, "n-decode-total": False}
    (said,) = not_offered(older, speculative=False)
    assert said.startswith("n_decode_total in /metrics: n_decode is null")


def test_no_metrics_at_all_is_one_line() -> None:
    """One thing is missing, not five."""
    assert len(not_offered({"metrics": False, "n-decode-total": False}, speculative=True)) == 1


def test_lines_that_a_log_lacks_are_said() -> None:
    """A log without statistics, as at a lower -lv, leaves the types unknown."""
    (said,) = not_offered(NEW | {"statistics-lines": False}, speculative=True)
    assert said == "statistics lines in the log (from -lv 4 on): by_type is null"
