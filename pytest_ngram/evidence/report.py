"""The report of a run of gates, and the difference of two: what a bump of llama.cpp changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from pytest_ngram.errors import NgramError, OptionError
from pytest_ngram.evidence.room import GateRoom
from pytest_ngram.files import write_whole
from pytest_ngram.judge import seam
from pytest_ngram.judge.types import STORED, Verdict
from pytest_ngram.verdict.setting import Flags, flags_of, is_of_speculation

SCHEMA = 1


class Subject(msgspec.Struct, frozen=True):
    """What a `model/config` of the gates is: the model file, and the flags that say how it drafts."""

    model_sha256: str
    flags: Flags


def subject_flags(argv: Sequence[str]) -> Flags:
    """Return the flags of a command line that say how to draft, sorted."""
    return tuple(flag for flag in flags_of(argv) if is_of_speculation(flag[0]))


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run: which build, its capabilities, and each test's verdict.

    `build` and `capabilities` are None where the build could not be asked; `unknown` says why, line by line.
    `subjects` are each `model/config` of the matrix that gates may ask; absent from older reports.
    """

    schema: int = SCHEMA
    build: str | None
    capabilities: seam.Report | None
    unknown: tuple[str, ...] = ()
    verdicts: dict[str, Verdict]
    subjects: dict[str, Subject] = {}


class _Head(msgspec.Struct):
    schema: int


def write_report(path: Path, room: Callable[[], GateRoom], verdicts: Mapping[str, Verdict]) -> GateReport:
    """Write the report of a session, and return it. What of a build cannot be asked is told as not known.

    Args:
        path: the file. Raises `OSError` where it cannot be written.
        room: makes the gates of the session; may raise `NgramError` as well.
        verdicts: of each test.
    """
    build, capabilities = None, None
    subjects: dict[str, Subject] = {}
    unknown: tuple[str, ...] = ()
    try:
        asked = room()
        build = asked.servers.factory.build.name
        capabilities = asked.seam.report()
        subjects = _subjects(asked)
    except NgramError as error:
        unknown = tuple(str(error).splitlines())
    report = GateReport(
        build=build,
        capabilities=capabilities,
        unknown=unknown,
        verdicts=dict(verdicts),
        subjects=subjects,
    )
    write_whole(path, msgspec.json.format(msgspec.json.encode(report), indent=1))
    return report


def _subjects(room: GateRoom) -> dict[str, Subject]:
    servers = room.servers
    return {
        case.group: Subject(
            servers.models.open(case.model).record.sha256,
            subject_flags(servers.argv(case.model, case.config)),
        )
        for case in room.cases("config")
    }


def read_report(path: Path) -> GateReport:
    """Read a report. Raises `OptionError`: it is none, or one of another schema."""
    try:
        content = path.read_bytes()
        schema = msgspec.json.decode(content, type=_Head).schema
        if schema != SCHEMA:
            raise OptionError(
                f"this report of a run of gates has schema {schema}",
                checked=[f"{path}: this version reads schema {SCHEMA}"],
                fix="write it anew with this version, or read it with the one that wrote it",
            )
        return msgspec.json.decode(content, type=GateReport)
    except (OSError, msgspec.DecodeError) as error:
        raise OptionError(
            "this is no report of a run of gates",
            checked=[f"{path}: {error}"],
            fix="write one with pytest gates --gates-report=FILE",
        ) from error


def diff_lines(old: GateReport, new: GateReport) -> list[str]:
    """Return what changed between two builds: capabilities, then each gate, then the known issues."""
    before, after = (report.build or "a build that could not be asked" for report in (old, new))
    lines = [f"{before} -> {after}", "", "capabilities"]
    if old.capabilities is None or new.capabilities is None:
        lines += _not_asked("old", old) + _not_asked("new", new)
    else:
        lines += [f"  {line}" for line in seam.diff(old.capabilities, new.capabilities)] or [
            "  no difference"
        ]
    lines += ["", "identity by config", *_by_config(old, new), "", "known issues"]
    lines += [f"  {line}" for line in _issues(old, new)]
    return [*lines, "", "gates whose verdict changed", *(_changed(old, new) or ["  none"])]


def _not_asked(which: str, report: GateReport) -> list[str]:
    if report.capabilities is not None:
        return []
    return [f"  not known of the {which} build", *(f"    {line}" for line in report.unknown)]


def _changed(old: GateReport, new: GateReport) -> list[str]:
    """A golden that the one run stored and the other run equals is no change."""
    names = sorted(old.verdicts.keys() | new.verdicts.keys())
    pairs = [(name, old.verdicts.get(name), new.verdicts.get(name)) for name in names]
    return [
        f"  {name}: {_said(before)} -> {_said(after)}"
        for name, before, after in pairs
        if _said(before) != _said(after)
        and not (before and after and before.kind == STORED and after.status == "passed")
    ]


def _by_config(old: GateReport, new: GateReport) -> list[str]:
    runs = [_identity(old), _identity(new)]
    return [
        f"  {config}: " + ", then ".join(_told(run.get(config, [])) for run in runs)
        for config in sorted(runs[0].keys() | runs[1].keys())
    ]


def _identity(report: GateReport) -> dict[str, list[str]]:
    """What identity found in one run, by `model/config`."""
    found: dict[str, list[str]] = {}
    for name, verdict in report.verdicts.items():
        if verdict.gate == "identity":
            config = "/".join(name.partition("[")[2].rstrip("]").split("/")[:2])
            is_same = verdict.status == "passed" and verdict.kind is None
            found.setdefault(config, []).append("identical" if is_same else verdict.kind or verdict.status)
    return found


def _told(found: Sequence[str]) -> str:
    if not found:
        return "not run"
    counts = Counter(found)
    others = [f"{count} {kind}" for kind, count in sorted(counts.items()) if kind != "identical"]
    return ", ".join([f"{counts['identical']} of {len(found)} identical", *others])


def _issues(old: GateReport, new: GateReport) -> list[str]:
    found = []
    for name in sorted(old.verdicts.keys() | new.verdicts.keys()):
        before, after = old.verdicts.get(name), new.verdicts.get(name)
        if "known issues" not in {verdict.gate for verdict in (before, after) if verdict is not None}:
            continue
        issue = name.partition("[")[2].rstrip("]")
        found.append(f"{issue}: {_said(before)} -> {_said(after)}")
    return found or ["none asked"]


def _said(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not run"
    return verdict.status + (f" ({verdict.kind})" if verdict.kind is not None else "")
