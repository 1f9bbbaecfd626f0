"""The journal: what was written is read back, whatever happened to the process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from pytest_ngram.errors import RecordError
from pytest_ngram.matrix.plan import PlannedCell
from pytest_ngram.measure.journal import JOURNAL, Header, Journal, read
from pytest_ngram.record import Prompt, Record, ServerStart

HEADER = Header(journal=JOURNAL, version="0", matrix_sha256="ab", profile="smoke", seed=1)
START = ServerStart(
    serial=1, model="m", config="none", temperature=0.0, block=1, pass_="first", load_s=0.5, warmup_s=0.1
)
PROMPT = Prompt(model="m", prompt="p", prompt_set="s", tokens="x")


@pytest.fixture
def written(tmp_path: Path, cells: list[PlannedCell], record_of: Callable[..., Record]) -> Path:
    path = tmp_path / "new" / "journal.jsonl"
    journal = Journal.create(path, HEADER)
    journal.start(START)
    journal.prompt(PROMPT)
    journal.cell(record_of(cells[0]))
    journal.cell(record_of(cells[1], "hang"))
    journal.close()
    return path


def test_everything_is_read_back(
    written: Path, cells: list[PlannedCell], record_of: Callable[..., Record]
) -> None:
    """Header, starts, prompts and cells, failed ones too, come back equal."""
    saved = read(written)
    assert saved.header == HEADER
    assert saved.starts == (START,)
    assert saved.prompts == (PROMPT,)
    assert saved.cells == (record_of(cells[0]), record_of(cells[1], "hang"))
    assert saved.torn_bytes == 0


def test_every_possible_cut_keeps_all_whole_lines(written: Path) -> None:
    """A process that dies while it writes loses the line that it wrote, and no other."""
    content = written.read_bytes()
    lines = content.split(b"\n")[:-1]
    header_end = len(lines[0]) + 1
    for cut in range(header_end, len(content) + 1, 7):
        written.write_bytes(content[:cut])
        saved = read(written)
        whole = content[:cut].count(b"\n")
        assert len(saved.starts) + len(saved.prompts) + len(saved.cells) == whole - 1
        assert saved.whole_bytes + saved.torn_bytes == cut


def test_going_on_cuts_the_torn_line_off(
    written: Path, cells: list[PlannedCell], record_of: Callable[..., Record]
) -> None:
    """What is appended after a crash stands on a line of its own."""
    written.write_bytes(written.read_bytes()[:-20])
    journal = Journal.append_to(written, read(written))
    journal.cell(record_of(cells[2]))
    journal.close()
    assert [record.cell for record in read(written).cells] == [cells[0].cell, cells[2].cell]


def test_a_broken_line_in_the_middle_is_named(written: Path) -> None:
    """An edited line is an error with its number, never silently left out."""
    lines = written.read_bytes().split(b"\n")
    lines[2] = lines[2][:-3]
    written.write_bytes(b"\n".join(lines))
    with pytest.raises(RecordError, match="line 3 of the journal"):
        read(written)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}\n", b'{"benchmarks": []}\n', b'{"kind":"header","data":{}}\n']
)
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """An empty file or a saved JSON is no journal."""
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(RecordError, match="journal"):
        read(path)


def test_a_missing_journal_is_an_error(tmp_path: Path) -> None:
    """The path that was looked for stands in the error."""
    with pytest.raises(RecordError, match="cannot be read"):
        read(tmp_path / "nowhere")


def test_an_existing_journal_is_never_overwritten(written: Path) -> None:
    """Creating one over another is refused, and says how to go on with it."""
    before = written.read_bytes()
    with pytest.raises(RecordError, match="--ngram-resume"):
        Journal.create(written, HEADER)
    assert written.read_bytes() == before


def test_a_full_disk_is_explained(cells: list[PlannedCell], record_of: Callable[..., Record]) -> None:
    """No space left: an error that names the file, the cause and how to go on."""
    full = Path("/dev/full")
    journal = Journal(full, full.open("wb", buffering=0))
    with pytest.raises(RecordError, match="No space left") as caught:
        journal.cell(record_of(cells[0]))
    assert "--ngram-resume" in caught.value.fix
    journal.close()


def test_two_runs_do_not_go_on_with_one_journal(
    written: Path, cells: list[PlannedCell], record_of: Callable[..., Record]
) -> None:
    """The second one is refused, whether the first is still at it or has ended meanwhile."""
    saved = read(written)
    first = Journal.append_to(written, saved)
    with pytest.raises(RecordError, match="cannot be gone on with"):
        Journal.append_to(written, saved)
    first.cell(record_of(cells[2]))
    first.close()
    with pytest.raises(RecordError, match="cannot be gone on with"):
        Journal.append_to(written, saved)
    assert len(read(written).cells) == 3


def test_a_journal_whose_folder_cannot_be_written_is_an_error(written: Path, tmp_path: Path) -> None:
    """A journal that was moved away is told as one."""
    saved = read(written)
    written.unlink()
    written.mkdir()
    with pytest.raises(RecordError, match="cannot be gone on with"):
        Journal.append_to(written, saved)


class Flaky(FileIO):
    """A file whose disk is full in the middle of the nth write."""

    failing = 0

    def write(self, data: Any) -> int:
        self.failing -= 1
        if self.failing == 0:
            super().write(bytes(data)[:20])
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_a_write_that_failed_half_way_leaves_no_half_line(
    tmp_path: Path, cells: list[PlannedCell], record_of: Callable[..., Record]
) -> None:
    """What is written once there is room again stands on a line of its own."""
    path = tmp_path / "j.jsonl"
    Journal.create(path, HEADER).close()
    file = Flaky(path, "ab")
    journal = Journal(path, file)
    file.failing = 1
    with pytest.raises(RecordError, match="No space left"):
        journal.cell(record_of(cells[0]))
    journal.cell(record_of(cells[1]))
    journal.close()
    assert [record.cell for record in read(path).cells] == [cells[1].cell]


def test_a_journal_that_cannot_even_begin_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file without a header could not be gone on with."""

    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match="No space left"):
        Journal.create(tmp_path / "j.jsonl", HEADER)
    assert list(tmp_path.iterdir()) == []
