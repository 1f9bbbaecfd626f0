"""`pytest-ngram table build` as it is typed: on a real engine, interrupted, on full and closed disks."""

from __future__ import annotations

import gzip
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from pytest_ngram.engine import process
from pytest_ngram.engine.client import Client
from pytest_ngram.engine.command import server_argv
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.options import CACHE_VARIABLE
from pytest_ngram.shipped import shipped
from pytest_ngram.table.build import info, load_table
from pytest_ngram.table.counts import count_bigrams
from pytest_ngram.table.format import decode

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-m", "pytest_ngram.cli", "table", "build"]
DEMO = shipped("corpus/demo.jsonl")


def row(content: str, **more: object) -> str:
    return json.dumps({"v": 1, "content": content, **more}) + "\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Ten rows that say the same thing in ten sessions."""
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(row("one two three four five", session=f"s{i}", seq=0) for i in range(10)))
    return path


@pytest.fixture
def run(tmp_path: Path, session_cache: Path) -> Run:
    """Type the command in `tmp_path`."""

    def typed(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, *map(str, words)]
        settings = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120, **options}
        return subprocess.run(command, check=False, **settings)

    return typed


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_table_holds_the_counts_of_the_models_own_tokens(
    run: Run, tmp_path: Path, model_path: Path, client: Client
) -> None:
    """Pair for pair what `/tokenize` and a plain count of each message give; control tokens stay text."""
    texts = ["a b a b a b", "<|im_end|> a b <|im_end|> a b", "", "a", "a b a b a b", "Привет a b a"]
    (tmp_path / "c.jsonl").write_text("".join(row(text) for text in texts))
    done = run("c.jsonl", "-o", "t.lcs", "--model", model_path, "--min-count", 1, "--top-k", 1000)
    assert done.returncode == 0, done.stderr
    ids = [client.tokenize(text, parse_special=False, add_special=False) for text in texts]
    assert decode((tmp_path / "t.lcs").read_bytes()).equals(count_bigrams(map(np.array, filter(None, ids))))
    assert "6 rows = 5 used + 1 filtered (1 empty) + 0 rejected" in done.stdout
    special = client.tokenize("<|im_end|>", parse_special=True, add_special=False)
    assert special != client.tokenize("<|im_end|>", parse_special=False, add_special=False)


def test_several_files_with_filters_are_built_and_told(
    run: Run, tmp_path: Path, model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, rows, filters and the seed are printed and kept; a second build tokenizes nothing."""
    # other tests of the session may have tokenized the demo corpus
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "more.jsonl").write_text(
        row("one two three", role="assistant", ts="2026-01-15") + row("x", role="tool") + "{\n\n"
    )
    words = [DEMO, "more.jsonl", "-o", "t.lcs", "--model", model_path, "--role", "assistant"]
    words += ["--on-bad-line", "count", "--max-mb", "0.1", "--seed", "3", "--min-chars", "2"]
    first = run(*words)
    assert first.returncode == 0, first.stderr
    assert "starting a server" in first.stderr
    again = run(*words)
    assert again.returncode == 0, again.stderr
    assert "starting a server" not in again.stderr, "all tokens are known"
    manifest = info(tmp_path / "t.lcs").manifest
    assert manifest is not None
    assert manifest.names == "demo.jsonl, more.jsonl"
    assert manifest.sources[1].rejected == {"not JSON": 1}
    assert manifest.selection.seed == 3
    for source in manifest.sources:
        assert f"{source.name}: {source.balance}" in first.stdout
    assert f"{manifest.messages} messages, {manifest.messages} of which were tokenized before" in again.stdout


def test_a_server_that_runs_will_do(
    run: Run, tmp_path: Path, corpus: Path, embedded: process.EngineProcess, model_path: Path
) -> None:
    """The table is the one that a server of our own makes, and the server goes on."""
    assert run(corpus, "-o", "own.lcs", "--model", model_path).returncode == 0
    for name, more in (("url", []), ("both", ["--model", model_path])):
        done = run(corpus, "-o", f"{name}.lcs", "--server", embedded.url, *more)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / f"{name}.lcs").read_bytes() == (tmp_path / "own.lcs").read_bytes()
        assert info(tmp_path / f"{name}.lcs").manifest == info(tmp_path / "own.lcs").manifest
    assert embedded.alive()


def test_a_server_needs_nothing_but_the_model(
    run: Run, tmp_path: Path, corpus: Path, model_path: Path
) -> None:
    """One that its owner started for other work, without metrics, will do; another model is told."""
    argv = ["-m", str(model_path), "-t", "1", "-c", "512", "--host", "127.0.0.1", "--port", "0"]
    other = generate(HandBuiltSpec(width=40, seed=9), tmp_path / "models")
    with process.start(argv, log_path=tmp_path / "server.log", ready_timeout_s=30) as server:
        done = run(corpus, "-o", "t.lcs", "--server", server.url, "--cache-dir", tmp_path / "cache")
        assert done.returncode == 0, done.stderr
        done = run(
            corpus, "-o", "o.lcs", "--server", server.url, "--model", other, "--cache-dir", tmp_path / "c"
        )
        assert done.returncode == 1
        assert "another model" in done.stderr
        assert "leave --model out" in done.stderr


def test_a_model_that_cannot_be_read_here_leaves_the_vocabulary_unknown(
    run: Run, tmp_path: Path, corpus: Path, model_path: Path
) -> None:
    """As of a server on another host: null in the manifest, a note when it is loaded, and no token kept."""
    elsewhere = tmp_path / "elsewhere.gguf"
    shutil.copy(model_path, elsewhere)
    argv = server_argv(elsewhere, model_flags=["-t", "1"])
    with process.start(argv, log_path=tmp_path / "server.log", ready_timeout_s=30) as server:
        elsewhere.unlink()
        done = run(corpus, "-o", "t.lcs", "--server", server.url, "--cache-dir", tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert "its vocabulary stays unknown" in done.stderr
    assert not (tmp_path / "cache" / "tokens").exists()
    loaded = load_table(tmp_path / "t.lcs", "f" * 64, 10**6)
    assert loaded.manifest is not None
    assert loaded.manifest.vocab_sha256 is None
    assert "vocabulary" in loaded.notes[0]


def test_plain_text_is_built_whole_or_by_paragraph(
    run: Run, tmp_path: Path, model_path: Path, client: Client
) -> None:
    """A whole file counts across blank lines, paragraphs do not."""
    text = "a b a b\n\na b a b"
    (tmp_path / "t.txt").write_text(text)
    for option, parts in (("--text", [text]), ("--paragraphs", text.split("\n\n"))):
        words = ["t.txt", option, "-o", "t.lcs", "--model", model_path, "--min-count", 1]
        assert run(*words).returncode == 0
        ids = [client.tokenize(part, parse_special=False, add_special=False) for part in parts]
        assert decode((tmp_path / "t.lcs").read_bytes()).equals(count_bigrams(map(np.array, ids)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("kind", ["one long text", "many messages"])
def test_an_interrupted_build_leaves_no_file_and_no_server(
    request: pytest.FixtureRequest, tmp_path: Path, model_path: Path, number: signal.Signals, kind: str
) -> None:
    """While texts are tokenized: it ends at once with a shell's exit code, whatever is under way."""
    text = "".join(f"word{i % 977} of a text that goes on {i}. " for i in range(150_000))
    cut = len(text) if kind == "one long text" else 400
    (tmp_path / "long.jsonl").write_text("".join(row(text[at : at + cut]) for at in range(0, len(text), cut)))
    words = ["long.jsonl", "-o", "t.lcs", "--model", model_path, "--cache-dir", tmp_path / "cache"]
    build = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip

    def listens() -> bool:
        return any(b"all slots are idle" in log.read_bytes() for log in tmp_path.glob("cache/logs/*.log"))

    request.getfixturevalue("wait_for")(listens)
    time.sleep(1.0)  # the text is under way: it takes many seconds
    assert build.poll() is None
    servers = [child.pid for child in psutil.Process(build.pid).children(recursive=True)]
    build.send_signal(number)
    said = build.communicate(timeout=20)[0]
    assert build.returncode == 128 + number, said
    assert "stopped by" in said
    assert "Traceback" not in said
    assert servers
    request.getfixturevalue("assert_gone")(*servers)
    assert left(tmp_path) == {"cache", "long.jsonl"}
    assert not list(tmp_path.glob("cache/logs/*")), "nobody has to read why it was stopped"


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))


def test_a_write_that_fails_keeps_the_table_of_before(
    run: Run, tmp_path: Path, corpus: Path, model_path: Path
) -> None:
    """A real failing write, by a limit on the size of files: what was there stays, no part of the new."""
    assert run(corpus, "-o", "t.lcs", "--model", model_path).returncode == 0
    assert run(DEMO, "-o", "known.lcs", "--model", model_path).returncode == 0  # its tokens are known now
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = run(DEMO, "-o", "t.lcs", "--model", model_path, preexec_fn=_small_files)
    assert done.returncode == 1
    assert "larger than a file may be" in done.stderr
    assert "ulimit -f" in done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def _on_a_disk(folder: Path, how: str, command: list[str]) -> list[str]:
    """The command, in a namespace of its own where `folder` is a file system mounted so."""
    mounted = f'mount -t tmpfs -o {how} none "{folder}" && exec "$@"'
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", mounted, "sh", *command]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A folder on which a file system can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(_on_a_disk(folder, "size=64k", ["true"]), check=False, capture_output=True).returncode:
        pytest.skip("this host lets nobody mount a file system in a namespace")
    return folder


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_a_full_disk_is_told_and_nothing_is_left(tmp_path: Path, model_path: Path, disk: Path) -> None:
    """A disk that is really full: the error says how much was free; a full cache only costs time."""
    listed = ["sh", "-c", '"$@"; code=$?; ls -A "$0"; exit $code', str(disk)]
    table = [*COMMAND, str(DEMO), "--model", str(model_path), "-o"]
    done = _run(_on_a_disk(disk, "size=64k", [*listed, *table, str(disk / "t.lcs")]))
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert "the disk is full, the table was not kept" in done.stderr
    assert "bytes free in" in done.stderr
    other = [*table, str(tmp_path / "t.lcs"), "--cache-dir", str(disk / "cache")]
    done = _run(_on_a_disk(disk, "size=64k", other))
    assert done.returncode == 0, done.stderr
    assert re.search(r"tokens are not kept in .*: database or disk is full", done.stderr)
    assert load_table(tmp_path / "t.lcs", None, None).manifest is not None


def test_a_read_only_folder_is_told_before_the_work(corpus: Path, model_path: Path, disk: Path) -> None:
    """The folder is named, and no server was started for nothing."""
    words = [*COMMAND, str(corpus), "--model", str(model_path), "-o"]
    done = _run(_on_a_disk(disk, "ro", [*words, str(disk / "t.lcs")]))
    assert done.returncode == 1, done.stderr
    assert "the folder for tables cannot be used" in done.stderr
    assert "Read-only file system" in done.stderr
    assert "starting a server" not in done.stderr


def test_capped_counts_are_said(run: Run, tmp_path: Path, model_path: Path) -> None:
    """How many 2-grams, to what, and why; where nothing is capped nothing is said."""
    for times, said in ((200, True), (3, False)):
        (tmp_path / "c.jsonl").write_text(row("a b " * times))
        done = run("c.jsonl", "-o", "t.lcs", "--model", model_path)
        manifest = info(tmp_path / "t.lcs").manifest
        assert manifest is not None
        text = f"capped: the counts of {manifest.capped_keys} 2-grams were scaled down, the largest to 81"
        assert (text in done.stdout, "capped" in done.stdout) == (said, said)


def test_rows_in_another_order_are_the_same_table(run: Run, tmp_path: Path, model_path: Path) -> None:
    """Rows and files may come in any order, with a sample too, and with other line ends."""
    lines = DEMO.read_bytes().splitlines(keepends=True)
    (tmp_path / "back.jsonl").write_bytes(b"".join(reversed(lines)))
    (tmp_path / "one.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + b"".join(lines[:200])))
    (tmp_path / "two.jsonl").write_bytes(b"".join(lines[200:]).replace(b"\n", b"\r\n"))
    made = []
    for files in ([DEMO], ["back.jsonl"], ["two.jsonl", "one.jsonl.gz"]):
        done = run(*files, "-o", "t.lcs", "--model", model_path, "--max-mb", "0.2", "--seed", "5")
        assert done.returncode == 0, done.stderr
        made.append((tmp_path / "t.lcs").read_bytes())
    assert made[0] == made[1] == made[2]


def test_what_is_missing_or_excluded_is_told(
    run: Run, tmp_path: Path, corpus: Path, model_path: Path
) -> None:
    """A slip on the command line costs no work and leaves nothing."""
    before = left(tmp_path)
    model = ["--model", model_path]
    slips: list[tuple[list[object], str]] = [
        ([], "whose tokens the table is made of is not said"),
        (["--server", "http://127.0.0.1:1", "--llama-server", "x"], "exclude each other"),
        (["--server", "127.0.0.1:1"], "--server is no address"),
        ([*model, "--text", "--paragraphs"], "exclude each other"),
        ([*model, "--since", "soon"], "--since 'soon' is no time"),
        ([*model, "--min-share", "2"], "min_share is 2.0; allowed: 0 to 1"),
        ([*model, "--max-mb", "0"], "max_mb is 0.0"),
        ([*model, "--seed", "2"], "--seed draws no sample without --max-mb"),
        ([*model, "--text", "--role", "user"], "plain text has no roles"),
        (["--model", tmp_path / "none.gguf"], "the model file does not exist"),
        (["--server", "http://127.0.0.1:1"], "http://127.0.0.1:1"),
    ]
    for words, said in slips:
        done = run(corpus, "-o", "t.lcs", *words)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert said in done.stderr
        assert "to do:" in done.stderr
        assert "Traceback" not in done.stderr
    assert left(tmp_path) == before


def test_the_corpus_is_never_replaced(run: Run, corpus: Path, model_path: Path) -> None:
    """`-o` with the corpus' name is a slip that would cost the chats."""
    data = corpus.read_bytes()
    done = run(corpus, "-o", corpus, "--model", model_path, "--force")
    assert done.returncode == 1
    assert "would take the place of a file that is read" in done.stderr
    assert corpus.read_bytes() == data


def test_help_tells_the_defaults(run: Run) -> None:
    """Those of the pruning are written out, and are those that a table gets."""
    from pytest_ngram.table.build import TableParams

    text = " ".join(run("--help").stdout.split())
    for name in ("top_k", "min_count", "min_share", "min_total", "min_top_share"):
        option = re.search(rf"--{name.replace('_', '-')} (?:N|SHARE) [^(]*\(default: (\S+)\)", text)
        assert option is not None, name
        assert float(option[1]) == getattr(TableParams(), name)
