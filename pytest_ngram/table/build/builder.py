"""Builds a table out of corpora, once, and keeps it by what it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from pytest_ngram.corpus import Corpora, Format, Message, OnBad, Selection, read_corpora
from pytest_ngram.errors import TableError
from pytest_ngram.files import remove_leftovers
from pytest_ngram.table import ID_LIMIT
from pytest_ngram.table.build.counted import Counted, count
from pytest_ngram.table.build.files import explained, locked, write_table
from pytest_ngram.table.build.manifest import (
    MANIFEST_VERSION,
    Manifest,
    TableParams,
    decode_manifest,
    encode_manifest,
    manifest_path,
    source_of,
)
from pytest_ngram.table.build.token_cache import TokenCache
from pytest_ngram.table.build.tokenizing import TokenizeMany
from pytest_ngram.table.build.tokens import OnProgress, Tokens
from pytest_ngram.table.format import encode, verify

# Raise it when the same corpus and parameters would give another table.
BUILDER_VERSION = 2
LOCK_TIMEOUT_S = 3600.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a table is to be made of.

    Args:
        paths: the corpora.
        kind: what they hold.
        selection: which of their messages count.
        params: what is kept of the counts.
        on_bad: whether rows that cannot be used stop the build.
    """

    paths: tuple[Path, ...]
    kind: Format = "jsonl"
    selection: Selection = field(default_factory=Selection)
    params: TableParams = field(default_factory=TableParams)
    on_bad: OnBad = "error"

    def read(self) -> Corpora:
        """Read the corpora. Raises `CorpusError`."""
        return read_corpora(self.paths, self.selection, on_bad=self.on_bad, kind=self.kind)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """How texts become ids.

    Args:
        tokenize: texts of single messages to ids: no BOM, no BOS, control tokens in the text left as text.
        vocab_sha256, n_vocab: of the model whose tokenizer that is; null where only the server has its file.
        cache: tokens of this vocabulary that are known, or None.
    """

    tokenize: TokenizeMany
    vocab_sha256: str | None
    n_vocab: int
    cache: TokenCache | None = None

    def tokens(self, messages: Sequence[Message], on_progress: OnProgress | None) -> Tokens:
        """Return the tokens of messages, made as they are asked for."""
        return Tokens(messages, self.tokenize, self.n_vocab, cache=self.cache, on_progress=on_progress)


@dataclass(frozen=True, slots=True)
class BuiltTable:
    """A table in the cache. `how`: `repaired` replaced a cached table that no longer had its bytes."""

    path: Path
    manifest: Manifest
    how: Literal["built", "reused", "repaired"]


def build_table(
    wanted: Wanted,
    tokenizer: Tokenizer,
    *,
    cache_dir: Path,
    on_progress: OnProgress | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
) -> BuiltTable:
    """Return the table of some corpora, from the cache or built; one process builds, others wait for it.

    Args:
        wanted: what to make it of.
        tokenizer: asked only if the table is not in the cache.
        cache_dir: made if it is not there. Gets `<key>.lcs`, `<key>.json` and `<key>.lock`.
        on_progress: called as the messages are tokenized.

    Raises:
        CorpusError: see `read_corpora`.
        TableError: nothing is left to write, an id is outside the vocabulary, or the folder cannot be used;
            then no part of the table is left there.
    """
    corpora = wanted.read()
    sources = [report.sha256 for report in corpora.reports]
    key = cache_key(tokenizer.vocab_sha256, sources, wanted.kind, wanted.selection, wanted.params)
    path = cache_dir / f"{key}.lcs"
    with explained(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
    with locked(cache_dir / f"{key}.lock", lock_timeout_s):
        manifest = _cached(path)
        if manifest is not None:
            return BuiltTable(path, manifest, "reused")
        how: Literal["built", "repaired"] = "repaired" if manifest_path(path).exists() else "built"
        data, manifest = make_table(corpora, wanted, tokenizer, on_progress=on_progress)
        with explained(cache_dir):
            remove_leftovers(cache_dir, path.stem)
            path.unlink(missing_ok=True)  # what is spoilt must not stay where the disk is full
            manifest_path(path).unlink(missing_ok=True)
        write_table(path, data, manifest_path(path), encode_manifest(manifest))
    return BuiltTable(path, manifest, how)


def cache_key(
    vocab_sha256: str | None,
    corpora_sha256: Sequence[str],
    kind: Format,
    selection: Selection,
    params: TableParams,
) -> str:
    """The name of a table: 32 hex digits of all that its bytes depend on. The files' order is not."""
    made_from = [
        BUILDER_VERSION, MANIFEST_VERSION, vocab_sha256, sorted(corpora_sha256), kind, selection, params,
    ]  # fmt: skip
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


def make_table(
    corpora: Corpora, wanted: Wanted, tokenizer: Tokenizer, *, on_progress: OnProgress | None = None
) -> tuple[bytes, Manifest]:
    """Return the bytes of a table and its manifest.

    Raises:
        TableError: nothing is left to write, or an id is outside the vocabulary.
    """
    require_countable(tokenizer.n_vocab)
    tokens = tokenizer.tokens(corpora.messages, on_progress)
    counted = count(tokens, wanted.params)
    if not counted.kept.pairs:
        raise _nothing_to_write(wanted, tokens, counted)
    data = encode(counted.kept)
    facts = verify(data, tokenizer.n_vocab)
    return data, Manifest(
        vocab_sha256=tokenizer.vocab_sha256,
        n_vocab=tokenizer.n_vocab,
        sources=tuple(map(source_of, corpora.reports)),
        kind=wanted.kind,
        selection=wanted.selection,
        params=wanted.params,
        messages=len(corpora.messages),
        tokens=tokens.progress.tokens,
        keys_before=counted.keys_before,
        pairs_before=counted.pairs_before,
        keys=facts.keys,
        pairs=facts.pairs,
        drafting_keys=counted.drafting_keys,
        lifted_keys=counted.lifted_keys,
        capped_keys=counted.capped_keys,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )


def require_countable(n_vocab: int) -> None:
    """Refuse, before anything is read, a vocabulary whose ids cannot all be counted. Raises `TableError`."""
    if n_vocab > ID_LIMIT:
        raise TableError(
            f"the model's vocabulary has {n_vocab} tokens, too many to count 2-grams of",
            checked=[f"allowed: up to {ID_LIMIT}, since three ids are counted as one number of 63 bits"],
            fix="take a model with a smaller vocabulary; no model that llama.cpp loads today has such a one",
        )


def _nothing_to_write(wanted: Wanted, tokens: Tokens, counted: Counted) -> TableError:
    params, done = wanted.params, tokens.progress
    names = ", ".join(path.name for path in wanted.paths)
    return TableError(
        f"no pair of the corpus {names} is left to write",
        checked=[
            f"{done.messages} messages, {done.tokens} tokens, {counted.keys_before} keys, "
            f"{counted.pairs_before} pairs",
            f"min_count {params.min_count}, min_share {params.min_share}, top_k {params.top_k}, "
            f"min_total {params.min_total}, min_top_share {params.min_top_share}",
        ],
        fix="take a larger corpus, or lower what it is pruned by",
    )
