"""Measures a model's cost curve: servers of its own, whose drafts are made to have each width.

These requests are in no result: what they draft is chosen for its length, and some are wrong on purpose.

- `ngram-cache` with a table that drafts 8 wrong tokens after every 2-gram of the text that the model is about
  to write. A draft is cut to what is left to generate, so a request for 10 tokens has one step of each width
  9 … 2 (of every other, where a replay follows).
- `ngram-simple` with a key of one token: a prompt that holds a token once, which the answer is then made to
  consist of (`logit_bias`), drafts what follows it there, up to 16 tokens.
- `draft-mtp` where the model has the block, for the curve with its catch-up: a server for each n_max, since
  all of its steps have one width, and a decode of the same width as the one before is cheaper (llama.cpp uses
  its graph again). `--spec-synth-len 1` refuses all drafts where the build has it: more steps for a text.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import structs

from pytest_ngram import record
from pytest_ngram.engine.client import CompletionRequest
from pytest_ngram.engine.factory import Factory
from pytest_ngram.errors import EngineError
from pytest_ngram.files import write_whole
from pytest_ngram.matrix.plan import Start
from pytest_ngram.matrix.spec import ConfigSpec, MatrixSpec
from pytest_ngram.measure.models import Model, Models
from pytest_ngram.measure.request import measure
from pytest_ngram.measure.server import Server
from pytest_ngram.measure.servers import Servers
from pytest_ngram.table import Counts
from pytest_ngram.table.format import encode
from pytest_ngram.verdict.curve import PLAIN, WIDTHS, Drafted, Timed, timed

MTP = "draft-mtp"
MTP_N_MAX = (1, 2, 3, 5, 8)  # not more: a recurrent state is kept once for each drafted token
_MTP_STEPS = 10
TABLE_DRAFT = 8  # what ngram-cache drafts, whatever it is told
_SIMPLE_MAX = WIDTHS[-1] - 1
_TEXT_TOKENS = 64
_COUNT = 100  # of each pair, so that it is drafted
_FORCED = 1000.0
SIMPLE = "ngram-simple"
TABLE = "ngram-cache"


@dataclass(frozen=True)
class Wanted:
    """What to measure: of one model of the matrix, in so many blocks, each width so often in each block.

    `lookup` and `mtp` are the widths wanted of the two curves; none leaves its servers out.
    """

    model: str
    blocks: int = 3
    repeats: int = 4
    lookup: frozenset[int] = frozenset(WIDTHS[1:])
    mtp: frozenset[int] = frozenset(n_max + 1 for n_max in MTP_N_MAX)


@dataclass(frozen=True)
class Measured:
    """Steps to make a curve of, and what they were measured on."""

    steps: tuple[Timed, ...]
    drafted: tuple[Drafted, ...]
    engine: record.Engine | None
    model: record.Model
    notes: tuple[str, ...] = ()


class CurveRun:
    """Measures a curve.

    Args:
        matrix: holds the model, its flags and the warm-up; its configs are replaced by those of the curve.
        base: the folder of the matrix.
        factory: starts servers of the engine that the user chose.
        wanted: what to measure.
        cache: where models that are made are kept.
        folder: for the table and the servers' logs.
        tell: hears which server is asked.

    Raises:
        ModelError: the model cannot be opened.
        EngineError: the engine is a server at a URL, whose drafts cannot be chosen.
    """

    def __init__(
        self,
        matrix: MatrixSpec,
        base: Path,
        factory: Factory,
        wanted: Wanted,
        *,
        cache: Path,
        folder: Path,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        if factory.choice.kind == "url":
            raise EngineError(
                "a curve cannot be measured on a server that somebody else started",
                outcome="refused",
                checked=[factory.choice.place],
                fix="name the binary, or take the curve from a saved run of it",
            )
        self._wanted, self._folder, self._tell = wanted, folder, tell
        self._build = factory.build
        self._synth = self._build.capabilities.get("spec-synth-len", False)
        self._matrix = structs.replace(matrix, configs=self._configs())
        models = Models(self._matrix, base, cache)
        self._model: Model = models.open(wanted.model)
        self._servers = Servers(self._matrix, models, factory, logs=folder, warn=self._heard)
        self._notes: list[str] = []
        self._steps: list[Timed] = []
        self._drafted: list[Drafted] = []
        self._engine: record.Engine | None = None
        self._text: tuple[int, ...] = ()

    def measure(self) -> Measured:
        """Return the steps of all blocks. Raises `EngineError` where a server does not start or answer."""
        for block in range(1, self._wanted.blocks + 1):
            for config in (PLAIN, *self._drafting(), PLAIN):
                self._tell(f"block {block} of {self._wanted.blocks}: {config}")
                self._one(config, block)
        notes = tuple(dict.fromkeys(self._notes))
        return Measured(tuple(self._steps), tuple(self._drafted), self._engine, self._model.record, notes)

    def _configs(self) -> dict[str, ConfigSpec]:
        simple = f"--spec-ngram-simple-size-n 1 --spec-ngram-simple-size-m {_SIMPLE_MAX}"
        synth = " --spec-synth-len 1" if self._synth else ""
        return {
            PLAIN: ConfigSpec(),
            TABLE: ConfigSpec(types=(TABLE,)),
            SIMPLE: ConfigSpec(types=(SIMPLE,), flags=simple),
            **{
                f"{MTP}-{n_max}": ConfigSpec(types=(MTP,), flags=f"--spec-draft-n-max {n_max}{synth}")
                for n_max in MTP_N_MAX
            },
        }

    def _drafting(self) -> list[str]:
        """The configs whose drafts have the wanted widths, of those that the build and the model can run."""
        lookup, reach = self._wanted.lookup, TABLE_DRAFT + 1
        configs = [TABLE] if any(width <= reach for width in lookup) else []
        configs += [SIMPLE] if any(width > reach for width in lookup) else []
        if not self._model.facts.nextn or not self._wanted.mtp:
            return configs
        types = self._build.spec_types
        if types and MTP not in types:
            self._heard(f"{self._build.name} has no {MTP}")
            return configs
        return [*configs, *(f"{MTP}-{n_max}" for n_max in MTP_N_MAX if n_max + 1 in self._wanted.mtp)]

    def _one(self, config: str, block: int) -> None:
        """Start one server and send it all of its requests, in an order of the block's own."""
        start = Start(self._wanted.model, config, 0.0, block, 0)
        server = self._servers.serve(start, self._table() if config == TABLE else None)
        try:
            self._text = self._text or self._written(server)
            requests = [each for each in self._requests(config) for _ in range(self._wanted.repeats)]
            random.Random(f"{config} {block}").shuffle(requests)
            for request in requests:
                round_ = measure(server, request, hang_after_s=self._matrix.hang_after_s)
                steps, drafted = timed(round_, block, baseline=config == PLAIN)
                self._steps += [each for each in steps if _is_meant(config, each.tokens)]
                self._drafted += drafted
                if round_.telemetry is not None and round_.telemetry.unread:
                    self._heard(round_.telemetry.unread)
            self._engine = self._engine or server.describe()
        finally:
            server.stop()

    def _written(self, server: Server) -> tuple[int, ...]:
        """The warm-up's prompt and what the model writes after it: all drafts are of its own words."""
        prompt = server.client.tokenize(self._matrix.warmup, parse_special=False, add_special=True)
        request = _request(prompt, _TEXT_TOKENS, ignore_eos=True)
        result = server.client.completion(request)
        server.logs.take()
        server.counted = server.metrics()
        return (*prompt, *result.tokens)

    def _requests(self, config: str) -> list[CompletionRequest]:
        """One of each that a server of this config is sent; all of them are shorter than the text."""
        text = self._text
        half = text[: len(text) - 2 * TABLE_DRAFT]
        if config == PLAIN:
            return [_request(half, TABLE_DRAFT + 2, ignore_eos=True)] * 2
        if config == TABLE:  # a replay gives two tokens, so that one request has every other width
            return [_request(half, TABLE_DRAFT + more, ignore_eos=True) for more in (1, 2)]
        if config != SIMPLE:
            n_max = _n_max(config)
            tokens = _MTP_STEPS + n_max if self._synth else _MTP_STEPS * (n_max + 1)
            return [_request(half, tokens, ignore_eos=True)]
        forced = self._others(1)[0]
        prompt = (text[0], forced, *text[1:])
        return [
            _request(prompt, width + 1, logit_bias=[[forced, _FORCED]])
            for width in sorted(self._wanted.lookup)
            if width > TABLE_DRAFT + 1
        ]

    def _table(self) -> Path:
        """Write a table that drafts 8 tokens, the first of them wrong, after each 2-gram of the text."""
        wrong, text = self._others(TABLE_DRAFT), self._text
        chain = dict.fromkeys(itertools.pairwise(text), wrong[0])
        chain |= dict.fromkeys(((token, wrong[0]) for token in text), wrong[1])
        chain |= {(a, b): c for a, b, c in zip(wrong, wrong[1:], wrong[2:], strict=False)}
        rows = sorted((*key, token) for key, token in chain.items())
        key_a, key_b, third = (np.array(column, np.int32) for column in zip(*rows, strict=True))
        path = self._folder / "wrong.lcs"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, encode(Counts(key_a, key_b, third, np.full(len(rows), _COUNT, np.int64))))
        return path

    def _others(self, n: int) -> list[int]:
        """Tokens that are not in the text, from the middle of the vocabulary on."""
        n_vocab = self._model.facts.n_vocab
        free = (token % n_vocab for token in range(n_vocab // 2, n_vocab // 2 + n_vocab))
        return list(itertools.islice((token for token in free if token not in self._text), n))

    def _heard(self, text: str) -> None:
        self._notes.append(text)


def _request(prompt: tuple[int, ...], n_predict: int, **extra: object) -> CompletionRequest:
    return CompletionRequest(prompt=prompt, n_predict=n_predict, temperature=0.0, seed=1, extra=extra)


def _n_max(config: str) -> int:
    return int(config.rpartition("-")[2])


def _is_meant(config: str, tokens: int) -> bool:
    """Whether steps of this width are what the config is for.

    What `ngram-simple` drafts after its first drafts is the forced token alone, again and again; an MTP draft
    that is cut short ends a request.
    """
    if config == SIMPLE:
        return tokens > TABLE_DRAFT + 1
    return not config.startswith(MTP) or tokens == _n_max(config) + 1
