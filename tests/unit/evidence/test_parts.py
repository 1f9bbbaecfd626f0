"""Small parts of evidence: fingerprints, wrong tables, the file of known issues, the symbols of a library."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pytest_ngram.engine import elf
from pytest_ngram.errors import EngineError, MatrixError, OptionError
from pytest_ngram.evidence import issues
from pytest_ngram.evidence.fingerprint import system_info
from pytest_ngram.evidence.reproductions import ASKED_TYPES, PAST
from pytest_ngram.evidence.wrong_tables import record, wrong_tables
from pytest_ngram.judge.known_issues import explain
from pytest_ngram.judge.seam import TABLES
from pytest_ngram.judge.types import failed

SHIPPED = Path(__file__).parents[3] / "gates" / "known_issues.yaml"
LINE = (
    "0.00.005 I cmn  common_param: system_info: n_threads = 1 (n_threads_batch = 2) / 8 | "
    "CUDA : ARCHS = 890 | CPU : SSE3 = 1 | AVX512 = 0 | REPACK = 1 | \n"
)
ISSUE = "{id: a, title: t, types: [ngram-mod], reproduce: mod-pool, expect: e}"


def test_system_info() -> None:
    """Threads, backends and what they were compiled for; what is 0 is not there."""
    assert system_info(f"x\n{LINE}y") == (1, 2, ("CUDA", "CPU", "SSE3", "REPACK"))


def test_an_unreadable_system_info_is_an_error() -> None:
    """Without it goldens of another engine would pass for those of this one."""
    with pytest.raises(EngineError, match="system_info") as caught:
        system_info("system_info: n_threads: 1")
    assert caught.value.outcome == "refused"


def test_every_kind_of_wrong_table_is_made() -> None:
    """Each kind that the seam expects something of exists, and no two are alike."""
    tables = wrong_tables(100)
    assert set(tables) == set(TABLES)
    assert len(set(tables.values())) == len(tables)


def test_a_record_is_what_llama_cpp_reads() -> None:
    """Four key slots, the number of pairs, the pairs: little-endian int32."""
    assert record((1, 2), [(3, 4)]) == struct.pack("<7i", 1, 2, -1, -1, 1, 3, 4)


def test_shipped_issues_can_be_read() -> None:
    """The file in this repository names types, gates and reproductions that exist, and every reproduction."""
    found = issues.read(SHIPPED, ASKED_TYPES)
    assert {issue.upstream for issue in found if issue.upstream} == {27852, 22055, 28049, 27972}
    assert {issue.reproduce for issue in found} == set(ASKED_TYPES)


PAST_THE_END = failed("accounting", "accepted past the end", [])


@pytest.mark.parametrize(
    ("types", "build", "status"),
    [
        (("draft-mtp",), "b11063", "known issue"),
        (("draft-mtp", "ngram-simple"), "b11063", "known issue"),
        (("ngram-cache", "ngram-simple"), "b11063", "known issue"),
        (("draft-mtp", "draft-eagle3"), "b11063", "failed"),
        (("draft-mtp", "ngram-simple"), "b11549", "failed"),
    ],
)
def test_issue_28049_concerns_stacks(types: tuple[str, ...], build: str, status: str) -> None:
    """Each type that its reproduction was seen with is excused by it, alone and in a stack, on old builds."""
    shipped = issues.read(SHIPPED, ASKED_TYPES)
    (issue,) = (issue for issue in shipped if issue.upstream == 28049)
    assert set(issue.types) == set(PAST)
    assert explain(PAST_THE_END, shipped, types, build, lambda issue: True).status == status


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"issues: [{ISSUE}, {ISSUE}]", "stands twice"),
        (f"issues: [{ISSUE.replace('ngram-mod', 'ngram-mad')}]", "ngram-mad"),
        (f"issues: [{ISSUE.replace('mod-pool', 'mod-pol')}]", "mod-pool"),
        (f"issues: [{ISSUE.replace('title', 'titel')}]", "titel"),
        (f"issues: [{ISSUE.replace('[ngram-mod]', '[]')}]", r"issues\[0\]\.types"),
        (f"issues: [{ISSUE.replace('[ngram-mod]', '[ngram-mod, draft-mtp]')}]", "the reproduction asks"),
        (f"issues: [{ISSUE.replace('expect: e', 'expect: e, fixed_in: 11434')}]", "fixed_in"),
        (f"issues: [{ISSUE.replace('expect: e', 'expect: e, fixed_in: soon')}]", "no build"),
        (f"issues: [{ISSUE.replace('expect: e', 'expect: e, explains: [{gate: x, kind: y}]')}]", "gate"),
    ],
)
def test_wrong_issues_are_told(tmp_path: Path, text: str, said: str) -> None:
    """A typo is an error that names it."""
    path = tmp_path / "known_issues.yaml"
    path.write_text(text)
    with pytest.raises(MatrixError, match=said):
        issues.read(path, ASKED_TYPES)


def test_missing_issues_are_told(tmp_path: Path) -> None:
    """No file is not the same as no issue."""
    with pytest.raises(OptionError, match="cannot be read"):
        issues.read(tmp_path / "none.yaml", ASKED_TYPES)
    path = tmp_path / "known_issues.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(OptionError, match="cannot be read"):
        issues.read(path, ASKED_TYPES)


def test_symbols_of_a_library() -> None:
    """A name that a library defines is found, one that it only uses, or has never heard of, is not."""
    import _ctypes

    names = elf.defined(Path(_ctypes.__file__))
    assert "PyInit__ctypes" in names
    assert "PyLong_FromLong" not in names
    assert elf.defined(Path(__file__)) == frozenset()
