"""What stands beside a table: how it was made and how to tell that it is still the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pytest_ngram.corpus import CorpusReport, Format, Selection, added, balance
from pytest_ngram.corpus.report import BLANK, EMPTY, ROLE
from pytest_ngram.errors import CorpusError, TableError
from pytest_ngram.record import Table
from pytest_ngram.table import COUNT_LIMIT
from pytest_ngram.table.counts import COUNT_CAP

MANIFEST_VERSION = 2
_ONE_CORPUS = 1  # the version that knew one file, and of the filters roles alone


class TableParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to keep of the counts. Raises `TableError` for values that make no sense.

    Args:
        top_k: continuations of a key. By itself the static table drafts only a token with at least half of
            its key's counts, so at most two can matter there; the others keep that share honest (it is taken
            of what is kept) and weight the candidates of the context table. A key takes 52 bytes at most.
        min_count: 2, because llama.cpp drafts nothing from a key whose counts sum to 1, and of a key with two
            counts of 1 it drafts the one that a map's order puts first.
        min_share: of all that followed the key. 0, because dropping the tail raises the share of the top, and
            keys then draft that would not have (`Manifest.lifted_keys` counts them). 0.5 keeps only what
            would have drafted unpruned; candidates below that are then not weighted.
        min_total, min_top_share: of a key, before pruning: the sum of its counts, and the share of its most
            frequent continuation. 1 and 0 keep all keys; 10 and 0.8 keep those that seldom mislead.
        count_cap: the largest count to write: `table.counts.count_cap_for` derives it.
    """

    top_k: int = 4
    min_count: int = 2
    min_share: float = 0.0
    min_total: int = 1
    min_top_share: float = 0.0
    count_cap: int = COUNT_CAP

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is {value}; allowed: {low} to {high}"
            for name, value, low, high in [
                ("top_k", self.top_k, 1, COUNT_LIMIT),
                ("min_count", self.min_count, 1, COUNT_LIMIT),
                ("min_share", self.min_share, 0, 1),
                ("min_total", self.min_total, 1, COUNT_LIMIT),
                ("min_top_share", self.min_top_share, 0, 1),
                ("count_cap", self.count_cap, 1, COUNT_LIMIT),
            ]
            if not low <= value <= high
        ]
        if wrong:
            raise TableError(
                "a table cannot be built with these parameters", checked=wrong, fix="change them"
            )


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One file of a corpus: `rows` = `used` + those of `filtered` + those of `rejected`, each by reason.

    Args:
        name: without its folder. `sha256`, `size_bytes`: of its uncompressed bytes; null where an older
            manifest did not say.
    """

    name: str
    sha256: str
    size_bytes: int | None
    rows: int
    used: int
    filtered: dict[str, int] = {}
    rejected: dict[str, int] = {}

    @property
    def balance(self) -> str:
        """Where its rows went, in one line."""
        return balance(self.rows, self.used, self.filtered, self.rejected)


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The JSON beside a table.

    Args:
        vocab_sha256: null where the table was made through a server whose model file is not at hand.
        sources: the files that the table comes from, in the order given.
        kind: what they hold: `jsonl`, `text` or `paragraphs`.
        selection: which of their messages were counted.
        parts: of a merged table the manifests of what it was merged from, which tell kind, selection and
            pruning of each; `params`, and what was before and after, are then of the merge.
        messages, tokens: counted ones.
        pairs_before, keys_before: of the corpora, before pruning.
        drafting_keys: keys from which llama.cpp drafts by the table alone.
        lifted_keys: those of them that would not, had the table not been pruned and capped.
        capped_keys: keys whose counts were scaled down because the largest was above `params.count_cap`.
        sha256, size_bytes: of the table.
    """

    version: int = MANIFEST_VERSION
    vocab_sha256: str | None
    n_vocab: int
    sources: tuple[Source, ...]
    kind: Format = "jsonl"
    selection: Selection = Selection()
    parts: tuple[Manifest, ...] = ()
    params: TableParams
    messages: int
    tokens: int
    keys_before: int
    pairs_before: int
    keys: int
    pairs: int
    drafting_keys: int
    lifted_keys: int
    capped_keys: int
    sha256: str
    size_bytes: int

    @property
    def names(self) -> str:
        """The files' names, for a message."""
        return ", ".join(source.name for source in self.sources)

    @property
    def rejected(self) -> dict[str, int]:
        """Rows of all files that could not be used, by reason."""
        return added(source.rejected for source in self.sources)

    @property
    def balance(self) -> str:
        """Where the rows of all files went, in one line."""
        rows, used = (sum(getattr(source, name) for source in self.sources) for name in ("rows", "used"))
        return balance(rows, used, added(source.filtered for source in self.sources), self.rejected)


def source_of(report: CorpusReport) -> Source:
    """Return what a manifest says of a file that was read."""
    return Source(
        name=report.name,
        sha256=report.sha256,
        size_bytes=report.size_bytes,
        rows=report.rows,
        used=report.used,
        filtered=dict(report.filtered),
        rejected={reason: skipped.count for reason, skipped in report.rejected.items()},
    )


def manifest_path(table: Path) -> Path:
    """Where the manifest of a table is: `x.lcs` has `x.json` beside it."""
    return table.with_suffix(".json")


def encode_manifest(manifest: Manifest) -> bytes:
    """Indented JSON with a line end."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def decode_manifest(data: bytes, name: str) -> Manifest:
    """Read a manifest strictly; one of version 1 is told in the words of today.

    Raises:
        TableError: with the path of what is wrong, or the version that this one cannot read.
    """
    fix = f"build the table again, or move {name} away if it is no manifest of a table"
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version == _ONE_CORPUS:
            return _of_one_corpus(msgspec.json.decode(data))
        if version == MANIFEST_VERSION:
            return msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, CorpusError) as error:
        raise TableError(f"{name} is no manifest of a table", checked=[str(error)], fix=fix) from error
    checked = [f"version {version}; this pytest-ngram reads {_ONE_CORPUS} and {MANIFEST_VERSION}"]
    raise TableError(f"{name} is a manifest of another version", checked=checked, fix=fix)


class _Version(msgspec.Struct):
    version: int


class _LinesOfOneCorpus(msgspec.Struct):
    """How version 1 told of its corpus."""

    corpus_name: str
    corpus_sha256: str
    messages: int
    empty: int
    blank: int
    other_roles: int
    skipped: dict[str, int]


def _of_one_corpus(fields: dict[str, Any]) -> Manifest:
    """Return a manifest of version 1 as one of today. Raises `msgspec.ValidationError`."""
    old = msgspec.convert(fields, type=_LinesOfOneCorpus)
    left = {EMPTY: old.empty, BLANK: old.blank, ROLE: old.other_roles}
    source = Source(
        name=old.corpus_name,
        sha256=old.corpus_sha256,
        size_bytes=None,
        rows=old.messages + sum(left.values()) + sum(old.skipped.values()),
        used=old.messages,
        filtered={reason: count for reason, count in left.items() if count},
        rejected=old.skipped,
    )
    kept = {name: value for name, value in fields.items() if name not in _LinesOfOneCorpus.__struct_fields__}
    params = dict(fields.get("params") or {})
    selection = {"roles": params.pop("roles", None)}
    return msgspec.convert(
        kept
        | {"version": MANIFEST_VERSION, "sources": [msgspec.to_builtins(source)], "selection": selection}
        | {"params": params, "messages": old.messages},
        type=Manifest,
    )


def table_record(manifest: Manifest) -> Table:
    """What the record of a cell says of its table."""
    return Table(manifest.sha256, manifest.keys, manifest.pairs, manifest.size_bytes)
