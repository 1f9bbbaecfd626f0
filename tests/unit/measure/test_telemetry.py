"""The step trace of recorded logs of four builds: its counts, its times, and what cannot be read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_ngram.engine import decodes, log_reader
from pytest_ngram.engine.client import Timings
from pytest_ngram.errors import EngineError
from pytest_ngram.measure.accounting import account
from pytest_ngram.measure.telemetry import telemetry
from pytest_ngram.measure.trace import RequestLogs, Said
from pytest_ngram.record import Cost, Telemetry, unpack_tokens

LOGS = Path(__file__).parents[3] / "fixtures" / "logs"
RUNS = sorted(path.stem for path in LOGS.glob("*.log"))


def lines_of(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8").splitlines(keepends=True)


def wanted_of(name: str) -> list[dict[str, Any]]:
    requests: list[dict[str, Any]] = json.loads((LOGS / f"{name}.json").read_bytes())["requests"]
    return requests


def told(
    name: str, lines: list[str], tmp_path: Path, wanted: list[dict[str, Any]] | None = None
) -> list[tuple[Telemetry, dict[str, Any]]]:
    """What is recorded of each request, the log being read in step with them as a run does."""
    wanted = wanted or wanted_of(name)
    ends = [i + 1 for i, line in enumerate(lines) if "stop processing" in line]
    log = tmp_path / "server.log"
    log.write_text("")
    logs = RequestLogs(log)
    found = []
    for want, begin, end in zip(wanted, [0, *ends], ends, strict=False):
        with log.open("a") as file:
            file.writelines(lines[begin:end])
        found.append((_telemetry(want, logs.take(), speculative="none" not in name), want))
    assert found, "the log has no request"
    return found


def _telemetry(want: dict[str, Any], said: Said | None, *, speculative: bool) -> Telemetry:
    timings = Timings(**want["timings"])
    prompt_decodes = decodes.prompt_decodes(timings.prompt_n, checkpoints=True)
    counts = account(
        timings,
        want["metrics"],
        said.request if said else None,
        said.by_type if said else None,
        speculative=speculative,
        prompt_decodes=prompt_decodes,
    )
    return telemetry(
        timings,
        counts,
        said,
        wall_s=want["wall_s"],
        speculative=speculative,
        prompt_decodes=prompt_decodes,
    )


def test_three_builds_at_least_are_recorded() -> None:
    """Each of them with the baseline, MTP, an n-gram type with replays, and a stack."""
    builds = {name.partition("-")[0] for name in RUNS}
    assert len(builds) >= 3
    assert len(RUNS) == 4 * len(builds)


@pytest.mark.parametrize("name", RUNS)
def test_trace_agrees_with_the_counts(name: str) -> None:
    """Drafted tokens and verify steps by the trace are those of `timings` and of `/metrics`, if counted."""
    wanted = wanted_of(name)
    logs = log_reader.requests(lines_of(name))
    assert len(logs) == len(wanted) == 2
    for log, want in zip(logs, wanted, strict=True):
        assert log.drafted == (want["timings"]["draft_n"] or 0)
        verify = want["metrics"].get("llamacpp:spec_decode_num_drafts_total")
        assert verify is None or log.verify_steps == verify
        assert all(step.at_ms is not None for step in log.steps)
        stamps = [step.at_ms or 0 for step in log.steps]
        assert stamps == sorted(stamps)


@pytest.mark.parametrize("name", RUNS)
def test_costs_add_up(name: str, tmp_path: Path) -> None:
    """Draft, verify, replay and plain make the server's own generation time within 2 %; by two clocks."""
    for one, want in told(name, lines_of(name), tmp_path):
        timings = want["timings"]
        per_token = timings["predicted_ms"] / (timings["predicted_n"] - 1)
        cost = one.cost
        assert cost is not None
        assert abs(cost.rest_ms) <= 0.02 * per_token
        assert cost.unexplained is None
        parts = (cost.draft_ms, cost.verify_ms, cost.replay_ms, cost.plain_ms)
        assert sum(parts) + cost.rest_ms == pytest.approx(per_token)
        assert all(part >= 0 for part in parts)
        assert (cost.verify_ms > 0) == ("none" not in name)
        assert (cost.replay_ms > 0) == (name.endswith(("simple", "stack")))


@pytest.mark.parametrize("name", [name for name in RUNS if name.endswith("mtp3")])
def test_every_mtp_step_is_timed(name: str, tmp_path: Path) -> None:
    """MTP drafts at every step but the last, so all verify steps stand alone in their gaps."""
    for one, want in told(name, lines_of(name), tmp_path):
        assert one.coverage is not None
        assert one.coverage > 0.95
        verify = {w: time for w, time in (one.step_ms_by_width or {}).items() if w != "1"}
        packed = unpack_tokens(one.steps or "")
        assert sum(time.n for time in verify.values()) == len(packed) // 4
        assert sum(packed[::4]) / 1000 == pytest.approx(want["timings"]["predicted_ms"], rel=0.02)
        assert verify["4"].mean_ms >= (verify["4"].median_ms or 0) * 0.5
        assert one.mean_accepted_length is not None
        assert one.tokens_per_step is not None
        assert one.mean_accepted_length > 1


def test_none_has_one_token_a_step(tmp_path: Path) -> None:
    """The baseline covers nothing, has no mean accepted length, and all of its steps are plain."""
    for one, want in told("b11549-none", lines_of("b11549-none"), tmp_path):
        assert (one.coverage, one.tokens_per_step, one.mean_accepted_length) == (0, 1, None)
        assert one.step_ms_by_width is not None
        assert one.step_ms_by_width["1"].n == want["timings"]["predicted_n"] - 1


CHANGED = [
    ("accepted  ", "accepted: "),
    ("draft tokens", "draft tokens of one step"),
    ("draft acceptance = ", "draft acceptance is "),
    ("        eval time = ", "        eval time: "),
    ("#calls(b,g,a) = ", "#calls = "),
    ("acc per pos = (", "acc per pos: ("),
    ("0.00.", "00:00:00."),
]


@pytest.mark.parametrize(("was", "now"), CHANGED)
def test_a_line_in_another_form_is_an_error_that_names_it(was: str, now: str) -> None:
    """A known kind of line written otherwise raises, with the line; it never counts as nothing."""
    lines = [line.replace(was, now) for line in lines_of("b11549-mtp3")]
    (first,) = [line for line, old in zip(lines, lines_of("b11549-mtp3"), strict=True) if line != old][:1]
    with pytest.raises(EngineError) as raised:
        log_reader.requests(lines)
    named = " ".join(raised.value.checked)
    assert named.startswith("line: ")
    assert now.strip() in named
    assert raised.value.outcome == "refused"
    assert first  # something was changed


def test_the_record_says_which_line_is_not_read(tmp_path: Path) -> None:
    """A cell on such a build keeps its speed; its telemetry is null and names the line."""
    lines = [line.replace("accepted  ", "accepted: ") for line in lines_of("b11549-mtp3")]
    for one, _want in told("b11549-mtp3", lines, tmp_path):
        assert one.unread is not None
        assert "accepted: " in one.unread
        assert (one.cost, one.step_ms_by_width, one.steps) == (None, None, None)


def test_lines_that_nobody_knows_are_missed(tmp_path: Path) -> None:
    """Trace lines renamed past recognition leave fewer steps than were counted: said, not taken for none."""
    lines = [line.replace("draft tokens", "guesses") for line in lines_of("b11549-mtp3")]
    for one, _want in told("b11549-mtp3", lines, tmp_path):
        assert one.unread is not None
        assert "not whole" in one.unread
        assert one.cost is None


def test_a_log_without_time_stamps_is_said(tmp_path: Path) -> None:
    """`--no-log-timestamps` leaves the counts and takes the times, with the reason."""
    lines = [line[line.index(" ") + 1 :] for line in lines_of("b11549-mtp3")]
    for one, _want in told("b11549-mtp3", lines, tmp_path):
        assert one.unread is not None
        assert "no time stamps" in one.unread
        assert one.coverage is not None
        assert one.cost is None


# What happens inside a server cannot be slowed by 10 % from outside: a proxy sees whole answers. So the logs
# of real servers are rewritten as a slower one would have written them, and so are the times of its answers.

STAMP = re.compile(r"^(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) ")
DURATION = re.compile(r"(dur\(b,g,a\) = [\d.]+, )([\d.]+)")


def slowed(
    name: str, extra_ms: Callable[[float, float], float], *, drafting: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    """Lengthen each verify step: the log and the answers of a server that is slower there.

    Args:
        name: a recorded run.
        extra_ms: time of the step and of its drafting → what is added.
        drafting: whether the types' own time says so, too.
    """
    wanted = wanted_of(name)
    statistics = [log_reader.statistics(line) for line in lines_of(name)]
    draft_ms = [0.0, *(each.dur_ms[1] for each in statistics if each is not None and each.dur_ms)]
    lines, late_ms, added, begun, before, is_replay = [], 0.0, [0.0, 0.0], 0, 0.0, False
    verify = [log.verify_steps for log in log_reader.requests(lines_of(name))]
    for line in lines_of(name):
        at_ms = log_reader.stamp_ms(line) or 0.0
        if "new prompt" in line:
            begun += 1
            before = at_ms + wanted[begun - 1]["timings"]["prompt_ms"]
        step = log_reader.trace_step(line)
        if step is not None and not is_replay:
            draft = (draft_ms[begun] - draft_ms[begun - 1]) / verify[begun - 1]
            more = extra_ms(at_ms - before - draft, draft)
            late_ms, added[begun - 1] = late_ms + more, added[begun - 1] + more
        if step is not None:
            before, is_replay = at_ms, step.restored
        total = sum(added) if drafting else 0.0
        told_ms = DURATION.sub(lambda found, ms=total: f"{found[1]}{float(found[2]) + ms:.3f}", line)
        lines.append(_moved(told_ms, late_ms))
    for want, ms in zip(wanted, added, strict=True):
        want["timings"]["predicted_ms"] += ms
    return lines, wanted


def _moved(line: str, by_ms: float) -> str:
    us = round(((log_reader.stamp_ms(line) or 0.0) + by_ms) * 1000)
    stamp = f"{us // 60_000_000}.{us // 1_000_000 % 60:02}.{us // 1000 % 1000:03}.{us % 1000:03} "
    return STAMP.sub(stamp, line)


def per_request(name: str, lines: list[str], tmp_path: Path, wanted: list[dict[str, Any]]) -> list[Cost]:
    costs = [one.cost for one, _ in told(name, lines, tmp_path, wanted)]
    return [cost for cost in costs if cost is not None]


MTP = [name for name in RUNS if name.endswith("mtp3")]


@pytest.mark.parametrize("name", MTP)
def test_a_slower_verify_is_verify_cost(name: str, tmp_path: Path) -> None:
    """Each verify step 10 % longer: verify costs 10 % more, and nothing else moves by 1 % of the whole."""
    lines, wanted = slowed(name, lambda step_ms, draft_ms: 0.1 * step_ms, drafting=False)
    was = per_request(name, lines_of(name), tmp_path, wanted_of(name))
    now = per_request(name, lines, tmp_path, wanted)
    assert len(was) == len(now) == 2
    for before, after in zip(was, now, strict=True):
        whole = before.draft_ms + before.verify_ms + before.replay_ms + before.plain_ms
        assert after.verify_ms / before.verify_ms == pytest.approx(1.1, abs=0.005)
        for kind in ("draft_ms", "replay_ms", "plain_ms", "rest_ms"):
            moved = getattr(after, kind) - getattr(before, kind)
            assert abs(moved) < 0.01 * whole, kind


@pytest.mark.parametrize("name", [name for name in RUNS if name.endswith(("simple", "stack"))])
def test_a_slower_verify_is_no_replay(name: str, tmp_path: Path) -> None:
    """With replays and plain steps between, drafts and replays stay; the two left have what came on top."""
    lines, wanted = slowed(name, lambda step_ms, draft_ms: 0.05, drafting=False)
    was = per_request(name, lines_of(name), tmp_path, wanted_of(name))
    now = per_request(name, lines, tmp_path, wanted)
    verify = [log.verify_steps for log in log_reader.requests(lines)]
    for before, after, want, n in zip(was, now, wanted, verify, strict=True):
        tokens = want["timings"]["predicted_n"] - 1
        assert after.replay_ms == pytest.approx(before.replay_ms, abs=0.001)
        assert after.draft_ms == pytest.approx(before.draft_ms, abs=0.001)
        steps_ms = after.verify_ms + after.plain_ms - before.verify_ms - before.plain_ms
        assert steps_ms * tokens == pytest.approx(0.05 * n, abs=0.1)


@pytest.mark.parametrize("name", MTP)
def test_a_slower_drafter_is_draft_cost(name: str, tmp_path: Path) -> None:
    """Each draft 10 % longer: drafting costs 10 % more, and nothing else moves by 1 % of the whole."""
    lines, wanted = slowed(name, lambda step_ms, draft_ms: 0.1 * draft_ms, drafting=True)
    was = per_request(name, lines_of(name), tmp_path, wanted_of(name))
    now = per_request(name, lines, tmp_path, wanted)
    assert len(was) == len(now) == 2
    for before, after in zip(was, now, strict=True):
        whole = before.draft_ms + before.verify_ms + before.replay_ms + before.plain_ms
        assert after.draft_ms / before.draft_ms == pytest.approx(1.1, abs=0.005)
        for kind in ("verify_ms", "replay_ms", "plain_ms", "rest_ms"):
            moved = getattr(after, kind) - getattr(before, kind)
            assert abs(moved) < 0.01 * whole, kind
