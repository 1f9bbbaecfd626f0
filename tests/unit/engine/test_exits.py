from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pytest_ngram.engine import exits, log_tail


def explain(tmp_path: Path, code: int, log: str = "", **options: object) -> object:
    path = tmp_path / "server.log"
    path.write_text(log)
    fields = {"killed_by_us": False, "oom_before": {}, "oom_after": {}} | options
    doing = str(fields.pop("doing", "running"))
    return exits.explain(exits.Exit(code, **fields), path, doing=doing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (2, "exit code 2"),
        (-6, "signal SIGABRT (6)"),
        (-250, "signal 250"),
        (None, "still running"),
    ],
)
def test_code_in_words(code: int | None, text: str) -> None:
    """Exit codes and signals are said by name."""
    assert exits.code_text(code) == text


@pytest.mark.parametrize(
    ("log", "outcome", "said"),
    [
        ("E load_model: failed to create MTP context\nI cleaning up", "refused", "no MTP block"),
        ("E load: error loading model: tensor is out of bounds", "refused", "cannot load the model"),
        ("speculative.cpp:2158: Couldn't read static lookup cache", "refused", "table"),
        ("x/common/ngram-cache.cpp:230: GGML_ASSERT(n > 0) failed", "refused", "table"),
        ("E ggml: unable to allocate CPU buffer of size 9", "oom", "could not allocate"),
        ("terminate: what():  std::bad_alloc", "oom", "could not allocate"),
        ("llama-batch.cpp:718: GGML_ASSERT(n_ubatch > n_keep_tail) failed", "refused", "-ub is too small"),
        ("nothing known", "crash", "an assertion of llama.cpp failed"),
    ],
)
def test_known_lines(tmp_path: Path, log: str, outcome: str, said: str) -> None:
    """A known line of the log decides outcome and cause of a failed start."""
    error = explain(tmp_path, -signal.SIGABRT, log, doing="starting")
    assert (error.outcome, said in error.cause) == (outcome, True)  # type: ignore[attr-defined]


def test_old_lines_do_not_explain_a_later_death(tmp_path: Path) -> None:
    """A warning from the start of a server that then ran does not name the cause of its end."""
    log = "failed to create MTP context\n" + "I slot works\n" * 50
    error = explain(tmp_path, -signal.SIGSEGV, log)
    assert "memory that is not its own" in error.cause  # type: ignore[attr-defined]


def test_first_error_line_is_the_cause(tmp_path: Path) -> None:
    """A start that gave up for a reason not known here passes on the first line marked as an error."""
    log = "0.00.001.1 I fine\n0.00.002.2 E srv init: no such host\n0.00.003.3 E srv init: exiting\n"
    error = explain(tmp_path, 1, log, doing="starting")
    assert "it gave up, saying: srv init: no such host" in error.cause  # type: ignore[attr-defined]


def test_sigill_names_the_cpu(tmp_path: Path) -> None:
    """SIGILL is explained: the build needs instructions that the CPU lacks."""
    error = explain(tmp_path, -signal.SIGILL, doing="starting")
    assert "instructions that this CPU lacks" in error.cause  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("before", "after", "outcome", "checked"),
    [
        ({"a": 1}, {"a": 2}, "oom", "a went from 1 to 2"),
        ({"a": 1}, {"a": 1}, "crash", "a went from 1 to 1"),
        ({}, {}, "crash", "no OOM counter of this host can be read"),
    ],
)
def test_sigkill_needs_evidence_for_oom(
    tmp_path: Path, before: dict[str, int], after: dict[str, int], outcome: str, checked: str
) -> None:
    """SIGKILL is `oom` where a counter rose, `crash` elsewhere; what was checked is said."""
    error = explain(tmp_path, -signal.SIGKILL, oom_before=before, oom_after=after)
    assert error.outcome == outcome  # type: ignore[attr-defined]
    assert any(checked in item for item in error.checked)  # type: ignore[attr-defined]


def test_our_own_kill_is_no_oom(tmp_path: Path) -> None:
    """A SIGKILL of ours is said to be ours, whatever the counters did meanwhile."""
    error = explain(tmp_path, -9, killed_by_us=True, oom_before={"a": 1}, oom_after={"a": 2})
    assert "this run ended it" in error.cause  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("cgroup", "place"),
    [
        ("0::/user/x\n", "sys/fs/cgroup/user/x/memory.events"),
        ("5:cpu:/y\n4:memory:/y\n", "sys/fs/cgroup/memory/y/memory.oom_control"),
    ],
)
def test_oom_counters_are_found(tmp_path: Path, cgroup: str, place: str) -> None:
    """The counter of the process's own control group, of either version, and the host's are read."""
    for path, text in (
        ("proc/self/cgroup", cgroup),
        (place, "low 0\noom_kill 3\noom_group_kill 9\n"),
        ("proc/vmstat", "nr_free 5\noom_kill 7\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert exits.oom_counters(tmp_path) == {f"/{place} oom_kill": 3, "/proc/vmstat oom_kill": 7}


def test_oom_counters_absent(tmp_path: Path) -> None:
    """Where nothing can be read there is no counter, which is not a count of 0."""
    assert exits.oom_counters(tmp_path) == {}


def test_tail_of_a_long_log(tmp_path: Path) -> None:
    """The last lines, oldest first, long ones cut, blank ones left out, whatever the file's size."""
    path = tmp_path / "x.log"
    path.write_text("".join(f"{n} {'y' * 900}\n\n" for n in range(1000)))
    tail = log_tail.tail(path, 6)
    assert [line.split()[0] for line in tail] == ["997", "998", "999"]
    assert {len(line) for line in tail} == {500}
    assert log_tail.tail(tmp_path / "none.log") == ()
