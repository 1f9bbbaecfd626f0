"""`pytest-ngram table price`: what a table costs in memory and time, before and after loading it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pytest_ngram.cli.arguments import Commands, at_least, cache_dir, path, server

if TYPE_CHECKING:
    from pytest_ngram.table.build.pricing import KnownLaw, Pricer
    from pytest_ngram.table.price import Price

_MIB = 2**20
_CONTEXT = 4096


def add(parts: Commands) -> None:
    """Add the command."""
    price = parts.add_parser(
        "price",
        help="tell what a table costs: predicted, then measured on a real server",
        description="Predicts the memory that a table takes from its keys and pairs, and then starts the "
        "engine with a small model, without and with the table, to measure it. The first time on an engine "
        "it is calibrated with two made tables; that is kept. A table that would not fit beside the model "
        "is refused before it is loaded.",
        epilog="Exit code: 0, or 1 where the table does not fit or the engine cannot be started.",
    )
    price.add_argument("table", type=path, metavar="TABLE", help="llama.cpp's table file (-lcs)")
    price.add_argument(
        "-np", "--np", type=at_least(1), default=1, metavar="N", help="slots of the server (default: 1)"
    )
    price.add_argument(
        "--model",
        type=path,
        metavar="GGUF",
        help="the model that has to fit beside it, of whose vocabulary it must be",
    )
    price.add_argument(
        "-c", "--ctx-size", type=at_least(1), default=_CONTEXT, metavar="N",
        help=f"context of that model, in tokens (default: {_CONTEXT})",
    )  # fmt: skip
    server(price)
    cache_dir(price)
    price.add_argument("--no-start", action="store_true", help="predict only, start no server")
    price.add_argument("--recalibrate", action="store_true", help="measure the engine again")
    price.add_argument("--force", action="store_true", help="load the table although memory is short")
    price.set_defaults(run=_price)


def predicted_lines(
    arguments: argparse.Namespace, keys: int, pairs: int, slots: Sequence[int]
) -> Iterator[str]:
    """Say what a table would cost with so many slots, by what is known of the engine; starts nothing."""
    from pytest_ngram.errors import EngineError
    from pytest_ngram.table.build.pricing import UNCALIBRATED

    try:
        known = _pricer(arguments).known()
    except EngineError as error:
        if arguments.llama_server:
            raise
        _say(f"the engine cannot be asked: {error.cause}")
        known = UNCALIBRATED
    prices = (f"{known.law.price(keys, pairs, n).anon_bytes / _MIB:.0f} MiB at -np {n}" for n in slots)
    yield f"memory when loaded: about {', '.join(prices)}"
    yield f"  ({known.source})"


def _price(arguments: argparse.Namespace) -> Iterator[str]:
    from pytest_ngram.table.build import info

    found = info(arguments.table)
    keys, pairs = found.table.keys, found.table.pairs
    yield f"{found.path}: {keys} keys, {pairs} pairs, {found.table.bytes} bytes"
    pricer = _pricer(arguments)
    calibrate = partial(pricer.calibrate, again=arguments.recalibrate, say=_say)
    known = pricer.known() if arguments.no_start else calibrate()
    yield from _law_lines(known)
    predicted = known.law.price(keys, pairs, arguments.np)
    yield f"predicted for -np {arguments.np}: {_told(predicted)}"
    yield from _fits(arguments, keys, pairs, known)
    if not arguments.no_start:
        measured = pricer.measure(arguments.table, arguments.np, say=_say)
        yield f"measured  for -np {arguments.np}: {_told(measured)}"
        error = predicted.anon_bytes / measured.anon_bytes - 1 if measured.anon_bytes > 0 else None
        yield (
            "the prediction cannot be judged: no memory was seen to be taken"
            if error is None
            else (f"the prediction is {100 * abs(error):.1f} % too {'high' if error > 0 else 'low'}")
        )


def _law_lines(known: KnownLaw) -> Iterator[str]:
    anon = known.law.anon
    yield f"a slot takes {anon.per_key:.0f} bytes a key and {anon.per_pair:.0f} a pair: {known.source}"


def _fits(arguments: argparse.Namespace, keys: int, pairs: int, known: KnownLaw) -> Iterator[str]:
    """Refuse a table that is too large for this host; say what there is otherwise."""
    from pytest_ngram.engine.preflight import check_memory
    from pytest_ngram.measure.host import available_bytes
    from pytest_ngram.models.gguf_file import inspect
    from pytest_ngram.models.memory import anonymous_need_bytes
    from pytest_ngram.table.build import load_table
    from pytest_ngram.table.build.needs import need_of

    model_bytes = own_bytes = 0
    if arguments.model is not None:
        facts = inspect(arguments.model)
        yield from load_table(arguments.table, facts.vocab_sha256, facts.n_vocab).notes
        model_bytes = facts.size_bytes
        own_bytes = anonymous_need_bytes(facts, arguments.ctx_size, mmap=True)
        sizes = f"file {model_bytes / _MIB:.0f} MiB, caches at least {own_bytes / _MIB:.0f} MiB"
        yield f"model: {sizes} at -c {arguments.ctx_size}"
    free_bytes = available_bytes()
    warning = check_memory(
        model_bytes,
        own_bytes,
        free_bytes,
        table=need_of(arguments.table, keys, pairs, arguments.np, known),
        force=arguments.force,
        override="--force",
    )
    yield warning or f"available: {free_bytes / _MIB:.0f} MiB, so it fits"


def _pricer(arguments: argparse.Namespace) -> Pricer:
    from pytest_ngram.engine.factory import Factory
    from pytest_ngram.engine.select import choose
    from pytest_ngram.options import SERVER_VARIABLE, cache_folder
    from pytest_ngram.table.build.pricing import Pricer

    cache = cache_folder(arguments.cache_dir)
    named = arguments.llama_server or os.environ.get(SERVER_VARIABLE)
    factory = Factory(choose(named), cache_dir=cache, warn=_say)
    return Pricer(factory, cache, warn=_say)


def _told(price: Price) -> str:
    return (
        f"{price.anon_bytes / _MIB:.1f} MiB of memory ({price.peak_bytes / _MIB:.1f} MiB at most), "
        f"{price.load_s:.1f} s longer to load"
    )


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
