"""What an engine has and answers, judged."""

from __future__ import annotations

import pytest

from pytest_ngram.doctor.engine import capabilities, described, endpoints, not_started, of_error
from pytest_ngram.doctor.plan import refusals
from pytest_ngram.engine.build import Build
from pytest_ngram.engine.help_text import HelpFlag
from pytest_ngram.engine.looker import Seen
from pytest_ngram.errors import EngineError

FLAGS = (HelpFlag(("--metrics",), "", "m"), HelpFlag(("--slots",), "", "s"))
BUILD = Build("b11434", spec_types=("draft-mtp",), flags=FLAGS, capabilities={"metrics": True, "slots": True})
ANSWER = {"metrics": True, "n-decode-total": True, "draft-counts": True, "verify-counts": True}


@pytest.mark.parametrize(
    ("build", "seen", "status", "said"),
    [
        (BUILD, ANSWER, "ok", "draft-mtp"),
        (BUILD, {}, "ok", "draft-mtp"),
        (BUILD, {**ANSWER, "n-decode-total": False}, "warn", "n_decode is null"),
        (
            Build("b4000", flags=FLAGS, capabilities={"metrics": False, "slots": True}),
            {},
            "warn",
            "lacks --metrics",
        ),
        (Build("script"), {}, "warn", "does not list its flags"),
    ],
)
def test_capabilities(build: Build, seen: dict[str, bool], status: str, said: str) -> None:
    """What records will not be able to tell is a warning that names it."""
    line = capabilities(build, seen)
    assert (line.status, said in line.found) == (status, True), line


def test_server_that_cannot_start() -> None:
    """A failed start fails with its cause; a build too old for the tiny model alone only warns."""
    sigill = EngineError(
        "it needs AVX512", outcome="crash", checked=["signal SIGILL (4)"], fix="another build"
    )
    assert not_started(sigill) == of_error("server", sigill)
    assert not_started(sigill).found == "it needs AVX512 (signal SIGILL (4))"
    old = EngineError(
        "gave up",
        outcome="refused",
        fix="x",
        log_tail=["llama_model_load: error loading model: unknown model architecture: 'qwen35moe'"],
    )
    assert not_started(old).status == "warn"


def test_server_at_a_url() -> None:
    """It is described by what it tells; endpoints that it lacks are a warning with their flags."""
    seen = Seen(model_path="/m/q.gguf", n_ctx=8192, spec_types=(), metrics=True, slots=False, build="b11434")
    assert described(seen) == "b11434, q.gguf, -c 8192, no drafts"
    assert described(Seen()) == "build not told, a model that it does not name, -c not told, types not told"
    assert endpoints(seen).found == "it was started without --slots"
    assert endpoints(Seen(metrics=True, slots=True)).status == "ok"


def test_refused_configs_fail_unless_a_url_fits_some() -> None:
    """A server of our own that cannot run a config fails; one at a URL fails only if it fits none."""
    refused = {("not offered", "leave it out"): ["mtp1", "mtp2"]}
    (ours,) = refusals("qwen", refused, 3, at_url=False)
    assert (ours.status, ours.found) == ("fail", "qwen/mtp1,mtp2 cannot be measured: not offered")
    assert [line.status for line in refusals("qwen", refused, 3, at_url=True)] == ["warn"]
    assert [line.status for line in refusals("qwen", refused, 2, at_url=True)] == ["fail"]
    assert list(refusals("qwen", {}, 2, at_url=True)) == []
