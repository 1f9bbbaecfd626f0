"""`pytest-ngram table build`."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_ngram.cli import pruning
from pytest_ngram.cli.arguments import Commands, at_least, cache_dir, named, path, server

if TYPE_CHECKING:
    from pytest_ngram.cli.progress import Shown
    from pytest_ngram.engine.factory import Factory
    from pytest_ngram.table.build import Manifest, Tokenizer, Wanted
    from pytest_ngram.table.build.server import Vocabulary

_TERMINATED = 128 + signal.SIGTERM  # what a shell says of a program that SIGTERM ended


def add(parts: Commands) -> None:
    """Add the command to the group."""
    build = parts.add_parser(
        "build",
        help="build a table out of chats or plain text",
        description="Counts which token followed which two, inside each message, and writes llama.cpp's "
        "static lookup table (-lcs) with a manifest beside it. Every row of the corpora is accounted for. "
        "Tokens of messages are kept in the cache folder, so the next export costs only its new messages.",
    )
    build.add_argument(
        "corpora", metavar="CORPUS", type=path, nargs="+", help="JSONL, one message a line; plain or .gz"
    )
    build.add_argument("-o", "--output", metavar="FILE", type=path, required=True, help="the table to write")
    build.add_argument("--force", action="store_true", help="replace FILE even if it is no table built here")
    cache_dir(build)
    _add_engine(build.add_argument_group("whose tokens (--model or --server is needed)"))
    _add_messages(build.add_argument_group("which messages"))
    pruning.add(build.add_argument_group("what is kept of the counts"))
    build.set_defaults(run=_build)


def _add_engine(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", metavar="GGUF", type=path, help="the model that the table is for")
    group.add_argument("--server", metavar="URL", type=named, help="a llama-server that has it loaded")
    server(group)


def _add_messages(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--text", action="store_true", help="plain text: each file is one message")
    group.add_argument("--paragraphs", action="store_true", help="plain text: each paragraph is one message")
    group.add_argument("--role", metavar="ROLE", type=named, action="append", help="may be repeated")
    group.add_argument("--session", metavar="ID", type=named, action="append", help="may be repeated")
    group.add_argument(
        "--since", metavar="TIME", help="from this date or time on (UTC where it says nothing)"
    )
    group.add_argument("--until", metavar="TIME", help="up to this date or time, which is not included")
    group.add_argument(
        "--min-chars", metavar="N", type=at_least(1), default=1, help="leave shorter messages out"
    )
    group.add_argument(
        "--max-mb", metavar="MB", type=float, help="a sample of so many MB of text, drawn by --seed"
    )
    group.add_argument(
        "--seed", metavar="N", type=int, help="another number draws another sample (default: 1)"
    )
    group.add_argument(
        "--on-bad-line",
        choices=("error", "count"),
        default="error",
        help="rows that cannot be used stop the build, or are counted and left out (default: error)",
    )


def _build(arguments: argparse.Namespace) -> list[str]:
    from pytest_ngram.cli.progress import Shown
    from pytest_ngram.engine.factory import Factory
    from pytest_ngram.engine.select import choose
    from pytest_ngram.options import cache_folder
    from pytest_ngram.table.build.builder import make_table, require_countable
    from pytest_ngram.table.build.files import write_table
    from pytest_ngram.table.build.manifest import encode_manifest, manifest_path
    from pytest_ngram.table.build.output import check_output
    from pytest_ngram.table.build.server import vocabulary_of

    choice = choose(_engine(arguments))
    wanted = _wanted(arguments)
    output: Path = arguments.output
    check_output(output, [*arguments.corpora, *filter(None, [arguments.model])], force=arguments.force)
    cache = cache_folder(arguments.cache_dir)
    with _ended_by_sigterm(), Shown() as shown:
        factory = Factory(choice, cache_dir=cache, warn=shown.say)
        vocabulary = vocabulary_of(arguments.model, factory)
        require_countable(vocabulary.n_vocab)
        corpora = wanted.read()
        with _tokenizer(vocabulary, factory, cache, shown) as tokenizer:
            data, manifest = make_table(corpora, wanted, tokenizer, on_progress=shown)
        write_table(output, data, manifest_path(output), encode_manifest(manifest))
    known = shown.newest.known if shown.newest is not None else 0
    return _said(output, manifest, known)


def _engine(arguments: argparse.Namespace) -> str | None:
    """Return what stands for the engine, as `choose` takes it. Raises `OptionError`."""
    from pytest_ngram.errors import OptionError
    from pytest_ngram.options import SERVER_VARIABLE

    if arguments.model is None and arguments.server is None:
        raise OptionError(
            "whose tokens the table is made of is not said",
            checked=["--model and --server"],
            fix="name the GGUF file that the table is for with --model, or a server that runs with --server",
        )
    if arguments.server is not None and arguments.llama_server is not None:
        raise OptionError(
            "--server and --llama-server exclude each other",
            checked=[f"--server {arguments.server}", f"--llama-server {arguments.llama_server}"],
            fix="leave one out: a server that runs is not started",
        )
    if arguments.server is not None and "://" not in arguments.server:
        raise OptionError(
            "--server is no address",
            checked=[f"--server {arguments.server}"],
            fix="write http://HOST:PORT; a program is named with --llama-server",
        )
    return arguments.server or arguments.llama_server or os.environ.get(SERVER_VARIABLE)


def _wanted(arguments: argparse.Namespace) -> Wanted:
    """Return what the table is to be made of. Raises `CorpusError`, `TableError`, `OptionError`."""
    from pytest_ngram.corpus import Selection, parse_time
    from pytest_ngram.errors import OptionError
    from pytest_ngram.table.build import Wanted

    if arguments.text and arguments.paragraphs:
        raise OptionError("--text and --paragraphs exclude each other", fix="leave one out")
    if arguments.seed is not None and arguments.max_mb is None:
        raise OptionError(
            "--seed draws no sample without --max-mb", fix="add --max-mb, or leave the seed out"
        )
    roles, sessions = (
        tuple(sorted(set(given))) if given else None for given in (arguments.role, arguments.session)
    )
    return Wanted(
        paths=tuple(arguments.corpora),
        kind="text" if arguments.text else "paragraphs" if arguments.paragraphs else "jsonl",
        selection=Selection(
            roles=roles,
            sessions=sessions,
            since=parse_time(arguments.since, "--since") if arguments.since is not None else None,
            until=parse_time(arguments.until, "--until") if arguments.until is not None else None,
            min_chars=arguments.min_chars,
            max_mb=arguments.max_mb,
            seed=1 if arguments.seed is None else arguments.seed,
        ),
        params=pruning.params(arguments),
        on_bad=arguments.on_bad_line,
    )


@contextlib.contextmanager
def _tokenizer(vocabulary: Vocabulary, factory: Factory, cache: Path, shown: Shown) -> Iterator[Tokenizer]:
    from pytest_ngram.measure.remembered import engine_key
    from pytest_ngram.table.build import Tokenizer
    from pytest_ngram.table.build.lazy import LazyTokenizer
    from pytest_ngram.table.build.server import tokenizing_server
    from pytest_ngram.table.build.token_cache import token_cache

    log_path = cache / "logs" / f"table-build-{os.getpid()}.log"
    with contextlib.ExitStack() as stack, _log_of_a_failure(log_path):
        tokenize = stack.enter_context(
            LazyTokenizer(lambda: tokenizing_server(vocabulary, factory, log_path=log_path, say=shown.say))
        )
        known = None
        if vocabulary.facts is None:
            shown.say(
                "the model's file is not on this host: its vocabulary stays unknown, and no tokens are kept"
            )
        else:
            known = stack.enter_context(token_cache(cache, vocabulary.facts, engine_key(factory, cache)))
        yield Tokenizer(tokenize, vocabulary.sha256, vocabulary.n_vocab, known)
        if known is not None and known.trouble is not None:
            shown.say(known.trouble)


@contextlib.contextmanager
def _log_of_a_failure(path: Path) -> Iterator[None]:
    """Keep the server's log only where an error of the engine names it: each stop would leave one more."""
    from pytest_ngram.errors import EngineError

    try:
        yield
    except EngineError:
        raise
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the body as Ctrl-C does: what was begun is cleared away, and the server is ended."""

    def end(number: int, frame: object) -> None:
        sys.stderr.write("stopped by SIGTERM\n")
        raise SystemExit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _said(output: Path, manifest: Manifest, known: int) -> list[str]:
    from pytest_ngram.table.build import manifest_path

    params = manifest.params
    lines = [
        *(
            [f"{source.name}: {source.balance}" for source in manifest.sources]
            if len(manifest.sources) > 1
            else []
        ),
        f"corpus {manifest.names}: {manifest.balance}",
        f"tokens: {manifest.tokens} in {manifest.messages} messages, {known} of which were tokenized before",
        f"counted: {manifest.keys_before} 2-grams with {manifest.pairs_before} continuations",
        f"{output}: {manifest.keys} 2-grams with {manifest.pairs} continuations, "
        f"{manifest.size_bytes} bytes; {manifest.drafting_keys} draft by themselves",
    ]
    if manifest.capped_keys:
        lines.append(
            f"capped: the counts of {manifest.capped_keys} 2-grams were scaled down, the largest to "
            f"{params.count_cap}: llama.cpp multiplies them in 32 bits, and larger ones could overflow"
        )
    return [*lines, f"{manifest_path(output)}: the manifest"]
