"""The parts that `perf/table.py` measures, in a process of their own where memory or the core counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np
import psutil

from pytest_ngram.engine import packaged, process
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.command import server_argv
from pytest_ngram.errors import EngineError, OptionError
from pytest_ngram.shipped import shipped
from pytest_ngram.table import Ids
from pytest_ngram.table.build.counted import count
from pytest_ngram.table.build.manifest import TableParams
from pytest_ngram.table.counts import count_bigrams
from pytest_ngram.table.format import decode, encode

T = TypeVar("T")

VOCABULARY = 49_152
MESSAGE_TOKENS = 200
MESSAGE_CHARS = 600  # makes messages of nearly 1 kB, as those of the demo corpus
NAME = "llama-lookup-create"


@dataclass(frozen=True)
class Corpus:
    """One text in two forms: a JSONL of messages, and plain text with an empty line between them."""

    jsonl: Path
    plain: Path
    messages: int
    size_bytes: int


@dataclass(frozen=True)
class Program:
    """A llama-lookup-create, with the folder of its libraries' links where it needs one."""

    path: Path
    libraries: Path | None

    def env(self) -> dict[str, str]:
        """Return the environment that it finds its libraries in."""
        return {**os.environ, **({} if self.libraries is None else {"LD_LIBRARY_PATH": str(self.libraries)})}

    def servers(self) -> dict[str, Path]:
        """Return the llama-server of the same build, if it is there."""
        server = self.path.with_name("llama-server")
        return {"llama-server of the same build": server} if server.is_file() else {}


@dataclass(frozen=True)
class Tokenized:
    """Where the tokens of the text are, how many, and how long the server took for them."""

    path: Path
    tokens: int
    wall_s: float


@dataclass(frozen=True)
class Ran:
    """A program from start to end: seconds on the clock, of the cores that it used, and that others used."""

    wall_s: float
    cpu_s: float
    others_s: float


@dataclass(frozen=True)
class Counting:
    """One counting of tokens: seconds of one core and in all, and what came out."""

    tokens: int
    cpu_s: float
    wall_s: float
    pairs_before: int
    pairs: int
    rss_mb: float


@dataclass(frozen=True)
class Created:
    """One run of llama-lookup-create: CPU seconds of two of its parts, the whole, and what came out."""

    hashing_s: float
    writing_s: float
    whole: Ran
    pairs: int


def write_corpus(folder: Path, size_bytes: int) -> Corpus:
    """Write the text: the demo corpus, then sources of the standard library until there is enough."""
    texts, size = [], 0
    for text in _texts():
        texts.append(text)
        size += len(text.encode())
        if size >= size_bytes:
            break
    rows = ({"v": 1, "session": "s", "seq": i, "role": "user", "content": t} for i, t in enumerate(texts))
    jsonl, plain = folder / "corpus.jsonl", folder / "corpus.txt"
    jsonl.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    plain.write_text("\n\n".join(texts), encoding="utf-8")
    return Corpus(jsonl, plain, len(texts), size)


def _texts() -> Iterator[str]:
    for line in shipped("corpus/demo.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)["content"]
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if "site-packages" not in path.parts:
            yield from _messages(path.read_text(encoding="utf-8", errors="ignore"))


def _messages(text: str) -> Iterator[str]:
    """Cut a text at empty lines into messages of `MESSAGE_CHARS` or a little more."""
    held: list[str] = []
    for paragraph in text.split("\n\n"):
        held.append(paragraph)
        if sum(map(len, held)) >= MESSAGE_CHARS:
            yield "\n\n".join(held)
            held = []
    if any(map(str.strip, held)):
        yield "\n\n".join(held)


def tokenized(model: Path, corpus: Corpus, folder: Path) -> Tokenized:
    """Tokenize the text with the embedded engine."""
    rows = corpus.jsonl.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(row)["content"] for row in rows]
    argv = server_argv(model, model_flags=["-t", "1"])
    with process.start(argv, log_path=folder / "server.log") as server, Client(server.url) as client:
        client.tokenize_many(texts[:100])
        begin_s = time.perf_counter()
        messages = client.tokenize_many(texts)
        wall_s = time.perf_counter() - begin_s
    path = folder / "tokens.npz"
    lengths = np.array([len(ids) for ids in messages])
    np.savez(path, ids=np.concatenate(messages), lengths=lengths)
    return Tokenized(path, int(lengths.sum()), wall_s)


def in_new_process(measure: Callable[..., T], *arguments: object) -> T:
    """Run a measurement in a process of its own, which has touched no memory before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def count_and_write(tokens: Path, folder: Path) -> Counting:
    """Count the 2-grams of the text on one core and write all of them, unsynced as the other does."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    with np.load(tokens) as saved:
        ids, lengths = saved["ids"], saved["lengths"]
    messages = np.split(ids, np.cumsum(lengths)[:-1])
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    counts = count_bigrams(messages)
    (folder / "counted.lcs").write_bytes(encode(counts))
    cpu_s, wall_s = time.process_time() - begin_cpu_s, time.perf_counter() - begin_s
    return Counting(len(ids), cpu_s, wall_s, counts.pairs, counts.pairs, _peak_rss_mb())


def scale(tokens: int) -> Counting:
    """Count synthetic text as `table build` does, and encode what is kept. Making the text is not counted."""
    text = _Zipf(tokens)
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    counted = count(text, TableParams())
    encode(counted.kept)
    cpu_s = time.process_time() - begin_cpu_s - text.cpu_s
    wall_s = time.perf_counter() - begin_s - text.wall_s
    return Counting(tokens, cpu_s, wall_s, counted.pairs_before, counted.kept.pairs, _peak_rss_mb())


class _Zipf:
    """Messages of tokens drawn by Zipf's law, each for itself: more different 2-grams than text has."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self.cpu_s = self.wall_s = 0.0

    def __iter__(self) -> Iterator[Ids]:
        rng = np.random.default_rng(1)
        weights = 1 / np.arange(1, VOCABULARY + 1)
        edges = np.cumsum(weights / weights.sum())
        for begin in range(0, self._tokens, 1 << 20):
            begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
            drawn = rng.random(min(1 << 20, self._tokens - begin))
            ids = np.searchsorted(edges, drawn).clip(max=VOCABULARY - 1).astype(np.int32)
            messages = np.split(ids, range(MESSAGE_TOKENS, len(ids), MESSAGE_TOKENS))
            self.cpu_s += time.process_time() - begin_cpu_s
            self.wall_s += time.perf_counter() - begin_s
            yield from messages


def _peak_rss_mb() -> float:
    # `ru_maxrss` of a new process begins with the memory of the one that started it
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def build(model: Path, corpus: Corpus, folder: Path, server: Path | None) -> Ran:
    """Run `pytest-ngram table build` with nothing in its cache."""
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        command: list[str | Path] = [sys.executable, "-m", "pytest_ngram.cli", "table", "build", corpus.jsonl]
        command += ["-o", f"{fresh}/built.lcs", "--model", model, "--cache-dir", f"{fresh}/cache"]
        command += [] if server is None else ["--llama-server", server]
        return run(command, os.environ, lambda line, running: None)


def run(
    command: Sequence[str | Path],
    env: Mapping[str, str],
    on_line: Callable[[str, psutil.Process], None],
) -> Ran:
    """Run a program, and hear of each line of its standard error. Raises `OptionError` if it fails."""
    begin_s, begin_busy_s, said = time.perf_counter(), _busy_s(), ""
    with subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as running:
        assert running.stderr is not None  # noqa: S101 - it is a pipe
        watched = psutil.Process(running.pid)
        for said in running.stderr:
            on_line(said, watched)
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise OptionError(
            f"{command[0]} failed with exit code {running.returncode}: {said.strip()}",
            checked=[" ".join(map(str, command))],
            fix="run it by hand, or leave it out",
        )
    cpu_s = usage.ru_utime + usage.ru_stime
    return Ran(time.perf_counter() - begin_s, cpu_s, max(_busy_s() - begin_busy_s - cpu_s, 0.0))


def _busy_s() -> float:
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


def find_program(given: Path | None, cache_dir: Path, name: str = NAME) -> Program | None:
    """Return the program that is given or installed; `OptionError` where the given one is not there."""
    path = given
    if path is None:
        try:
            path = packaged.server_path().with_name(name)
        except EngineError:
            return None
    if not path.is_file():
        raise OptionError(
            f"there is no {name} at {path}", fix=f"give its path with {name.replace('llama', '-')}"
        )
    return Program(path, packaged.library_folder(path, cache_dir))


def create(program: Program, model: Path, corpus: Corpus, folder: Path) -> Created:
    """Run llama-lookup-create on the text, and on one word: what that takes too is not for the text."""
    word = folder / "word.txt"
    word.write_text("word", encoding="utf-8")
    whole, tokenized_s, hashed_s = _stages(program, model, corpus.plain, folder / "created.lcs")
    of_word, _, word_hashed_s = _stages(program, model, word, folder / "word.lcs")
    writing_s = whole.cpu_s - hashed_s - (of_word.cpu_s - word_hashed_s)
    pairs = decode((folder / "created.lcs").read_bytes()).pairs
    return Created(hashed_s - tokenized_s, writing_s, whole, pairs)


def _stages(program: Program, model: Path, text: Path, table: Path) -> tuple[Ran, float, float]:
    """Return the whole run, and the CPU seconds at which it had tokenized and had hashed."""
    at = {"tokenization done": 0.0, "hashing done": 0.0}

    def on_line(line: str, running: psutil.Process) -> None:
        for stage in at:
            if stage in line:
                at[stage] = sum(running.cpu_times()[:2])

    # without --no-escape a \n that stands in the text would become a line end
    command: list[str | Path] = [program.path, "-m", model, "-f", text, "-lcs", table, "--no-escape"]
    whole = run([*command, "-t", "1"], program.env(), on_line)
    if not all(at.values()):
        raise OptionError(
            f"{program.path} does not say when it has tokenized and hashed",
            checked=[" ".join(map(str, command))],
            fix="use a build of llama.cpp that the documentation lists",
        )
    return whole, at["tokenization done"], at["hashing done"]
