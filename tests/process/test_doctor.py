"""`pytest-ngram doctor` as a user types it: what each line says, and the exit code."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from pytest_ngram.engine.process import EngineProcess
from pytest_ngram.files import locked
from pytest_ngram.measure.alone import LOCK

PLAIN = Path(__file__).with_name("plain_server.py")
HELP = Path(__file__).parents[1] / "unit" / "engine" / "data" / "b10434.help.txt"
CPU = "sys/devices/system/cpu"
THREADS = sorted(os.sched_getaffinity(0))
MATRIX = """
version: 1
warmup: "the model"
models:
  tiny: {{{source}, flags: -c 4096 {flags}}}
configs:
  none: {{}}
  mtp1: {{types: [draft-mtp], flags: --spec-draft-n-max 1}}
prompt_sets:
  words: {{path: words.yaml}}
profiles:
  smoke: {{blocks: 1, n_predict: 8}}
"""
PROMPTS = """
set: words
system: ""
prompts:
  - {id: word-en, kind: en, messages: [{role: user, content: " model token"}]}
"""


class Told:
    """What a doctor printed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.text = done.stdout + done.stderr
        self.last = done.stdout.splitlines()[-1] if done.stdout else ""
        self.lines = re.findall(
            r"^(ok|warn|fail) +(.{12})  (.*)(?:\n {20}to do: (.*))?$", done.stdout, re.MULTILINE
        )

    def of(self, what: str) -> list[tuple[str, str]]:
        """Status and findings of the lines of a name."""
        return [(status, found) for status, name, found, _ in self.lines if name.strip() == what]

    def the(self, what: str) -> tuple[str, str]:
        """The one line of a name."""
        (line,) = self.of(what)
        return line


class Doctor:
    """A project, a host as recorded, and the command typed in the one about the other."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder, self.root = folder, root
        self.bench = folder / "bench"
        self.bench.mkdir(parents=True)
        (self.bench / "words.yaml").write_text(PROMPTS)
        (folder / "pytest.ini").write_text("[pytest]\n")
        self.matrix()

    def matrix(self, source: str = "generate: {target: 0.7}", flags: str = "-t 1") -> None:
        """Write the matrix."""
        (self.bench / "matrix.yaml").write_text(MATRIX.format(source=source, flags=flags))

    def host(self, **texts: str) -> None:
        """Write files of the host; of a name `__` stands for a slash and `_D_` for a dot."""
        for name, text in texts.items():
            path = self.root / name.replace("__", "/").replace("_D_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def __call__(self, *arguments: str, cwd: Path | None = None) -> Told:
        """Type it, with a deadline that a long measurement would pass."""
        command = [sys.executable, "-m", "pytest_ngram.cli", "doctor", "--root", str(self.root), *arguments]
        return Told(
            subprocess.run(
                command, cwd=cwd or self.folder, capture_output=True, text=True, check=False, timeout=60
            )
        )


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """A sound project with a tiny model, on a host where nothing waits."""
    found = Doctor(tmp_path / "project", tmp_path / "host")
    found.host(
        proc__pressure__cpu="some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        sys__devices__system__clocksource__clocksource0__current_clocksource="tsc\n",
    )
    for cpu in THREADS:
        found.host(**{f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{cpu}\n"})
    return found


def test_sound_project(doctor: Doctor) -> None:
    """Nothing fails: exit code 0, a line for each look, a last one that counts them; nothing is written.

    It has ended long before a first cell would, also where the tests beside it make the host busy.
    """
    begin_s = time.monotonic()
    told = doctor()
    assert time.monotonic() - begin_s < 30
    assert told.code == 0, told.text
    names = [name.strip() for _, name, _, _ in told.lines]
    assert names == [
        *(
            "engine",
            "capabilities",
            "server",
            "matrix",
            "model",
            "swap",
            "cores",
            "governor",
            "power",
            "pressure",
        ),
        *("busy", "clock", "cache", "results", "saved runs"),
    ]
    assert re.fullmatch(r"15 checks: \d+ ok, \d+ warn, 0 fail\. .*", told.last)
    assert "\033" not in told.text
    assert told.the("matrix") == ("ok", f"{doctor.bench}/matrix.yaml, profile smoke: tiny; 3 cells")
    assert told.the("server")[0] == "ok"
    assert "draft-mtp" in told.the("capabilities")[1]
    assert not (doctor.folder / ".ngram").exists()
    assert not (doctor.folder / ".benchmarks").exists()


def test_matrix_is_found_as_pytest_finds_it(doctor: Doctor, tmp_path: Path) -> None:
    """From a folder below, by the ini file, by a folder of cells that is named; a missing one fails."""
    below = doctor.folder / "src"
    below.mkdir()
    assert doctor(cwd=below).the("matrix")[1].startswith(f"{doctor.bench}/matrix.yaml")
    other = doctor.folder / "slow"
    other.mkdir()
    (other / "matrix.yaml").write_text(
        MATRIX.format(source="generate: {target: 0.7}", flags="").replace("words.yaml", "../bench/words.yaml")
    )
    assert doctor("slow").the("matrix")[1].startswith(f"{other}/matrix.yaml")
    (doctor.folder / "pytest.ini").write_text("[pytest]\nngram_matrix = slow/matrix.yaml\n")
    assert doctor().the("matrix")[1].startswith(f"{other}/matrix.yaml")
    told = doctor("--matrix", "no/such.yaml")
    assert (told.code, told.the("matrix")[0]) == (1, "fail")


def test_no_matrix(doctor: Doctor, tmp_path: Path) -> None:
    """A folder without a matrix is looked at with the plugin's own, with a warning: exit code 0."""
    empty = tmp_path / "empty"
    empty.mkdir()
    told = doctor(cwd=empty)
    assert told.code == 0, told.text
    status, found = told.the("matrix")
    assert (status, "the plugin's own" in found) == ("warn", True)
    assert "pytest-ngram init" in told.text


def test_pytest_that_cannot_start(doctor: Doctor) -> None:
    """An option that pytest does not know fails in its words, and all else is still looked at."""
    (doctor.folder / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    told = doctor()
    assert told.code == 1
    assert told.the("pytest")[1].endswith("error: unrecognized arguments: --no-such-option")
    assert told.the("server")[0] == "ok"
    (doctor.folder / "pytest.ini").write_text("[pytest]\n")
    (doctor.bench / "conftest.py").write_text("import no_such_module\n")
    told = doctor("bench")
    assert "No module named 'no_such_module'" in told.the("pytest")[1], told.text


def test_names_that_there_are_not(doctor: Doctor, tmp_path: Path) -> None:
    """A model or profile that the matrix lacks is told with those it has, a wrong root at once."""
    told = doctor("--models", "big")
    status, found = told.the("matrix")
    assert (told.code, status) == (1, "fail")
    assert "no model 'big'" in found
    assert "allowed: tiny" in found
    assert "allowed: smoke" in doctor("--profile", "night").the("matrix")[1]
    told = doctor("--root", str(tmp_path / "nowhere"))
    assert (told.code, told.lines) == (2, [])
    assert "nowhere' is no folder" in told.text


def test_broken_model_path(doctor: Doctor) -> None:
    """A model that is not there fails by its path; engine and host are still looked at."""
    doctor.matrix(source="path: gone.gguf")
    told = doctor()
    assert told.code == 1
    (status, found), *_ = told.of("model")
    assert (status, f"{doctor.bench}/gone.gguf" in found) == ("fail", True)
    assert told.the("clock")[0] == "ok"
    assert "1 fail. Mend" in told.last


def test_model_that_is_named(doctor: Doctor, model_path: Path) -> None:
    """`--model` needs no matrix: the file is looked at with the flags that `init` would write."""
    told = doctor("--model", str(model_path))
    assert told.code == 0, told.text
    assert "qwen35moe" in told.the("model")[1]
    assert "mtp3" in told.the("matrix")[1]
    assert "GiB are free" in told.the("memory")[1]
    assert doctor("--model", "gone.gguf").code == 1


def huge(path: Path, n_bytes: int) -> Path:
    """A model whose weights are a hole in the file: all of its size, and none of it on the disk."""
    rows = n_bytes // (2 * 32)
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in (
        ("block_count", 1),
        ("context_length", 4096),
        ("embedding_length", 32),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ):
        writer.add_uint32(f"llama.{name}", value)
    writer.add_token_list(["a", "b"])
    writer.add_tensor_info("blk.0.attn_k.weight", [rows, 32], np.dtype("float16"), rows * 64)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    start = -(-path.stat().st_size // 32) * 32
    with path.open("r+b") as file:
        file.truncate(start + rows * 64)
    return path


def test_model_larger_than_memory(doctor: Doctor) -> None:
    """A terabyte that is mapped warns, one that is not mapped fails; neither is read, or it took hours."""
    huge(doctor.bench / "huge.gguf", 2**40)
    doctor.matrix(source="path: huge.gguf, configs: [none]")
    told = doctor()
    assert told.the("memory")[0] == "warn", told.text
    assert "1024.00 GiB" in told.the("memory")[1]
    assert told.code == 0
    doctor.matrix(source="path: huge.gguf, configs: [none]", flags="-t 1 --no-mmap")
    told = doctor()
    assert (told.code, told.the("memory")[0]) == (1, "fail"), told.text


def test_config_that_the_model_cannot_run(doctor: Doctor) -> None:
    """A model without an MTP block fails for the configs that draft with one, by their names."""
    huge(doctor.bench / "plain.gguf", 2**20)
    doctor.matrix(source="path: plain.gguf")
    told = doctor()
    assert told.code == 1
    assert ("fail", "models.tiny: it has no MTP block, which mtp1 draft with") in told.of("model"), told.text


def test_threads_above_cores(doctor: Doctor) -> None:
    """More threads than run at once fail; more than cores, where two share one, warn."""
    doctor.matrix(flags=f"-t {len(THREADS) + 1}")
    told = doctor()
    assert (told.code, told.the("cores")[0]) == (1, "fail"), told.text
    assert f"to do: write -t {len(THREADS)}" in told.text
    if len(THREADS) == 1:
        return
    for cpu in THREADS:
        doctor.host(**{f"{CPU}/cpu{cpu}/topology/thread_siblings_list": f"{THREADS[0]}-{THREADS[-1]}\n"})
    doctor.matrix(flags="-t 2")
    told = doctor()
    assert (told.code, told.the("cores")[0]) == (0, "warn"), told.text
    assert "hyper-threads" in told.the("cores")[1]


def test_slow_governor_clock_and_pressure(doctor: Doctor) -> None:
    """What makes numbers worse warns by its name, and the exit code stays 0."""
    doctor.host(
        proc__pressure__cpu="some avg10=63.20 avg60=1.00 avg300=0.10 total=5\n",
        sys__devices__system__cpu__cpu0__cpufreq__scaling_governor="powersave\n",
        sys__devices__system__cpu__cpu0__cpufreq__scaling_driver="acpi-cpufreq\n",
        sys__devices__system__clocksource__clocksource0__current_clocksource="hpet\n",
    )
    told = doctor()
    assert told.code == 0
    assert told.the("governor") == (
        "warn",
        "powersave (driver acpi-cpufreq): the cores stay at their lowest frequency",
    )
    assert told.the("pressure")[0] == "warn"
    assert "cpu 63.2 %" in told.the("pressure")[1]
    assert told.the("clock")[0] == "warn"
    assert told.the("clock")[1].startswith("hpet, ")


@pytest.fixture
def spinner(tmp_path: Path) -> Iterator[str]:
    """A process that takes a core, called by a name of its own and with a secret argument."""
    path = tmp_path / "ngramspin"
    path.write_text("#!/bin/sh\nwhile :; do :; done\n")
    path.chmod(0o755)
    with subprocess.Popen([str(path), "--password=hunter2"]) as process:
        yield path.name
        process.kill()


def test_busy_process_is_named(doctor: Doctor, spinner: str) -> None:
    """Another process that takes a core warns by its command's name and share, and shows no argument."""
    told = doctor()
    status, found = told.the("busy")
    share = re.search(rf"{spinner} (\d+)%", found)
    assert (status, share is not None) == ("warn", True), told.text
    assert share is not None
    assert int(share[1]) > 5
    assert "hunter2" not in told.text
    assert told.code == 0


def test_another_run_is_told(doctor: Doctor, tmp_path: Path) -> None:
    """A run that measures on this host now is a warning, and is not disturbed."""
    cache = tmp_path / "cache"
    cache.mkdir()
    with locked(cache / LOCK, 5.0):
        told = doctor("--cache-dir", str(cache))
    assert told.the("busy")[1].startswith("another run is measuring")
    assert not (cache / LOCK).with_suffix(".second").exists()


def program(folder: Path, command: str) -> Path:
    """A script that answers as llama-server when it is asked for its flags, and then runs the command."""
    path = folder / "llama-server"
    path.write_text(
        f'#!/bin/sh\ncase "$1" in\n  --help) exec cat {shlex.quote(str(HELP))} ;;\n'
        f'  --version) echo "version: 10434 (abc1234)"; exit 0 ;;\nesac\n{command} "$@"\n'
    )
    path.chmod(0o755)
    return path


def test_binary_for_another_processor(doctor: Doctor, tmp_path: Path) -> None:
    """A build that answers --help and dies when it computes is found out, with what the processor lacks."""
    words = " ".join(map(shlex.quote, (sys.executable, str(PLAIN), "sigill")))
    told = doctor("--llama-server", str(program(tmp_path, f"exec env BUILT_FOR=SME {words}")))
    assert told.code == 1
    assert told.the("engine")[0] == "ok"
    status, found = told.the("server")
    assert (status, "needs instructions that this CPU lacks" in found) == ("fail", True), told.text
    assert "portable one (embedded)" in told.text


def test_binary_that_never_answers(doctor: Doctor, tmp_path: Path) -> None:
    """A program that hangs when it is asked for its flags fails within seconds, by its name and that time."""
    path = tmp_path / "llama-server"
    path.write_text("#!/bin/sh\nsleep 1000\n")
    path.chmod(0o755)
    begin_s = time.monotonic()
    told = doctor("--llama-server", str(path))
    assert time.monotonic() - begin_s < 40  # it waits 10 s; the rest is for a host that is busy
    assert (told.code, told.the("engine")) == (
        1,
        ("fail", f"llama-server cannot be asked what it has ({path} --help; no answer within 10 s)"),
    )
    assert "to do: run that command by hand; see what it waits for" in told.text
    assert told.the("model")[0] == "ok"


def test_engine_that_is_not_there(doctor: Doctor) -> None:
    """A path that leads nowhere fails, and models are still looked at."""
    told = doctor("--llama-server", "/no/such/llama-server")
    assert (told.code, told.the("engine")[0]) == (1, "fail")
    assert told.the("model")[0] == "ok"
    assert told.of("server") == []


def test_url_that_nobody_answers(doctor: Doctor) -> None:
    """An address without a server fails at once; of the host what counts is still said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    told = doctor("--llama-server", address)
    assert told.code == 1
    assert told.the("engine")[0] == "fail"
    assert address in told.the("engine")[1]
    assert told.the("matrix")[0] == "ok"


def test_server_at_a_url(doctor: Doctor, embedded: EngineProcess, model_path: Path) -> None:
    """What it was started with is told, and which configs it does not fit: a warning while it fits one."""
    doctor.matrix(source=f"path: {model_path}")
    told = doctor("--llama-server", embedded.url)
    assert told.code == 0, told.text
    assert f"{model_path.name}, -c 4096, no drafts" in told.the("engine")[1]
    status, found = told.the("config")
    assert (status, found.startswith("tiny/mtp1 cannot be measured")) == ("warn", True)
    assert told.of("memory") == []


def test_cache_that_cannot_be_written(doctor: Doctor, tmp_path: Path) -> None:
    """A cache folder below a file fails with how to name another; the engine is tried all the same."""
    (tmp_path / "file").touch()
    told = doctor("--cache-dir", str(tmp_path / "file" / "cache"))
    assert told.code == 1
    assert told.the("cache")[0] == "fail"
    assert "PYTEST_NGRAM_CACHE" in told.text
    assert told.the("server")[0] == "ok"


def test_help_loads_nothing_heavy() -> None:
    """`--help` says what the exit code means, and imports neither the doctor nor what it needs."""
    command = [sys.executable, "-X", "importtime", "-m", "pytest_ngram.cli", "doctor", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "exit code: 0 where nothing fails" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pytest_ngram.cli.doctor" in imported
    assert not imported & {"pytest_ngram.doctor", "psutil", "pytest", "gguf", "numpy", "httpx", "msgspec"}


def test_all_that_a_matrix_names(doctor: Doctor, model_path: Path) -> None:
    """Parts are counted and not joined; a draft model counts for memory; what is missing is named."""
    whole = model_path.read_bytes()
    for number, part in enumerate((whole, whole), 1):  # of no size that a file in the cache has
        (doctor.bench / f"p.part{number}").write_bytes(part)
    (doctor.bench / "cut.gguf").write_bytes(whole[:1000])
    text = MATRIX.format(source=f"path: {model_path}, draft: {{path: {model_path}}}", flags="-t 1")
    text = text.replace(
        "configs:",
        "  pieces: {parts: [{path: p.part1}, {path: p.part2}]}\n  cut: {path: cut.gguf}\n"
        f"  lonely: {{path: {model_path}, draft: {{path: gone.gguf}}}}\nconfigs:\n"
        "  simple: {types: [draft-simple]}\n  ngram-cache+chats: {types: [ngram-cache], table: chats}",
    ).replace("prompt_sets:", "tables:\n  chats: {corpus: {path: nowhere.jsonl}}\nprompt_sets:")
    (doctor.bench / "matrix.yaml").write_text(text)
    cache = doctor.folder / "cache"
    told = doctor("--cache-dir", str(cache))
    assert told.code == 1
    models = dict(reversed(line) for line in told.of("model"))
    assert models["pieces: 2 parts, 4 MB; they will be put together in the cache"] == "ok", told.text
    assert models[f"cut: the model file is cut or damaged in its header ({doctor.bench}/cut.gguf)"] == "fail"
    assert models[f"models.lonely.draft: {doctor.bench}/gone.gguf is not there"] == "fail"
    assert told.the("table") == ("fail", f"tables.chats: {doctor.bench}/nowhere.jsonl is not there")
    size_mib = 2 * len(whole) / 2**20
    assert told.of("memory")[0][1].startswith(f"tiny/simple needs {size_mib:.1f} MiB of model"), told.text
    assert f"{size_mib:.1f} MiB are needed for parts of models" in told.the("cache")[1]
    assert [path.stat().st_size for path in (cache / "models").glob("*.gguf")] == [model_path.stat().st_size]
