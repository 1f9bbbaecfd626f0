"""A server that someone else started: its flags are looked at, never set, and nothing of it can be ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pytest_ngram import record
from pytest_ngram.engine import compare
from pytest_ngram.engine.looker import Looker, Seen
from pytest_ngram.engine.vocabulary import AnyFlags
from pytest_ngram.errors import EngineError

_POLL_S = 0.2
# for a question between two cells, when it has nothing else to do
_PATIENCE_S = 10.0


_ADDRESS = frozenset({"host", "port", "api-prefix"})


@dataclass(frozen=True)
class UrlEngine:
    """A server at a URL, behind `protocol.RunningEngine`. Make one with `connect`.

    `told` are the flags that the user says it was started with.
    """

    url: str
    seen: Seen
    load_s: float
    label: str | None = None
    told: tuple[str, ...] = ()
    key: str | None = field(default=None, repr=False)
    pid: None = None
    log_path: Path | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """What the server tells of itself and where it answers, as flags, then what its user tells."""
        seen = self.seen
        shown = [("-m", seen.model_path), ("-c", seen.n_ctx), ("-np", seen.total_slots)]
        shown.append(("--spec-type", ",".join(seen.spec_types or ())))
        switches = [flag for flag, on in (("--metrics", seen.metrics), ("--slots", seen.slots)) if on]
        words = [word for flag, value in shown if value for word in (flag, str(value))]
        told = [
            word
            for key, group in AnyFlags().group(self.told).items()
            if key not in compare.SEEN | _ADDRESS or (key == "spec-type" and seen.spec_types is None)
            for word in group
        ]
        return (*words, *switches, *_address(self.url), *told)

    def alive(self) -> bool:
        """Return True: only a request can tell."""
        return True

    def replaced(self, n_generated: float | None) -> bool:
        """Whether the server was started anew: it loads, or has generated less than it had.

        Args:
            n_generated: tokens that it had generated when it was last asked, None where that is not known.

        Raises:
            EngineError: nobody answers.
        """
        try:
            with closing(Looker(self.url, timeout_s=_PATIENCE_S, key=self.key)) as client:
                if not client.ready():
                    return True
                now = client.n_generated()
        except EngineError as error:
            if error.outcome == "hang":
                raise
            raise self.explain_exit() from error
        return n_generated is not None and now is not None and now < n_generated

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


def _address(url: str) -> tuple[str, ...]:
    """Return where a server answers, as flags. No user or password is among them."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    prefix = ("--api-prefix", parts.path) if parts.path else ()
    return ("--host", parts.hostname or "", "--port", str(port), *prefix)


def connect(
    url: str,
    *,
    label: str | None = None,
    told: Sequence[str] = (),
    key: str | None = None,
    ready_timeout_s: float = 600.0,
) -> UrlEngine:
    """Look at a server, waiting for one that still loads its model.

    A server that drafts is sent one request of a single token, since only then `/slots` names its types.

    Args:
        url: without a slash at its end.
        label: the user's name for the build.
        told: flags that the user says it was started with.
        key: its API key.
        ready_timeout_s: how long it may go on loading, in seconds.

    Raises:
        EngineError: `refused` where nobody answers or the answer is not llama-server's, `hang` where it is
            still loading at the deadline or does not answer in time.
    """
    begin = time.monotonic()
    with closing(Looker(url, key=key)) as client:
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
        return UrlEngine(url, client.look(), load_s, label, tuple(told), key)
