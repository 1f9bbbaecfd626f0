"""What stands beside a table: how it was made and how to tell that it is still the same."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pytest_ngram.errors import TableError
from pytest_ngram.record import Table
from pytest_ngram.table import COUNT_LIMIT
from pytest_ngram.table.counts import COUNT_CAP

MANIFEST_VERSION = 1


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
        roles: whose messages are counted; null is all, since answers quote questions and tool results.
        count_cap: the largest count to write: `table.counts.count_cap_for` derives it.
    """

    top_k: int = 4
    min_count: int = 2
    min_share: float = 0.0
    min_total: int = 1
    min_top_share: float = 0.0
    roles: tuple[str, ...] | None = None
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
        if self.roles is not None and not self.roles:
            wrong.append("roles is an empty list; allowed: null (all roles) or at least one")
        if wrong:
            raise TableError(
                "a table cannot be built with these parameters", checked=wrong, fix="change them"
            )


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The JSON beside a table.

    Args:
        corpus_name: the file's name without its folder. `corpus_sha256`: of its uncompressed bytes.
        messages, tokens: counted ones. `empty`, `blank`, `other_roles`, `skipped`: lines left out, and why.
        pairs_before, keys_before: of the corpus, before pruning.
        drafting_keys: keys from which llama.cpp drafts by the table alone.
        lifted_keys: those of them that would not, had the table not been pruned and capped.
        capped_keys: keys whose counts were scaled down because the largest was above `params.count_cap`.
        sha256, size_bytes: of the table.
    """

    version: int = MANIFEST_VERSION
    vocab_sha256: str
    n_vocab: int
    corpus_name: str
    corpus_sha256: str
    params: TableParams
    messages: int
    tokens: int
    empty: int
    blank: int
    other_roles: int
    skipped: dict[str, int]
    keys_before: int
    pairs_before: int
    keys: int
    pairs: int
    drafting_keys: int
    lifted_keys: int
    capped_keys: int
    sha256: str
    size_bytes: int


def manifest_path(table: Path) -> Path:
    """Where the manifest of a table is: `x.lcs` has `x.json` beside it."""
    return table.with_suffix(".json")


def encode_manifest(manifest: Manifest) -> bytes:
    """Indented JSON with a line end."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def decode_manifest(data: bytes, name: str) -> Manifest:
    """Read a manifest strictly. Raises `TableError` with the path of what is wrong."""
    fix = f"build the table again, or move {name} away if it is no manifest of a table"
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise TableError(f"{name} is no manifest of a table", checked=[str(error)], fix=fix) from error
    if manifest.version != MANIFEST_VERSION:
        checked = [f"version {manifest.version}; this pytest-ngram reads {MANIFEST_VERSION}"]
        raise TableError(f"{name} is a manifest of another version", checked=checked, fix=fix)
    return manifest


def table_record(manifest: Manifest) -> Table:
    """What the record of a cell says of its table."""
    return Table(manifest.sha256, manifest.keys, manifest.pairs, manifest.size_bytes)
