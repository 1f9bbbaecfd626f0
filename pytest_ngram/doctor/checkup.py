"""All that the doctor looks at, in order, each line as soon as it is known."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from pytest_ngram.doctor import engine, host_facts, host_lines, plan, room_lines
from pytest_ngram.doctor.line import Line
from pytest_ngram.doctor.project import Asked, Project, find, without_pytest
from pytest_ngram.errors import OptionError
from pytest_ngram.measure import host
from pytest_ngram.measure.sysfs import Machine, known

__all__ = ["Asked", "checkup"]


def checkup(asked: Asked) -> Iterator[Line]:
    """Look at engine, models and host. No model file is read beyond its header, and no cell is measured.

    What is busy is watched first, for a second, before the doctor itself makes the host busy.
    """
    problem: OptionError | None = None
    machine = Machine(asked.root)
    pressure = machine.pressure_avg10()
    try:
        project = find(asked)
    except OptionError as error:
        project, problem = without_pytest(asked), error
    others = host_facts.busy(project.cache, Machine())
    if problem is not None:
        yield engine.of_error("pytest", problem)
    with ExitStack() as stack:
        cache = host_facts.folder(project.cache)
        folder = project.cache
        if cache.problem is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pytest-ngram-doctor-")))
        looked = engine.look(project, folder)
        yield from looked.lines
        if asked.model is not None:
            found = plan.of_file(asked.model, project, looked, folder)
        else:
            found = plan.of_matrix(project, looked, folder)
    yield from found.lines
    for model, needs in found.needs.items():
        yield room_lines.memory(model, needs, host.available_bytes())
    yield host_lines.swap(*host_facts.swap())
    yield host_lines.cores(found.threads, host_facts.cores(asked.root))
    yield host_lines.governor(host_facts.governor(asked.root))
    yield host_lines.power(known("battery", machine.on_battery(), {}))
    yield host_lines.pressure(pressure)
    yield host_lines.busy(others)
    yield host_lines.clock(host_facts.clock(asked.root))
    yield from _places(project, found.join_bytes)


def _places(project: Project, join_bytes: int) -> Iterator[Line]:
    """Where a run writes: models and tables, journals and logs, saved runs."""
    cache = host_facts.folder(project.cache, join_bytes)
    yield room_lines.disk("cache", cache, "name another folder: --ngram-cache-dir or PYTEST_NGRAM_CACHE")
    results = host_facts.folder(project.results)
    yield room_lines.disk("results", results, "name another place: --ngram-journal")
    if project.saved is not None:
        yield room_lines.disk(
            "saved runs", host_facts.folder(project.saved), "name another: --benchmark-storage"
        )
