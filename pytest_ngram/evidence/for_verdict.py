"""What a report of the gates tells the verdict over a run of the same build. Pure, but for `take`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.engine.build import Build
from pytest_ngram.errors import OptionError
from pytest_ngram.evidence.report import GateReport, Subject, read_report, subject_flags
from pytest_ngram.judge.types import STATUSES, STORED, Verdict
from pytest_ngram.matrix.spec import BASELINE
from pytest_ngram.record import Engine, Record
from pytest_ngram.verdict.types import GateFailure, GateNote, GateResults

_OF_TEXT = "identity"  # the gate that says whether a config still writes the same
_SHORT = 12  # digits of a hash that are shown
_AGAIN = "run pytest gates --gates-report=FILE on the build that is measured"
Pair = tuple[str, str]  # model, config


@dataclass(frozen=True)
class _Case:
    """A verdict and what it is about: `model` is None where it counts for all, `config` for all of it."""

    name: str
    model: str | None
    config: str | None
    verdict: Verdict


@dataclass(frozen=True)
class Taken:
    """A report of the gates that a run is judged with.

    Args:
        name: of its file.
        report: what it says.
    """

    name: str
    report: GateReport

    @property
    def engine(self) -> Engine:
        """Which build the gates judged. Raises `OptionError` where that is not known."""
        engine = self.report.capabilities.engine if self.report.capabilities is not None else None
        if engine is None:
            raise OptionError(
                f"{self.name} does not say which build the gates judged",
                checked=list(self.report.unknown) or ["it was written before that was kept"],
                fix=_AGAIN,
            )
        return engine

    def check_build(self, build: Build) -> None:
        """Compare with a build that was not started yet, by what it calls itself. Raises `OptionError`."""
        self._compare({"build": (self.engine.build, build.build)}, sure=False)

    def check(self, engine: Engine) -> None:
        """Compare with the engine of a cell, by build and by the hash of the code.

        A server at a URL has no hash: then build and the user's label for it have to do.

        Raises:
            OptionError: it is another build, or nothing tells that it is the same.
        """
        own = self.engine
        facts = {"build": (own.build, engine.build)}
        if own.binary_sha256 is not None and engine.binary_sha256 is not None:
            facts["binary"] = (own.binary_sha256[:_SHORT], engine.binary_sha256[:_SHORT])
        else:
            facts["label"] = (own.label, engine.label)
        self._compare(facts, sure=True)

    def _compare(self, facts: Mapping[str, tuple[str | None, str | None]], *, sure: bool) -> None:
        both = [pair for pair in facts.values() if None not in pair]
        if any(then != now for then, now in both):
            cause = "the gates judged another build than the one that is measured"
        elif sure and not both:
            cause = "nothing tells whether the gates judged the build that is measured"
        else:
            return
        told = [
            f"{what}: {then or 'not told'} in {self.name}, {now or 'not told'} in the run"
            for what, (then, now) in facts.items()
        ]
        raise OptionError(cause, checked=told, fix=_AGAIN)

    def results(self, records: Iterable[Record]) -> GateResults:
        """Return what the gates say of the cells of a run. Raises `OptionError` as `check` does."""
        records = tuple(records)
        engines = [record.engine for record in records if record.engine is not None]
        for engine in engines:
            self.check(engine)
        if records and not engines:
            raise OptionError(
                "nothing tells whether the gates judged the build that is measured",
                checked=[f"{len(records)} cells, of which none was answered by an engine"],
                fix="read why the cells failed, and measure them",
            )
        cases = list(_cases(self.report))
        counts = Counter(case.verdict.status for case in cases)
        return GateResults(
            source=f"{self.name}, {self.report.build or self.engine.kind}",
            counts={status: counts[status] for status in STATUSES if counts[status]},
            failures=tuple(_failures(cases)),
            judged=tuple(sorted(_judged(self.report, cases, records))),
            notes=tuple(_notes(cases)),
        )


def take(path: Path) -> Taken:
    """Read a report for a verdict. Raises `OptionError`: it is none, or does not say of which build."""
    taken = Taken(path.name, read_report(path))
    _ = taken.engine
    return taken


def _cases(report: GateReport) -> Iterator[_Case]:
    """A case is `model/config/prompt`. What the baseline fails counts for its model: all compare with it.

    What is about no model of the report, such as a part of the build or a known issue, counts for all.
    """
    models = {pair.partition("/")[0] for pair in report.subjects}
    for test, verdict in report.verdicts.items():
        name = test.partition("[")[2].rstrip("]")
        model, _, rest = name.partition("/")
        config = rest.partition("/")[0]
        if not config or model not in models:
            yield _Case(name or test, None, None, verdict)
        else:
            yield _Case(name, model, None if config == BASELINE else config, verdict)


def _groups(cases: Iterable[_Case]) -> Iterator[tuple[_Case, str]]:
    """Cases of one gate, class, model and config together: the first of them, and what was seen."""
    groups: dict[tuple[str | None, ...], list[_Case]] = defaultdict(list)
    for case in cases:
        groups[case.verdict.gate, case.verdict.kind, case.model, case.config].append(case)
    for found in groups.values():
        first = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield first, f"{first.verdict.kind or first.verdict.status} ({first.name}{more})"


def _failures(cases: Iterable[_Case]) -> Iterator[GateFailure]:
    for case, what in _groups(case for case in cases if case.verdict.status == "failed"):
        yield GateFailure(case.verdict.gate, what, case.model, case.config)


def _notes(cases: Iterable[_Case]) -> Iterator[GateNote]:
    """What is no failure, and no pass either. What is of no config is in the counts alone."""
    own = [case for case in cases if case.model is not None and case.verdict.kind != STORED]
    for case, what in _groups(case for case in own if case.verdict.status == "known issue"):
        yield GateNote("gate-known-issue", case.verdict.gate, what, case.model, case.config)
    open_ = ("cannot compare", "not checked")
    for case, what in _groups(case for case in own if case.verdict.status in open_):
        yield GateNote("gate-not-judged", case.verdict.gate, what, case.model, case.config)


def _judged(report: GateReport, cases: Iterable[_Case], records: Iterable[Record]) -> Iterator[Pair]:
    """The configs of the run whose text the gates compared, on this model file and with these flags."""
    compared = {
        f"{case.model}/{case.config}"
        for case in cases
        if case.verdict.gate == _OF_TEXT and case.verdict.status in ("passed", "failed")
    }
    seen: dict[Pair, list[Record]] = defaultdict(list)
    for record in records:
        seen[record.cell.model, record.cell.config].append(record)
    for pair, cells in seen.items():
        subject = report.subjects.get("/".join(pair))
        if subject is not None and "/".join(pair) in compared and all(_is_of(subject, c) for c in cells):
            yield pair


def _is_of(subject: Subject, record: Record) -> bool:
    """Whether a cell is of the same file and drafts alike. A URL does not tell its flags, and was asked."""
    same_file = record.model is None or record.model.sha256 == subject.model_sha256
    if record.engine is None or record.engine.kind == "url":
        return same_file
    return same_file and subject_flags(record.engine.argv) == subject.flags
