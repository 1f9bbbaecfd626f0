"""Saving through pytest-benchmark, so that a full disk loses neither the results nor the report of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_ngram.errors import OptionError, RecordError

if TYPE_CHECKING:
    from pytest_ngram.session import Session


@dataclass
class Saved:
    """What became of saving: the files written, or why there is none."""

    paths: list[Path] = field(default_factory=list)
    error: str | None = None


SAVED = pytest.StashKey[Saved]()


def guard(session: pytest.Session, ngram: Session) -> None:
    """Make pytest-benchmark's saving report a failure instead of ending the session before its summary.

    pytest-benchmark saves inside its `pytest_sessionfinish`, ahead of the terminal summary: an exception
    there would take the whole summary with it. A file that is left half written is removed.
    """
    benchmark = getattr(session.config, "_benchmarksession")  # noqa: B009 - pytest-benchmark's own name for it
    save = benchmark.handle_saving

    def handle_saving() -> None:
        saved = session.config.stash[SAVED] = Saved()
        before, stale = _files(benchmark), _stamp(benchmark)
        # an interrupted cell left a benchmark without data, over which pytest-benchmark stumbles; if no cell
        # ended well there is none at all, and it would not save the failed ones
        good = [bench for bench in benchmark.benchmarks if bench and not bench.has_error]
        benchmark.benchmarks[:] = good or ([] if benchmark.disabled else [_NoBenchmark()])
        if not good and stale is not None and not _anything_measured(ngram):
            saved.error = str(_left_alone(benchmark.json))
            benchmark.json = None
        try:
            save()
        except OSError as error:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            removed = [path for path in _files(benchmark) - before | _json(benchmark) if _remove_broken(path)]
            saved.error = str(_explained(error, removed, ngram))
        new = _json(benchmark) if _stamp(benchmark) != stale else set()
        saved.paths += sorted((_files(benchmark) - before) | new)

    benchmark.handle_saving = handle_saving


class _NoBenchmark:
    """Stands for no benchmark: pytest-benchmark leaves it out of the JSON and of its tables."""

    has_error = True

    def __bool__(self) -> bool:
        return False


def check_options(config: pytest.Config) -> None:
    """Find, before anything is measured, what pytest-benchmark would find after hours.

    Raises:
        OptionError: an option that cannot be followed.
    """
    if config.getoption("benchmark_cprofile"):
        raise OptionError(
            "--benchmark-cprofile cannot be used with cells",
            checked=["a profiled run sends one more request, which is drafted from the echo of the first"],
            fix="leave the option out; the time is spent in the server, not here",
        )
    if config.getoption("benchmark_compare_fail") and not config.getoption("benchmark_compare"):
        raise OptionError(
            "--benchmark-compare-fail has nothing to compare with",
            checked=["--benchmark-compare is not given"],
            fix="give --benchmark-compare, or --benchmark-compare=NUMBER of a saved run, such as 0001",
        )
    path = config.getoption("benchmark_json")
    if path and not Path(path).parent.is_dir():
        raise OptionError(
            "--benchmark-json names a file in a folder that is not there",
            checked=[str(Path(path).parent.absolute())],
            fix="make the folder, or name another file",
        )


def _anything_measured(ngram: Session) -> bool:
    return any(record.rounds or record.outcome.status == "ok" for record in ngram.ledger.records)


def _left_alone(path: Path) -> RecordError:
    return RecordError(
        "not saved: nothing was measured",
        checked=[f"{path} holds what an earlier run saved, and is left as it was"],
        fix="mend why the cells failed; to have the failures saved name another file with --benchmark-json",
    )


def _explained(error: OSError, removed: list[Path], ngram: Session) -> RecordError:
    ledger = ngram.ledger
    n_ended, n_kept = len(ledger.records), ledger.kept_cells
    kept = f"all {n_ended}" if n_kept == n_ended else f"{n_kept} of {n_ended}"
    return RecordError(
        f"the results could not be saved as JSON: {error.strerror or error}",
        checked=[
            *(f"{path} was left half written and is removed" for path in removed),
            f"{kept} cells that ended are in the journal {ledger.path}",
        ],
        fix="make room and run the same command "
        + (f"with --ngram-resume={ledger.path}: they are not measured again" if n_kept else "again"),
    )


def _files(benchmark: Any) -> set[Path]:
    """The JSON files of a file storage; another kind of storage has none."""
    folder = getattr(benchmark.storage, "path", None)
    return set(Path(folder).rglob("*.json")) if folder is not None else set()


def _json(benchmark: Any) -> set[Path]:
    path = Path(benchmark.json) if benchmark.json else None
    return {path} if path is not None and path.is_file() else set()


def _stamp(benchmark: Any) -> int | None:
    """When the file of `--benchmark-json` was last written; an older run's file is not this run's."""
    return next((path.stat().st_mtime_ns for path in _json(benchmark)), None)


def _remove_broken(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        path.unlink(missing_ok=True)
        return True
    except OSError:
        return False
    return False
