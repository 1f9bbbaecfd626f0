"""Memory and disks against what is asked, with the sizes of real models."""

from __future__ import annotations

import pytest

from pytest_ngram.doctor.room_lines import Folder, Need, disk, memory

GIB = 2**30
PLAIN = Need("none", 14 * GIB, GIB)  # a 35B model at 3 bits
MTP = Need("mtp1", 14 * GIB, 2 * GIB)


@pytest.mark.parametrize(
    ("free_gib", "status", "said"),
    [
        (24, "ok", "qwen/mtp1 needs 14.00 GiB of model and 2.00 GiB of its own, 24.00 GiB are free"),
        (15.5, "warn", "qwen/mtp1: the model is 14.00 GiB and the server needs 2.00 GiB more"),
        (1.5, "fail", "qwen/mtp1: the server needs 2.00 GiB of its own, 1.50 GiB are available"),
    ],
)
def test_memory(free_gib: float, status: str, said: str) -> None:
    """The config that needs most decides: a model that is paged warns, a server without room fails."""
    line = memory("qwen", [PLAIN, MTP], int(free_gib * GIB))
    assert (line.status, said in line.found) == (status, True), line


def test_memory_fails_for_any_config() -> None:
    """A config that is not the largest in all, but the largest in what cannot be paged, is not overlooked."""
    unmapped = Need("unmapped", 0, 9 * GIB)
    assert memory("qwen", [PLAIN, unmapped], 8 * GIB).found.startswith("qwen/unmapped")


MB = 10**6


@pytest.mark.parametrize(
    ("folder", "status", "said"),
    [
        (Folder("/data/.ngram", None, 40 * GIB), "ok", "/data/.ngram: 40.00 GiB free"),
        (Folder("/data/.ngram", None, 400 * MB), "warn", "may fill"),
        (Folder("/data/.ngram", None, 20 * MB), "fail", "19.1 MiB free"),
        (Folder("/data/.ngram", None, None), "ok", "is not told"),
        (
            Folder("/data/.ngram", "/data: Permission denied", None),
            "fail",
            "cannot be written: /data: Permission",
        ),
        (Folder("~/c", None, 16 * GIB, 14 * GIB), "ok", "14.00 GiB are needed for parts"),
        (Folder("~/c", None, 14 * GIB + 100 * MB, 14 * GIB), "warn", "may fill"),
        (Folder("~/c", None, 14 * GIB, 14 * GIB), "fail", "14.00 GiB free"),
    ],
)
def test_disk(folder: Folder, status: str, said: str) -> None:
    """Room for a night's logs and for models put together is well; little warns, none and no right fail."""
    line = disk("results", folder, "name another place")
    assert (line.status, said in line.found) == (status, True), line
    assert (line.todo is None) == (status == "ok")
