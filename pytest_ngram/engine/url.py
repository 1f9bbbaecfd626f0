"""A server that someone else started: its flags are looked at, never set, and nothing of it can be ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_ngram import record
from pytest_ngram.engine.looker import Looker, Seen
from pytest_ngram.engine.vocabulary import AnyFlags
from pytest_ngram.errors import EngineError
from pytest_ngram.matrix.spec import STATEFUL_TYPES

_POLL_S = 0.2
REQUEST_TIMEOUT_S = 900.0
# llama.cpp rounds a context up to a multiple of this
_CONTEXT_STEP = 256
# Flags of the run that show in nothing that is measured, and those of our own defaults that no answer tells.
_NOT_COMPARED = frozenset({"host", "port", "verbosity", "verbose", "alias", "metrics", "slots"})
_COMPARED = frozenset({"model", "ctx-size", "parallel", "spec-type"})


@dataclass(frozen=True)
class UrlEngine:
    """A server at a URL, behind `protocol.RunningEngine`. Make one with `connect`.

    `request_timeout_s` is what a completion may take: a request to a server that hangs ends by it alone.
    """

    url: str
    seen: Seen
    load_s: float
    label: str | None = None
    request_timeout_s: float | None = REQUEST_TIMEOUT_S
    pid: None = None
    log_path: Path | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """What the server tells of itself, written as flags; what it was started with is not known."""
        seen = self.seen
        told = [("-m", seen.model_path), ("-c", seen.n_ctx), ("-np", seen.total_slots)]
        told.append(("--spec-type", ",".join(seen.spec_types or ())))
        switches = [flag for flag, on in (("--metrics", seen.metrics), ("--slots", seen.slots)) if on]
        words = [word for flag, value in told if value for word in (flag, str(value))]
        return (*words, *switches)

    def alive(self) -> bool:
        """Return True: only a request can tell."""
        return True

    def stop(self) -> None:
        """Do nothing: it is not ours."""

    def kill(self) -> None:
        """Do nothing: it is not ours."""

    def explain_exit(self) -> EngineError:
        """Say that it does not answer; why, its own host knows."""
        return EngineError(
            "the server does not answer any more",
            outcome="crash",
            checked=[self.url],
            fix="look at its log on its own host, and start it again",
        )

    def describe(self) -> record.Engine:
        """Say which engine this is, as far as it tells. `spec_types` are those that it runs with."""
        capabilities = {"metrics": self.seen.metrics, "slots": self.seen.slots}
        return record.Engine(
            kind="url",
            package=None,
            version=None,
            build=self.seen.build,
            label=self.label,
            binary_sha256=None,
            argv=self.argv,
            spec_types=self.seen.spec_types or (),
            capabilities=capabilities,
        )


def connect(
    url: str,
    *,
    label: str | None = None,
    ready_timeout_s: float = 600.0,
    request_timeout_s: float = REQUEST_TIMEOUT_S,
) -> UrlEngine:
    """Look at a server, waiting for one that still loads its model.

    A server that drafts is sent one request of a single token, since only then `/slots` names its types.

    Args:
        url: without a slash at its end.
        label: the user's name for the build.
        ready_timeout_s: how long it may go on loading, in seconds.
        request_timeout_s: how long a completion may take.

    Raises:
        EngineError: `refused` where nobody answers or the answer is not llama-server's, `hang` where it is
            still loading at the deadline.
    """
    begin = time.monotonic()
    with closing(Looker(url)) as client:
        while not client.ready():
            if time.monotonic() - begin > ready_timeout_s:
                raise EngineError(
                    "the server was not ready in time",
                    outcome="hang",
                    checked=[f"{url}/health answers, and does not say ok"],
                    fix="wait until it has loaded its model",
                )
            time.sleep(_POLL_S)
        load_s = time.monotonic() - begin
        return UrlEngine(url, client.look(), load_s, label, request_timeout_s)


def check_start(
    argv: Sequence[str],
    seen: Seen,
    *,
    told: Sequence[str] = (),
    n_vocab: int | None = None,
    tensor_bytes: int | None = None,
) -> tuple[str, ...]:
    """Refuse a start whose flags are not those of the running server.

    Args:
        argv: the command line that the start wants.
        seen: what the server tells.
        told: flags that the user says the server was started with, for those that it does not tell.
        n_vocab, tensor_bytes: of the model file that the start names.

    Returns:
        Flags that could not be compared and that change speed at most, such as `-t`; to be warned of.

    Raises:
        EngineError: outcome `refused`, with every difference.
    """
    flags = AnyFlags()
    wanted, said = flags.group(argv), flags.group(told)
    differences = [
        *_model_differences(flags.parse(argv).get("model", ""), seen, n_vocab, tensor_bytes),
        *_shape_differences(flags.parse(argv).get("ctx-size", 0), flags.parse(argv).get("parallel", 1), seen),
        *_type_differences(flags.parse(argv).spec_types, seen),
        *_endpoint_differences(wanted, seen),
    ]
    unseen: list[str] = []
    for key, words in wanted.items():
        if key in _COMPARED or key in _NOT_COMPARED or said.get(key, ())[1:] == words[1:] != ():
            continue
        if key in said:
            differences.append(f"{' '.join(words)} is wanted, {' '.join(said[key])} is said to be set")
        elif _drafts(key):
            differences.append(f"{' '.join(words)} is wanted, and no answer of the server tells what is set")
        else:
            unseen.append(" ".join(words))
    if differences:
        raise EngineError(
            f"the running server is not the one that this config needs: {differences[0]}"
            + (f", and {len(differences) - 1} more" if len(differences) > 1 else ""),
            outcome="refused",
            checked=differences,
            fix="start it with these flags, or give a llama-server binary, which is started for each config",
        )
    return tuple(unseen)


def _drafts(key: str) -> bool:
    """Whether a flag decides what is drafted, and so what is being compared."""
    return key.startswith(("spec-", "lookup-cache", "draft"))


def _model_differences(wanted: str, seen: Seen, n_vocab: int | None, tensor_bytes: int | None) -> list[str]:
    found: list[str] = []
    if wanted and seen.model_path and PurePath(wanted).name != PurePath(seen.model_path).name:
        found.append(
            f"the model {PurePath(wanted).name} is wanted, {PurePath(seen.model_path).name} is loaded"
        )
    for name, want, have in (
        ("vocabulary (tokens)", n_vocab, seen.n_vocab),
        ("weights (bytes)", tensor_bytes, seen.tensor_bytes),
    ):
        if want is not None and have is not None and want != have:
            found.append(f"the model's {name}: {want} are wanted, {have} are loaded")
    return found


def _shape_differences(n_ctx: int, n_parallel: int, seen: Seen) -> list[str]:
    found: list[str] = []
    padded = -(-n_ctx // _CONTEXT_STEP) * _CONTEXT_STEP
    if n_ctx and seen.n_ctx not in (n_ctx, padded, None):
        found.append(f"-c {n_ctx} is wanted, a slot has {seen.n_ctx}")
    if seen.total_slots not in (n_parallel, None):
        found.append(f"-np {n_parallel} is wanted, the server has {seen.total_slots} slots")
    return found


def _type_differences(wanted: Sequence[str], seen: Seen) -> list[str]:
    """Compare types; their order has no effect in llama.cpp. What outlives a block cannot be measured."""
    lasting = [name for name in wanted if name in STATEFUL_TYPES]
    if lasting:
        return [f"{', '.join(lasting)} remembers earlier requests, and this server is not started anew"]
    if seen.spec_types is None:
        return ["the server does not tell which types it drafts with"]
    if set(wanted) == set(seen.spec_types):
        return []
    have = ", ".join(seen.spec_types) or "without speculation"
    return [f"{', '.join(wanted) or 'no speculation'} is wanted, the server runs {have}"]


def _endpoint_differences(wanted: dict[str, tuple[str, ...]], seen: Seen) -> list[str]:
    answers = {"metrics": seen.metrics, "slots": seen.slots}
    return [f"/{name} is off: start the server with --{name}" for name, on in answers.items() if not on]
