"""Looks at the engine: found, asked what it has, started once on a tiny model, or looked at by its URL."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.doctor.line import Line, fail, ok, warn
from pytest_ngram.doctor.project import Project
from pytest_ngram.engine import api_key
from pytest_ngram.engine.build import Build
from pytest_ngram.engine.capabilities import probe_server
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.command import server_argv
from pytest_ngram.engine.factory import Factory
from pytest_ngram.engine.looker import Looker, Seen
from pytest_ngram.engine.select import choose
from pytest_ngram.engine.vocabulary import AnyFlags, Vocabulary
from pytest_ngram.errors import EngineError, NgramError
from pytest_ngram.measure.offered import not_offered
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

_PATIENCE_S = 5.0
_READY_S = 30.0
_ASK_S = 10.0  # to tell its flags: most take well under one
_CHECKED = 2  # what is named, and what was found there
_FLAGS = ("-c", "512", "-t", "1")
_UNKNOWN_ARCHITECTURE = "unknown model architecture"


@dataclass(frozen=True)
class Looked:
    """An engine, as far as it could be looked at.

    Args:
        lines: what was found.
        vocabulary: the flags that it takes; any where that is not known.
        factory: starts it; None where it cannot be started or is at a URL.
        seen: of a server at a URL what it tells; None where it does not answer.
        at_url: whether it is one.
    """

    lines: tuple[Line, ...]
    vocabulary: Vocabulary
    factory: Factory | None = None
    seen: Seen | None = None
    at_url: bool = False


def look(project: Project, cache: Path) -> Looked:
    """Look at the engine that a run here would take.

    Args:
        project: names it.
        cache: a folder that can be written.
    """
    try:
        choice = choose(project.llama_server)
        if choice.url is not None:
            return _at_url(choice.url)
        factory = Factory(choice, cache_dir=cache, ask_timeout_s=_ASK_S)
        build, vocabulary = factory.build, factory.vocabulary
    except NgramError as error:
        return Looked((of_error("engine", error),), AnyFlags(), at_url="://" in (project.llama_server or ""))
    except OSError as error:
        line = fail("engine", f"{project.llama_server}: {error.strerror or error}", "correct its path")
        return Looked((line,), AnyFlags())
    server, seen = _started(factory, build, cache)
    return Looked(
        (ok("engine", _named(build)), capabilities(build, seen), server),
        vocabulary,
        factory if server.status != "fail" else None,
    )


def of_error(what: str, error: NgramError) -> Line:
    """Return a failure as a line: its cause, and of what was checked the first two."""
    checked = "; ".join(each for each in error.checked[:_CHECKED] if each not in error.cause)
    return fail(what, error.cause + (f" ({checked})" if checked else ""), error.fix)


def capabilities(build: Build, seen: dict[str, bool]) -> Line:
    """Judge what a build has. Pure.

    Args:
        build: what it says of itself.
        seen: what an answer showed; empty where there was none.
    """
    lacks = [f"--{name}" for name in ("metrics", "slots") if build.capabilities.get(name) is False]
    types = ", ".join(build.spec_types) or "types not told"
    if lacks:
        return warn(
            "capabilities",
            f"{types}; it lacks {', '.join(lacks)}, so counts of drafts or progress are not told",
            "use a newer build if you need them",
        )
    unknown = not_offered(seen, speculative=bool(build.spec_types)) if seen else []
    if unknown:
        return warn(
            "capabilities", f"{types}; it lacks {'; '.join(unknown)}", "use a newer build if you need them"
        )
    if not build.flags:
        return warn("capabilities", "it does not list its flags", "check the matrix's flags by hand")
    return ok("capabilities", types)


def _named(build: Build) -> str:
    return f"{build.name}, {len(build.flags)} flags" if build.flags else build.name


def _started(factory: Factory, build: Build, cache: Path) -> tuple[Line, dict[str, bool]]:
    """Start it on the hand-built model and ask it once: some builds die only when they compute."""
    begin_s = time.monotonic()
    try:
        model = generate(HandBuiltSpec(), cache / "models")
        types = [name for name in ("draft-mtp",) if name in build.spec_types]
        argv = server_argv(model, model_flags=_FLAGS, spec_types=types, vocabulary=factory.vocabulary)
        with tempfile.TemporaryDirectory(prefix="pytest-ngram-doctor-") as folder:
            seen = _ask(factory, argv, Path(folder) / "server.log")
    except NgramError as error:
        return not_started(error), {}
    except OSError as error:
        return fail("server", f"it cannot be started: {error}", "make room in the temporary folder"), {}
    return ok("server", f"starts, loads a tiny model and answers in {time.monotonic() - begin_s:.1f} s"), seen


def _ask(factory: Factory, argv: Sequence[str], log_path: Path) -> dict[str, bool]:
    engine = factory.start(argv, log_path=log_path, ready_timeout_s=_READY_S)
    try:
        with Client(engine.url) as client:
            try:
                return probe_server(client, log_path, timeout_s=_READY_S)
            except EngineError as error:
                if error.outcome == "crash":
                    raise engine.explain_exit() from error
                raise
    finally:
        engine.stop()


def not_started(error: NgramError) -> Line:
    """Judge why the tiny model could not be run. Pure."""
    tail = error.log_tail if isinstance(error, EngineError) else ()
    if any(_UNKNOWN_ARCHITECTURE in line for line in tail):
        return warn(
            "server",
            "this build is too old for the tiny model (qwen35moe) that it would be tried with",
            "try it by hand on a model of yours; the gates of tiny-moe need a newer build",
        )
    return of_error("server", error)


def _at_url(url: str) -> Looked:
    try:
        with closing(Looker(url, timeout_s=_PATIENCE_S, key=api_key.of_environment())) as client:
            if not client.ready():
                line = warn("engine", f"{url} is loading its model", "ask again when it has")
                return Looked((line,), AnyFlags(), at_url=True)
            seen = client.look()
    except NgramError as error:
        return Looked((of_error("engine", error),), AnyFlags(), at_url=True)
    return Looked(
        (ok("engine", f"{url}: {described(seen)}"), endpoints(seen)), AnyFlags(), seen=seen, at_url=True
    )


def described(seen: Seen) -> str:
    """Say what a server at a URL is. Pure."""
    types = "types not told" if seen.spec_types is None else ", ".join(seen.spec_types) or "no drafts"
    model = Path(seen.model_path).name or "a model that it does not name"
    return f"{seen.build or 'build not told'}, {model}, -c {seen.n_ctx or 'not told'}, {types}"


def endpoints(seen: Seen) -> Line:
    """Judge what a server at a URL answers. Pure."""
    lacks = [f"--{name}" for name, on in (("metrics", seen.metrics), ("slots", seen.slots)) if not on]
    if lacks:
        return warn("capabilities", f"it was started without {', '.join(lacks)}", "start it anew with them")
    return ok("capabilities", "/metrics and /slots answer")
