"""Builds a table out of a corpus, once, and keeps it by what it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from pytest_ngram.corpus import Corpus, Message, OnBad, read_corpus
from pytest_ngram.errors import TableError
from pytest_ngram.files import remove_leftovers, write_whole
from pytest_ngram.table import Counts
from pytest_ngram.table.build.files import explained, locked
from pytest_ngram.table.build.manifest import (
    MANIFEST_VERSION,
    Manifest,
    TableParams,
    decode_manifest,
    encode_manifest,
    manifest_path,
)
from pytest_ngram.table.counts import cap_counts, count_bigrams, drafting_keys, prune
from pytest_ngram.table.format import encode, verify

Tokenize = Callable[[str], list[int]]
OnProgress = Callable[[int, int], None]

# Raise it when the same corpus and parameters would give another table.
BUILDER_VERSION = 1
LOCK_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class BuiltTable:
    """A table in the cache. `how`: `repaired` replaced a cached table that no longer had its bytes."""

    path: Path
    manifest: Manifest
    how: Literal["built", "reused", "repaired"]


def build_table(
    corpus_path: Path,
    *,
    tokenize: Tokenize,
    vocab_sha256: str,
    n_vocab: int,
    cache_dir: Path,
    params: TableParams | None = None,
    on_bad: OnBad = "error",
    on_progress: OnProgress | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> BuiltTable:
    """Return the table of a corpus, from the cache or built; one process builds, others wait for it.

    Args:
        tokenize: text of one message to ids: no BOM, no BOS, control tokens in the text left as text. It is
            called once for each message, in order, and only if the table is not in the cache.
        vocab_sha256, n_vocab: of the model whose tokenizer that is.
        cache_dir: made if it is not there. Gets `<key>.lcs`, `<key>.json` and `<key>.lock`.
        on_progress: called with (messages tokenized, messages in all) after each message.

    Raises:
        CorpusError: see `read_corpus`.
        TableError: nothing is left to write, an id is outside the vocabulary, or the folder cannot be used;
            then no part of the table is left there.
    """
    params = params or TableParams()
    roles = None if params.roles is None else frozenset(params.roles)
    corpus = read_corpus(corpus_path, roles, on_bad=on_bad)
    key = cache_key(vocab_sha256, corpus.report.sha256, params)
    path = cache_dir / f"{key}.lcs"
    with explained(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
    with locked(cache_dir / f"{key}.lock", lock_timeout_s):
        manifest = _cached(path)
        if manifest is not None:
            return BuiltTable(path, manifest, "reused")
        how: Literal["built", "repaired"] = "repaired" if manifest_path(path).exists() else "built"
        tokens = _Tokens(corpus.messages, tokenize, n_vocab, on_progress)
        data, manifest = _make(corpus, tokens, vocab_sha256, params)
        _store(path, data, manifest)
    return BuiltTable(path, manifest, how)


def cache_key(vocab_sha256: str, corpus_sha256: str, params: TableParams) -> str:
    """The name of a table: 32 hex digits of all that its bytes depend on."""
    made_from = [BUILDER_VERSION, MANIFEST_VERSION, vocab_sha256, corpus_sha256, params]
    return hashlib.sha256(msgspec.json.encode(made_from)).hexdigest()[:32]


def _cached(path: Path) -> Manifest | None:
    """The manifest of a cached table that still has its bytes; None where it must be built."""
    with explained(path.parent):
        try:
            data = path.read_bytes()
            manifest = decode_manifest(manifest_path(path).read_bytes(), manifest_path(path).name)
        except (FileNotFoundError, TableError):
            return None
    return manifest if hashlib.sha256(data).hexdigest() == manifest.sha256 else None


def _store(path: Path, data: bytes, manifest: Manifest) -> None:
    """Write table, then manifest: a manifest in the cache vouches for a table that is whole."""
    beside = manifest_path(path)
    with explained(path.parent):
        remove_leftovers(path.parent, path.stem)
        beside.unlink(missing_ok=True)
        try:
            write_whole(path, data)
            write_whole(beside, encode_manifest(manifest))
        except BaseException:
            path.unlink(missing_ok=True)
            beside.unlink(missing_ok=True)
            raise


@dataclass(slots=True)
class _Tokens:
    """Tokenizes a corpus message by message, lazily, and counts the tokens."""

    messages: tuple[Message, ...]
    tokenize: Tokenize
    n_vocab: int
    on_progress: OnProgress | None
    tokens: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[list[int]]:
        for done, message in enumerate(self.messages, start=1):
            ids = self.tokenize(message.content)
            if ids and not 0 <= min(ids) <= max(ids) < self.n_vocab:
                raise TableError(
                    f"the tokenizer gave ids {min(ids)} to {max(ids)} in a vocabulary of {self.n_vocab}",
                    checked=[f"the message in line {message.line} of the corpus"],
                    fix="tokenize with the model that the table is for",
                )
            self.tokens += len(ids)
            if self.on_progress is not None:
                self.on_progress(done, len(self.messages))
            yield ids


def _make(corpus: Corpus, tokens: _Tokens, vocab_sha256: str, params: TableParams) -> tuple[bytes, Manifest]:
    counted = count_bigrams(tokens)
    pruned = prune(
        counted,
        top_k=params.top_k,
        min_count=params.min_count,
        min_share=params.min_share,
        min_total=params.min_total,
        min_top_share=params.min_top_share,
    )
    if not pruned.pairs:
        raise _nothing_to_write(corpus, tokens.tokens, counted, params)
    kept, capped_keys = cap_counts(pruned, params.count_cap)
    data = encode(kept)
    facts = verify(data, tokens.n_vocab)
    report = corpus.report
    drafting = drafting_keys(kept)
    return data, Manifest(
        vocab_sha256=vocab_sha256,
        n_vocab=tokens.n_vocab,
        corpus_name=report.name,
        corpus_sha256=report.sha256,
        params=params,
        messages=report.messages,
        tokens=tokens.tokens,
        empty=report.empty,
        blank=report.blank,
        other_roles=report.other_roles,
        skipped={reason: skipped.count for reason, skipped in report.skipped.items()},
        keys_before=counted.keys,
        pairs_before=counted.pairs,
        keys=facts.keys,
        pairs=facts.pairs,
        drafting_keys=len(drafting),
        lifted_keys=len(np.setdiff1d(drafting, drafting_keys(counted), assume_unique=True)),
        capped_keys=capped_keys,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )


def _nothing_to_write(corpus: Corpus, tokens: int, counted: Counts, params: TableParams) -> TableError:
    return TableError(
        f"no pair of the corpus {corpus.report.name} is left to write",
        checked=[
            f"{corpus.report.messages} messages, {tokens} tokens, {counted.keys} keys, {counted.pairs} pairs",
            f"min_count {params.min_count}, min_share {params.min_share}, top_k {params.top_k}, "
            f"min_total {params.min_total}, min_top_share {params.min_top_share}",
        ],
        fix="take a larger corpus, or lower what it is pruned by",
    )
