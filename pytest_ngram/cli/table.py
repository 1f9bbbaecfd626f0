"""`pytest-ngram table`: looks at static lookup tables."""

from __future__ import annotations

import argparse

from pytest_ngram.cli.arguments import Commands, path


def add(commands: Commands) -> None:
    """Add the group of commands."""
    table = commands.add_parser("table", help="build, check and price static lookup tables (-lcs)")
    parts = table.add_subparsers(title="commands", required=True, metavar="COMMAND")
    info = parts.add_parser("info", help="describe a table and its manifest")
    info.add_argument("table", type=path, help="llama.cpp's table file (-lcs)")
    info.set_defaults(run=_info)
    verify = parts.add_parser("verify", help="check a table, more strictly than llama.cpp's loader")
    verify.add_argument("table", type=path, help="llama.cpp's table file (-lcs)")
    verify.add_argument("--model", type=path, required=True, help="the GGUF whose vocabulary it must be of")
    verify.set_defaults(run=_verify)


def _info(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.table.build import info

    found = info(arguments.table)
    lines = [
        f"{found.path}: {found.table.bytes} bytes, sha256 {found.table.sha256}",
        f"{found.table.keys} keys, {found.table.pairs} pairs, {found.drafting_keys} keys draft by themselves",
    ]
    if found.manifest is None:
        return [*lines, "no manifest beside it: its vocabulary and corpus are unknown"]
    manifest = found.manifest
    lines += [
        f"vocabulary {manifest.vocab_sha256[:16]}…, {manifest.n_vocab} tokens",
        f"corpus {manifest.corpus_name}: {manifest.messages} messages, {manifest.tokens} tokens",
        f"the manifest {'fits' if found.manifest_fits else 'DOES NOT FIT'} these bytes",
    ]
    return lines


def _verify(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.models.gguf_file import inspect
    from pytest_ngram.table.build import load_table

    facts = inspect(arguments.model)
    loaded = load_table(arguments.table, facts.vocab_sha256, facts.n_vocab)
    return [
        f"{loaded.path}: {loaded.table.keys} keys, {loaded.table.pairs} pairs, fit for {facts.name}",
        *loaded.notes,
    ]
