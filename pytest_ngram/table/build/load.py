"""Ready tables: checked before an engine gets them, and described."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from pytest_ngram.errors import TableError
from pytest_ngram.record import Table
from pytest_ngram.table import ID_LIMIT, Counts
from pytest_ngram.table.build.manifest import Manifest, decode_manifest, manifest_path
from pytest_ngram.table.build.spread import Spread, spread_of
from pytest_ngram.table.counts import CONTEXT_TOKENS, drafting_keys
from pytest_ngram.table.format import DeadWeight, TableFacts, decode, verify


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table that may be given to an engine. `notes`: what could not be checked or may surprise."""

    path: Path
    table: Table
    facts: TableFacts
    manifest: Manifest | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What can be said of a table without a model.

    Args:
        drafting_keys: keys from which llama.cpp drafts by the table alone.
        spread: of its 2-grams.
        manifest: null where none is beside the table.
        manifest_fits: whether the manifest is of these very bytes; null without a manifest.
    """

    path: Path
    table: Table
    facts: TableFacts
    drafting_keys: int
    spread: Spread
    manifest: Manifest | None
    manifest_fits: bool | None


def load_table(path: Path, vocab_sha256: str | None, n_vocab: int | None) -> LoadedTable:
    """Check a ready table against the model that will use it.

    Args:
        path: the table; its manifest is looked for beside it (`manifest_path`).
        vocab_sha256, n_vocab: of the model; None for a check by the manifest alone.

    Raises:
        TableError: the table is missing or corrupt, has ids outside the vocabulary, is not the one of its
            manifest, or was built for another vocabulary; or the manifest cannot be read.
    """
    data = _read(path)
    manifest = _manifest_of(path)
    if n_vocab is None and manifest is not None:
        n_vocab = manifest.n_vocab
    facts = verify(data, n_vocab)
    sha256 = hashlib.sha256(data).hexdigest()
    if manifest is not None:
        _check_manifest(path, manifest, sha256, vocab_sha256)
    table = Table(sha256, facts.keys, facts.pairs, facts.size_bytes)
    return LoadedTable(path, table, facts, manifest, tuple(_notes(path, facts, manifest, n_vocab)))


def info(path: Path) -> TableInfo:
    """Describe a table, records that are no 2-grams included. Raises `TableError` if missing or corrupt."""
    data = _read(path)
    facts = verify(data, None, dead_weight="count")
    sha256 = hashlib.sha256(data).hexdigest()
    manifest = _manifest_of(path)
    counts = decode(data, dead_weight="count")
    return TableInfo(
        path=path,
        table=Table(sha256, facts.keys, facts.pairs, facts.size_bytes),
        facts=facts,
        drafting_keys=len(drafting_keys(counts)),
        spread=spread_of(counts),
        manifest=manifest,
        manifest_fits=None if manifest is None else manifest.sha256 == sha256,
    )


def read_counts(path: Path, *, dead_weight: DeadWeight = "error") -> Counts:
    """Read a table's counts. Raises `TableError` if it is missing or corrupt."""
    return decode(_read(path), dead_weight=dead_weight)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise TableError(
            f"the table {path.name} {'is not there' if missing else 'cannot be read'}",
            checked=[
                f"{path}: {error.strerror or error}",
                "llama.cpp's loader: aborts the whole server (SIGABRT)",
            ],
            fix="check the path, or build the table from a corpus",
        ) from error


def _manifest_of(path: Path) -> Manifest | None:
    beside = manifest_path(path)
    try:
        data = beside.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        checked = [f"{beside}: {error.strerror or error}"]
        fix = "check who may read it, or move it away"
        raise TableError(f"the manifest {beside.name} cannot be read", checked=checked, fix=fix) from error
    return decode_manifest(data, beside.name)


def _check_manifest(path: Path, manifest: Manifest, sha256: str, vocab_sha256: str | None) -> None:
    if manifest.sha256 != sha256:
        raise TableError(
            f"the table {path.name} is not the one that its manifest describes",
            checked=[f"sha256 of the table: {sha256}", f"in {manifest_path(path).name}: {manifest.sha256}"],
            fix="copy both files again, or build the table again from its corpus",
        )
    if None not in (vocab_sha256, manifest.vocab_sha256) and manifest.vocab_sha256 != vocab_sha256:
        raise TableError(
            f"the table {path.name} was built for another vocabulary",
            checked=[
                f"the model's vocabulary: {vocab_sha256}",
                f"the table's: {manifest.vocab_sha256}, {manifest.n_vocab} tokens",
                "llama.cpp's loader: loads silently, and drafts are noise",
            ],
            fix="build the table with this model's tokenizer",
        )


def _notes(path: Path, facts: TableFacts, manifest: Manifest | None, n_vocab: int | None) -> list[str]:
    notes = []
    if manifest is None or manifest.vocab_sha256 is None:
        lacks = "has no manifest" if manifest is None else "was built with an unknown vocabulary, says"
        notes.append(
            f"{path.name} {lacks} {manifest_path(path).name}: its vocabulary could not be checked, "
            f"only that its ids, up to {facts.max_token}, are below {n_vocab or ID_LIMIT}"
        )
    if facts.safe_repeats < CONTEXT_TOKENS:
        notes.append(
            f"{path.name} has counts up to {facts.max_count}: llama.cpp's int32 products overflow once a "
            f"slot has learned one continuation more than {facts.safe_repeats} times; cap the counts"
        )
    return notes
