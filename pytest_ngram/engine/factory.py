"""One way to start a server, whichever engine was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from pytest_ngram.engine import api_key, binary, capabilities, compare, process, url
from pytest_ngram.engine.build import Build, not_offered
from pytest_ngram.engine.protocol import RunningEngine
from pytest_ngram.engine.select import EngineChoice
from pytest_ngram.engine.unanswered import Unanswered
from pytest_ngram.engine.vocabulary import AnyFlags, BinaryFlags, EmbeddedFlags, Vocabulary


class Facts(Protocol):
    """What a running server is compared by (`pytest_ngram.models.gguf_file.ModelFacts` has it)."""

    @property
    def n_vocab(self) -> int:
        """Tokens of the vocabulary."""
        ...

    @property
    def tensor_bytes(self) -> int:
        """Size of the weights."""
        ...


class Factory:
    """Starts servers of one engine.

    Args:
        choice: what `select.choose` returned.
        cache_dir: where hashes, what a build has, and links between libraries are kept.
        told: flags that the user says a server at a URL was started with.
        warn: called with what should be known of a start that goes on.
        ask_timeout_s: for a binary to tell its flags, and its version.
    """

    def __init__(
        self,
        choice: EngineChoice,
        *,
        cache_dir: Path | None = None,
        told: Sequence[str] = (),
        warn: Callable[[str], None] = lambda text: None,
        ask_timeout_s: float = capabilities.ASK_TIMEOUT_S,
    ) -> None:
        self.choice = choice
        self._cache_dir = cache_dir
        self.told = tuple(told)
        self._warn = warn
        self._ask_timeout_s = ask_timeout_s
        self._warned: set[str] = set()
        self._unanswered = Unanswered(choice.url or "", warn)

    @cached_property
    def build(self) -> Build:
        """What the build has; of a server at a URL nothing but its name. Raises `EngineError`."""
        if self.choice.path is not None:
            build = capabilities.probe_binary(
                self.choice.path, self._cache_dir, timeout_s=self._ask_timeout_s
            )
            capabilities.require_llama_server(build, self.choice.path)
            return build
        if self.choice.url is not None:
            return Build(name=self.choice.url)
        process.require_embedded()
        return capabilities.probe_embedded()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The flags that the engine takes, for `command.server_argv`. Raises `EngineError`."""
        if self.choice.kind == "embedded":
            return EmbeddedFlags()
        return BinaryFlags(self.build) if self.choice.kind == "binary" else AnyFlags()

    def check(self, spec_types: Sequence[str], argv: Sequence[str]) -> None:
        """Refuse a config that the build does not offer, before anything starts. Raises `EngineError`."""
        error = not_offered(self.build, spec_types, argv)
        if error is not None:
            raise error

    def start(
        self,
        argv: Sequence[str],
        *,
        log_path: Path,
        facts: Facts | None = None,
        ready_timeout_s: float = 600.0,
        trace: bool = True,
        to_tokenize: bool = False,
    ) -> RunningEngine:
        """Start a server, or take the one at the URL if it is what `argv` asks for.

        Args:
            argv: llama-server's own flags.
            log_path: where a server of our own writes; a URL has none.
            facts: of the model file, to be compared with what a server at a URL has loaded.
            ready_timeout_s: the deadline for it to be ready.
            trace: whether a server of our own logs a line for each verify step.
            to_tokenize: whether it is only to tokenize; of a server at a URL the model alone counts then.

        Raises:
            EngineError: as `process.start`, `binary.start`, or `url.connect` and `compare.check_start`.
        """
        if self.choice.url is not None:
            return self._take(self.choice.url, argv, facts, ready_timeout_s, to_tokenize=to_tokenize)
        if self.choice.path is not None:
            return binary.start(
                argv,
                program=self.choice.path,
                log_path=log_path,
                label=self.choice.label,
                cache_dir=self._cache_dir,
                ready_timeout_s=ready_timeout_s,
                trace=trace,
            )
        return process.start(
            argv,
            log_path=log_path,
            label=self.choice.label,
            cache_dir=self._cache_dir,
            ready_timeout_s=ready_timeout_s,
            trace=trace,
        )

    def _take(
        self,
        address: str,
        argv: Sequence[str],
        facts: Facts | None,
        ready_timeout_s: float,
        *,
        to_tokenize: bool,
    ) -> RunningEngine:
        key = api_key.of_environment()
        with self._unanswered.asking():
            engine = url.connect(
                address, label=self.choice.label, told=self.told, key=key, ready_timeout_s=ready_timeout_s
            )
        n_vocab = facts.n_vocab if facts is not None else None
        tensor_bytes = facts.tensor_bytes if facts is not None else None
        if to_tokenize:
            model = self.vocabulary.parse(argv).get("model", "")
            compare.check_model(model, engine.seen, n_vocab=n_vocab, tensor_bytes=tensor_bytes)
            return engine
        unseen = compare.check_start(
            argv, engine.seen, told=self.told, n_vocab=n_vocab, tensor_bytes=tensor_bytes
        )
        text = f"{address}: it cannot be seen whether the server has {', '.join(unseen)}"
        if unseen and text not in self._warned:
            self._warned.add(text)
            self._warn(text)
        return engine
