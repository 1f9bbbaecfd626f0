"""`pytest-ngram table`: looks at static lookup tables, checks them, adds them up, prices them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_ngram.cli import pruning, table_build, table_price
from pytest_ngram.cli.arguments import Commands, cache_dir, path, server

if TYPE_CHECKING:
    from pytest_ngram.models.gguf_file import ModelFacts
    from pytest_ngram.table.build import LoadedTable, Manifest, TableInfo


def add(commands: Commands) -> None:
    """Add the group of commands."""
    table = commands.add_parser("table", help="build, check and price static lookup tables (-lcs)")
    parts = table.add_subparsers(title="commands", required=True, metavar="COMMAND")
    table_build.add(parts)
    _add_info(parts)
    _add_verify(parts)
    _add_merge(parts)
    table_price.add(parts)


def _add_info(parts: Commands) -> None:
    info = parts.add_parser(
        "info",
        help="describe a table and its manifest",
        description="Tells what is in a table, what llama.cpp drafts from, and what it costs in memory.",
    )
    info.add_argument("table", type=path, metavar="TABLE", help="llama.cpp's table file (-lcs)")
    server(info)
    cache_dir(info)
    info.set_defaults(run=_info)


def _add_verify(parts: Commands) -> None:
    verify = parts.add_parser(
        "verify",
        help="check a table, more strictly than llama.cpp's loader, or compare two models' vocabularies",
        description="With a table: its bytes, its manifest, and the vocabulary of each model named. With two "
        "models: whether their vocabularies are equal, as those of two quantisations of one model are.",
        epilog="Exit code: 0 all is well, 1 something is wrong, with the byte or the token where it is.",
    )
    verify.add_argument("table", type=path, nargs="?", metavar="TABLE", help="llama.cpp's table file (-lcs)")
    verify.add_argument(
        "--model", type=path, action="append", default=[], metavar="GGUF",
        help="whose vocabulary it must be of; may be given again",
    )  # fmt: skip
    verify.set_defaults(run=_verify)


def _add_merge(parts: Commands) -> None:
    merge = parts.add_parser(
        "merge",
        help="add up the counts of tables of one vocabulary",
        description="Writes the sum of tables, and a manifest with theirs in it. Of tables that were "
        "neither pruned nor capped it is the table that their corpora together would make.",
    )
    merge.add_argument("tables", type=path, nargs="+", metavar="TABLE", help="two tables or more")
    merge.add_argument("-o", "--output", type=path, required=True, metavar="FILE", help="the table to write")
    merge.add_argument(
        "--model", type=path, metavar="GGUF", help="whose vocabulary they are of, where a table does not tell"
    )
    merge.add_argument("--force", action="store_true", help="replace FILE even if it is no table built here")
    pruning.add(
        merge.add_argument_group("what is kept of the summed counts"), top_k="all of them", min_count="1"
    )
    merge.set_defaults(run=_merge)


def _info(arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.table.build import info

    found = info(arguments.table)
    yield f"{found.path}: {found.table.bytes} bytes, sha256 {found.table.sha256}"
    yield from _spread_lines(found)
    yield from table_price.predicted_lines(arguments, found.table.keys, found.table.pairs, (1, 2, 4))
    if found.manifest is None:
        yield "no manifest beside it: its vocabulary and corpus are unknown"
        return
    yield from _manifest_lines(found.manifest)
    yield f"the manifest {'fits' if found.manifest_fits else 'DOES NOT FIT'} these bytes"


def _spread_lines(found: TableInfo) -> Iterator[str]:
    facts, table, spread = found.facts, found.table, found.spread
    keys, drafting = table.keys - facts.dead_keys, found.drafting_keys
    one, two, three, more = (_share(n, keys) for n in spread.keys_by_pairs)
    once = _share(spread.pairs_seen_once, table.pairs)
    most, only = _share(spread.by_most, drafting), _share(spread.certain, drafting)
    yield f"{table.keys} keys, {table.pairs} pairs, {spread.ids} different ids up to {facts.max_token}"
    yield f"pairs of a key: 1 {one}, 2 {two}, 3 {three}, 4 or more {more}, at most {spread.most_pairs}"
    yield (
        f"counts: {spread.seen} in all, the largest {facts.max_count}, of a key {spread.median_seen:g} in "
        f"the median; {once} of the pairs were seen once"
    )
    yield (
        f"{drafting} keys draft by themselves ({_share(drafting, keys)}): of these {most} with a share of "
        f"80 % or more, {only} with only one continuation"
    )
    if facts.dead_keys:
        yield (
            f"{facts.dead_keys} records of {facts.dead_bytes} bytes are no 2-grams: "
            "llama.cpp never looks them up"
        )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "none"


def _manifest_lines(manifest: Manifest) -> Iterator[str]:
    vocabulary = f"{manifest.vocab_sha256[:16]}…" if manifest.vocab_sha256 else "unknown"
    yield f"vocabulary {vocabulary}, {manifest.n_vocab} tokens"
    yield f"corpus {manifest.names}: {manifest.messages} messages, {manifest.tokens} tokens"
    yield manifest.balance
    if manifest.parts:
        yield f"merged from {len(manifest.parts)} tables"
    kept = manifest.params
    yield (
        f"{manifest.keys_before} keys, {manifest.pairs_before} pairs before pruning by top_k {kept.top_k}, "
        f"min_count {kept.min_count}, min_total {kept.min_total}, min_share {kept.min_share:g}, "
        f"min_top_share {kept.min_top_share:g}, count_cap {kept.count_cap}"
    )
    if manifest.lifted_keys or manifest.capped_keys:
        yield f"{manifest.lifted_keys} keys draft only because of that; {manifest.capped_keys} were capped"


def _verify(arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.errors import OptionError
    from pytest_ngram.models.gguf_file import inspect

    models = [inspect(model) for model in arguments.model]
    if arguments.table is None and len(models) < 2:
        raise OptionError(
            "there is nothing to verify",
            checked=["no table is named", f"models: {len(models)}"],
            fix="name a table, or two models whose vocabularies are to be compared",
        )
    if arguments.table is not None:
        yield from _verify_table(arguments.table, models)
    for other in models[1:]:
        yield from _compare(models[0], other)


def _verify_table(table: Path, models: Sequence[ModelFacts]) -> Iterator[str]:
    from pytest_ngram.table.build import load_table

    if not models:
        loaded = load_table(table, None, None)
        yield _passed(loaded, ", as its manifest says" if loaded.manifest is not None else "")
        yield from loaded.notes
    for facts in models:
        loaded = load_table(table, facts.vocab_sha256, facts.n_vocab)
        yield _passed(loaded, f", fit for {facts.name}")
        yield from loaded.notes


def _passed(loaded: LoadedTable, what: str) -> str:
    return f"{loaded.path}: {loaded.table.keys} keys, {loaded.table.pairs} pairs{what}"


def _compare(one: ModelFacts, other: ModelFacts) -> Iterator[str]:
    from pytest_ngram.errors import ModelError
    from pytest_ngram.models.vocabulary import first_difference, tokenizer_differences

    hashes = [f"{facts.path}: {facts.n_vocab} tokens, sha256 {facts.vocab_sha256}" for facts in (one, other)]
    found = first_difference(one, other)
    if found is not None:
        raise ModelError(
            f"the vocabularies of {one.path.name} and {other.path.name} differ, first at token {found.at}",
            checked=[*hashes, f"token {found.at}: {_piece(found.one)} and {_piece(found.other)}"],
            fix="use a table only with models of the vocabulary that it was built for",
        )
    yield f"{one.path.name} and {other.path.name} have one vocabulary:"
    yield from hashes
    for difference in tokenizer_differences(one, other):
        yield f"but they may cut a text otherwise: {difference}"


def _piece(text: bytes | None) -> str:
    return "none" if text is None else repr(text.decode(errors="backslashreplace"))


def _merge(arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.errors import OptionError
    from pytest_ngram.models.gguf_file import inspect
    from pytest_ngram.table.build.merging import KEEP_ALL, merge_tables

    if len(arguments.tables) < 2:
        raise OptionError(
            "there is only one table to merge",
            checked=[str(arguments.tables[0])],
            fix="name two tables or more",
        )
    merged = merge_tables(
        arguments.tables,
        arguments.output,
        params=pruning.params(arguments, top_k=KEEP_ALL.top_k, min_count=KEEP_ALL.min_count),
        model=inspect(arguments.model) if arguments.model else None,
        force=arguments.force,
    )
    facts = merged.facts
    yield f"{merged.path}: {facts.keys} keys, {facts.pairs} pairs, {facts.size_bytes} bytes"
    if merged.capped_keys:
        yield f"{merged.capped_keys} keys were scaled down: the largest count is now {facts.max_count}"
    yield from merged.notes
