"""Gate tests: their cases, what they settle, and how that is shown and counted."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.errors import EngineError, NgramError
from pytest_ngram.pytest_fixtures import session_of
from pytest_ngram.pytest_fixtures.results import told

if TYPE_CHECKING:
    from pytest_ngram.evidence.room import GateRoom
    from pytest_ngram.judge.types import Verdict
    from pytest_ngram.matrix.gates import GateCase

MARK = "ngram_gate"
PROPERTY = "ngram_gate"
ROOM = pytest.StashKey["GateRoom"]()
RUN = pytest.StashKey[str]()
VERDICT = pytest.StashKey["Verdict"]()
REPORT_PROBLEM = pytest.StashKey[list[str]]()
NO_CASE = "no case"
_LETTERS = {"known issue": "k", "cannot compare": "c", "not checked": "n"}


@dataclass(frozen=True)
class Gate:
    """What a gate test is given: its case, and the room with evidence and judges.

    Args:
        room: of the session.
        case: what the test is about; None where it is about the build.
        name: the parameter of a test that is about a part of the build or a known issue.
        strict_seam: whether what cannot be looked at is a failure.
        keep: takes the verdict.
    """

    room: GateRoom
    case: GateCase | None
    name: str
    strict_seam: bool
    keep: Callable[[Verdict], None]

    @property
    def about(self) -> GateCase:
        """The case of a test that has one."""
        assert self.case is not None  # noqa: S101 - gate tests over models and configs have one
        return self.case

    def settle(self, verdict: Verdict) -> None:
        """Count a verdict, and fail the test by it unless a known issue explains it."""
        verdict = self.room.explained(verdict, self.case)
        self.keep(verdict)
        if verdict.status == "failed":
            pytest.fail(verdict.text, pytrace=False)


@pytest.fixture
def ngram_gate(request: pytest.FixtureRequest) -> Gate:
    """One case of a gate: `settle(verdict)` ends the test. Mark the test with `ngram_gate(gate, over=…)`."""
    from pytest_ngram.matrix.gates import GateCase

    session = session_of(request.config)
    case = request.param if isinstance(request.param, GateCase) else None
    return Gate(
        room=room_of(request.config, request.path.parent),
        case=case,
        name=case.id if case is not None else str(request.param),
        strict_seam=session.settings.gates.strict_seam,
        keep=lambda verdict: request.node.stash.__setitem__(VERDICT, verdict),
    )


def declare(config: pytest.Config) -> None:
    """Declare the marker, and name the session."""
    config.addinivalue_line(
        "markers", f"{MARK}(gate, over): a gate of pytest-ngram; over: what each of its cases is about"
    )
    # of xdist's own worker only: the environment may be that of another run, whose workers started this one
    shared = getattr(config, "workerinput", {}).get("testrunuid")
    config.stash[RUN] = shared or f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def room_of(config: pytest.Config, folder: Path) -> GateRoom:
    """Return the gates of this session, made at the first call. Raises `NgramError`."""
    if ROOM not in config.stash:
        command = [str(argument) for argument in config.invocation_params.args]
        again = shlex.join(
            ["pytest", *(each for each in command if each != "--gates-update"), "--gates-update"]
        )
        config.stash[ROOM] = session_of(config).gates(folder, config.stash[RUN], again)
    return config.stash[ROOM]


def parametrise(metafunc: pytest.Metafunc) -> None:
    """Give a gate test one case per model, config, prompt, part of the seam, or known issue."""
    mark = metafunc.definition.get_closest_marker(MARK)
    if mark is None or "ngram_gate" not in metafunc.fixturenames:
        return
    try:
        room = room_of(metafunc.config, metafunc.definition.path.parent)
        params = _params(metafunc.config, room, mark.kwargs["over"])
    except NgramError as error:
        raise pytest.Collector.CollectError(told(metafunc.config, error)) from error
    # an empty list would be a silent skip
    params = params or [_param(metafunc.config, NO_CASE, "no-cases", "no-cases")]
    metafunc.parametrize("ngram_gate", params, indirect=True)


def _params(config: pytest.Config, room: GateRoom, over: Any) -> list[Any]:
    if over == "issue":
        return [_param(config, issue.id, issue.id, f"issue/{issue.id}") for issue in room.issues]
    if over == "table":
        from pytest_ngram.judge.seam import TABLES

        return [_param(config, kind, kind, "seam") for kind in TABLES]
    if over == "build":
        return [_param(config, "build", "build", "seam")]
    return [_param(config, case, case.id, case.group) for case in room.cases(over)]


def _param(config: pytest.Config, value: object, name: str, group: str) -> Any:
    """Cases of a group share servers, so under xdist one worker runs them."""
    marks = [pytest.mark.xdist_group(group)] if config.pluginmanager.hasplugin("xdist") else []
    return pytest.param(value, id=name, marks=marks)


def settle_none(item: pytest.Function) -> bool | None:
    """Settle a test that has no case, in place of running it: there is nothing that it could ask."""
    mark = item.get_closest_marker(MARK)
    callspec = getattr(item, "callspec", None)
    if mark is None or callspec is None or callspec.params.get("ngram_gate") != NO_CASE:
        return None
    from pytest_ngram.judge.tally import no_cases

    item.stash[VERDICT] = no_cases(str(mark.args[0]), str(mark.kwargs["over"]))
    return True


def finish(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Put the verdict on the report of a gate test, where it also travels between xdist workers."""
    mark = item.get_closest_marker(MARK)
    if mark is None or (call.when != "call" and call.excinfo is None) or call.when == "teardown":
        return
    verdict = item.stash.get(VERDICT, None)
    error = call.excinfo.value if call.excinfo is not None else None
    if verdict is None or (error is not None and verdict.status != "failed"):
        verdict = _of_error(str(mark.args[0]), error)
        report.outcome = "failed"
        if error is None or isinstance(error, NgramError | pytest.skip.Exception):
            report.longrepr = verdict.text
    if verdict.status == "failed" and hasattr(report, "wasxfail"):
        # pytest forgives a test that is marked, or calls itself, `xfail`: a gate is not forgiven
        report.outcome, report.longrepr = "failed", verdict.text
        del report.wasxfail
    report.user_properties.append((PROPERTY, _plain(verdict)))


def _of_error(gate: str, error: BaseException | None) -> Verdict:
    """A gate without its evidence fails: a missing binary, model or metric is no excuse."""
    from pytest_ngram.judge.types import failed

    if error is None:
        return failed(
            gate, "nothing settled", ["the test ended without a verdict: call ngram_gate.settle(…)"]
        )
    if isinstance(error, pytest.skip.Exception):
        return failed(gate, "skipped", [str(error), "a gate that is skipped has judged nothing"])
    kind = error.outcome if isinstance(error, EngineError) else type(error).__name__
    return failed(gate, kind, str(error).splitlines())


def _plain(verdict: Verdict) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(verdict)
    return plain


def _verdict(report: Any) -> Verdict | None:
    import msgspec

    from pytest_ngram.judge.types import Verdict

    found = dict(getattr(report, "user_properties", ())).get(PROPERTY)
    return msgspec.convert(found, Verdict) if found is not None else None


def teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Return category, letter and word of a verdict that is neither a pass nor a failure."""
    if report.when != "call" or report.outcome != "passed":
        return None
    verdict = _verdict(report)
    if verdict is None or verdict.status not in _LETTERS:
        return None
    return verdict.status, _LETTERS[verdict.status], verdict.status.upper()


def end(session: pytest.Session) -> None:
    """Fail a run with a failed verdict or a gate that judged nothing, and write the report asked for."""
    config = session.config
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or hasattr(config, "workerinput"):
        return
    verdicts = _verdicts(terminal)
    if not verdicts:
        return
    from pytest_ngram.judge.tally import vacuous

    plain = [verdict for _, verdict in verdicts]
    if any(verdict.status == "failed" for verdict in plain) or vacuous(plain):
        _fail(session)
    path = session_of(config).settings.gates.report
    if path is not None:
        # under xdist this process has collected nothing, so where the gates are is told by their ids
        folder = config.rootpath / Path(verdicts[0][0].partition("::")[0]).parent
        problem = _write_report(config, path, folder, dict(verdicts))
        if problem:
            config.stash[REPORT_PROBLEM] = problem
            _fail(session)


def _fail(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _write_report(config: pytest.Config, path: Path, folder: Path, verdicts: dict[str, Verdict]) -> list[str]:
    """Write the report, and return what it lacks; a build that cannot be asked is no reason to end here."""
    from pytest_ngram.evidence.report import write_report

    try:
        report = write_report(path, lambda: room_of(config, folder), verdicts)
    except OSError as error:
        return [f"the report {path} cannot be written: {error.strerror}"]
    return ["what the build has is not known:", *report.unknown] if report.unknown else []


def summary(config: pytest.Config, terminal: Any) -> list[str]:
    """Return the last lines: what is not a plain pass, and one line per kind of gate."""
    verdicts = _verdicts(terminal)
    if not verdicts:
        return []
    from pytest_ngram.judge import tally

    plain = [verdict for _, verdict in verdicts]
    named = [(name.partition("[")[2].rstrip("]"), found) for name, found in verdicts]
    lines = tally.told(named)
    lines += [f"NOT COMPARED: {line}" for line in tally.not_compared(named)]
    lines += [f"FAILED: {line}" for line in tally.vacuous(plain)]
    problem: list[str] = config.stash.get(REPORT_PROBLEM, [])
    lines += [f"  {line}" if i else f"FAILED: {line}" for i, line in enumerate(problem)]
    return [*lines, *([""] if lines else []), *tally.lines(plain)]


def _verdicts(terminal: Any) -> list[tuple[str, Verdict]]:
    """Every verdict of the run with its test's name, workers' included."""
    reports = [report for of_status in terminal.stats.values() for report in of_status]
    judged = ((report, _verdict(report)) for report in reports)
    return [(report.nodeid.partition("@")[0], found) for report, found in judged if found is not None]
