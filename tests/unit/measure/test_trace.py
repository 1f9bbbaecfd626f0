"""What the log says of each request: its own lines, and the share of its types in cumulative statistics."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ngram.measure.trace import RequestLogs
from pytest_ngram.record import TypeDrafts

NAME = "0.00.203.075 I spec common_specu: statistics"


def statistics(kind: str, calls: int, drafts: int, drafted: int, accepted: int) -> str:
    return (
        f"{NAME} {kind:>16}: #calls(b,g,a) = {1:4} {calls:6} {drafts:6}, #gen drafts = {drafts:6}, "
        f"#acc drafts = {1:5}, #gen tokens = {drafted:6}, #acc tokens = {accepted:5}\n"
    )


def request(task: int, *lines: str, released: bool = True) -> str:
    head = f"0.00.100.000 I slot print_timing: id  0 | task {task} |"
    text = f"{head}        eval time =      45.67 ms /   100 tokens (    0.46 ms per token)\n"
    text += f"{head}       total time =      65.10 ms /   114 tokens\n" + "".join(lines)
    return text + (
        f"0.00.200.000 I slot      release: id  0 | task {task} | stop processing: n_tokens = 5\n" * released
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text("")
    return path


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def by_type(logs: RequestLogs) -> dict[str, TypeDrafts] | None:
    said = logs.take()
    assert said is not None
    return said.by_type


def test_the_warm_up_is_taken_off(log: Path) -> None:
    """Statistics count from the server's start; a request gets what it added, each type its own."""
    logs = RequestLogs(log)
    add(log, request(1, statistics("ngram-mod", 10, 0, 0, 0), statistics("draft-mtp", 10, 9, 27, 13)))
    assert by_type(logs) == {
        "ngram-mod": TypeDrafts(10, 0, 0, 0),
        "draft-mtp": TypeDrafts(10, 9, 27, 13),
    }
    add(log, request(5, statistics("ngram-mod", 50, 2, 16, 3), statistics("draft-mtp", 48, 47, 141, 60)))
    assert by_type(logs) == {
        "ngram-mod": TypeDrafts(40, 2, 16, 3),
        "draft-mtp": TypeDrafts(38, 38, 114, 47),
    }


def test_a_request_that_nobody_took_is_not_counted_for_the_next(log: Path) -> None:
    """Somebody's own request between two cells is in the log too."""
    logs = RequestLogs(log)
    add(
        log,
        request(1, statistics("ngram-mod", 10, 1, 8, 0)) + request(2, statistics("ngram-mod", 30, 3, 24, 0)),
    )
    assert by_type(logs) == {"ngram-mod": TypeDrafts(20, 2, 16, 0)}


def test_a_reading_that_is_missing_leaves_two_requests_unknown(log: Path) -> None:
    """Without the reading before it, a cumulative count tells nothing of one request."""
    logs = RequestLogs(log)
    add(log, request(1, statistics("ngram-mod", 10, 1, 8, 0)))
    assert by_type(logs) is not None
    add(log, request(2))
    assert by_type(logs) is None
    add(log, request(3, statistics("ngram-mod", 50, 5, 40, 0)))
    assert by_type(logs) is None
    add(log, request(4, statistics("ngram-mod", 60, 6, 48, 0)))
    assert by_type(logs) == {"ngram-mod": TypeDrafts(10, 1, 8, 0)}


def test_a_log_that_ends_with_the_closing_line_is_taken(log: Path) -> None:
    """A build may say nothing after it: the request's times are read all the same."""
    add(log, request(1, released=False))
    said = RequestLogs(log).take()
    assert said is not None
    assert said.request.timings["predicted"].tokens == 100
    assert said.by_type is None


def test_no_log_says_nothing() -> None:
    """A server at a URL has none."""
    assert RequestLogs(None).take() is None


def test_a_recorded_stack_with_replays(log: Path) -> None:
    """The lines of a real build: 290 tokens drafted, 66 by draft-mtp and 224 by ngram-simple."""
    data = Path(__file__).parents[1] / "engine" / "data" / "handbuilt-stack-replays.log"
    first = []
    for line in data.read_text().splitlines(keepends=True):
        first.append(line)
        if "statistics" in line and "draft-mtp" in line:
            break
    log.write_text("".join(first))
    assert by_type(RequestLogs(log)) == {
        "ngram-simple": TypeDrafts(calls=48, drafts=26, drafted=224, accepted=23),
        "draft-mtp": TypeDrafts(calls=22, drafts=22, drafted=66, accepted=27),
    }
