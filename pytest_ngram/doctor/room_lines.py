"""Whether memory and disks have room for what is asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_ngram.doctor.line import Line, fail, ok, warn, worst
from pytest_ngram.engine.preflight import check_memory
from pytest_ngram.errors import EngineError

_MB = 10**6
# The logs of a night at -lv 4, its journal and its JSON are tens of MB.
_LEAST_BYTES = 50 * _MB
_ROOM_BYTES = 500 * _MB


@dataclass(frozen=True)
class Need:
    """What a server of a config needs.

    Args:
        config: its id.
        file_bytes: of the model files, which the kernel may page in and out.
        own_bytes: what cannot be paged out to a file: KV cache and state of the model and of the one that
            drafts, a table, and weights that are not mapped. A lower bound.
    """

    config: str
    file_bytes: int
    own_bytes: int


def memory(model: str, needs: Sequence[Need], available_bytes: int) -> Line:
    """Hold what the servers of a model need, one after the other, against what is free."""
    return worst([_memory_of(model, need, available_bytes) for need in _largest_first(needs)])


def _largest_first(needs: Sequence[Need]) -> list[Need]:
    return sorted(needs, key=lambda need: -(need.own_bytes + need.file_bytes))


def _memory_of(model: str, need: Need, available_bytes: int) -> Line:
    try:
        told = check_memory(need.file_bytes, need.own_bytes, available_bytes, force=False)
    except EngineError as error:
        fix = f"close what holds memory, or {error.fix}"
        return fail("memory", f"{model}/{need.config}: {error.cause}", fix)
    if told is not None:
        todo = "close what holds memory, or take a smaller quantisation: else the disk is part of each number"
        return warn("memory", f"{model}/{need.config}: {told}", todo)
    found = f"{_size(need.file_bytes)} of model and {_size(need.own_bytes)} of its own"
    return ok("memory", f"{model}/{need.config} needs {found}, {_size(available_bytes)} are free")


@dataclass(frozen=True)
class Folder:
    """A place that a run writes to.

    Args:
        path: of the folder, which need not exist.
        problem: why nothing can be written there; None where that was tried and works.
        free_bytes: on its file system, for this user; None where that cannot be told.
        need_bytes: what is sure to be written, beside logs and the like.
    """

    path: str
    problem: str | None
    free_bytes: int | None
    need_bytes: int = 0


def disk(what: str, folder: Folder, todo: str) -> Line:
    """Judge a folder.

    Args:
        what: what is kept there, as the line's name.
        folder: the place.
        todo: how to name another one.
    """
    if folder.problem is not None:
        return fail(
            what, f"{folder.path} cannot be written: {folder.problem}", f"get the right to, or {todo}"
        )
    if folder.free_bytes is None:
        return ok(what, f"{folder.path} can be written; its free space is not told")
    found = f"{folder.path}: {_size(folder.free_bytes)} free"
    if folder.need_bytes:
        found += f", {_size(folder.need_bytes)} are needed for parts of models put together"
    left = folder.free_bytes - folder.need_bytes
    if left < _LEAST_BYTES:
        return fail(what, found, f"make room, or {todo}")
    if left < _ROOM_BYTES:
        return warn(what, f"{found}, which a long run may fill", f"make room, or {todo}")
    return ok(what, found)


def _size(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**29 else f"{count / 2**20:.1f} MiB"
