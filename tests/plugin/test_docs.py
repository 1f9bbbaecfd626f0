"""The pages are followed literally: what they tell a reader to type is typed here, and works."""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_ngram import cli
from pytest_ngram.engine.flag_table import FLAGS
from pytest_ngram.init.matrix_text import OwnCorpus, matrix_text
from pytest_ngram.matrix.decode import decode_matrix
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.options import declared
from pytest_ngram.record import Record, Round

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
READERS = ["host-owner", "engine-maintainer", "drafter-author"]
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^ {4}\S.*\n)+", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
_OURS = ("--ngram", "--llama-server", "--engine", "--benchmark")
# Programs of others, whose options are their own.
_OTHERS = ("pip ", "pipx ", "python", "cmake ", "git ", ". ")
# Typed after `pytest-ngram init` to save time here: one round through the configs where a reader has three.
ONE_BLOCK = "\nsed -i 's/blocks: 3/blocks: 1/' bench/matrix.yaml"


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in _FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def commands(page: Path) -> list[str]:
    """Every line of a page's shell blocks, fenced or indented."""
    text = page.read_text(encoding="utf-8")
    indented = [re.sub(r"(?m)^ {4}", "", block) for block in _INDENTED.findall(_FENCE.sub("", text))]
    lines = "".join([*blocks(page, "bash"), *indented]).splitlines()
    return [line for line in lines if line.startswith(("pytest", "for ", *_OTHERS))]


def _with_commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A command line, and those of its commands and theirs."""
    yield parser
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for each in action.choices.values():
                yield from _with_commands(each)


@pytest.fixture(scope="module")
def known_options() -> set[str]:
    """What pytest with its plugins, `pytest-ngram` and llama-server take."""
    pytest_help = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    compare_help = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    own = "".join(each.format_help() for each in _with_commands(cli.parser()))
    flags = {name for flag in FLAGS for name in (*flag.names, *flag.off_names)}
    return set(_OPTION.findall(pytest_help + compare_help + own)) | flags


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_option_exists(page: Path, known_options: set[str]) -> None:
    """No page names an option of pytest, of ours or of llama-server that there is not."""
    text = page.read_text(encoding="utf-8")
    code = [line for line in commands(page) if not line.startswith(_OTHERS)]
    spans = [
        span for span in re.findall(r"`([^`\n]+)`", _FENCE.sub("", text)) if not span.startswith(_OTHERS)
    ]
    unknown = {option for piece in (*code, *spans) for option in _OPTION.findall(piece)} - known_options
    if page.stem == "engines":  # it names flags that only a binary has, too
        unknown = {option for option in unknown if option.startswith(_OURS)}
    assert unknown == set()


def test_every_option_of_ours_has_a_row() -> None:
    """The README's table of options leaves none out."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    rows = {option for line in lines if line.startswith("| `--") for option in _OPTION.findall(line)}
    assert {name for name, _ in declared._OPTIONS} - rows == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_file_exists(page: Path) -> None:
    """What a page names as a file of this project is there."""
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:docs|fixtures|perf|tests)/[\w./-]+\.(?:md|py|yaml)", text))
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_matrix_block_decodes(page: Path) -> None:
    """A YAML block is part of a matrix: put into what `init --corpus` writes, it is accepted."""
    shipped = (ROOT / "fixtures" / "matrix.yaml").read_text(encoding="utf-8")
    chats = OwnCorpus(Path("chats.jsonl"), 9, ("assistant",), 0)
    for block in blocks(page, "yaml"):
        matrix: dict[str, Any] = yaml.safe_load(matrix_text(shipped, Path("bench"), None, chats))
        for section, entries in yaml.safe_load(block).items():
            for name, entry in entries.items():
                known = matrix.setdefault(section, {}).get(name)
                both = isinstance(known, dict) and isinstance(entry, dict)
                matrix[section][name] = {**known, **entry} if both else entry
        decode_matrix(yaml.safe_dump(matrix, allow_unicode=True), page.name)


@pytest.mark.parametrize("name", READERS)
def test_a_page_is_short(name: str) -> None:
    """A reader's page is read in one sitting."""
    page = ROOT / "docs" / f"{name}.md"
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 120
    assert f"docs/{name}.md" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_fields_of_a_round_are_named_rightly() -> None:
    """The table of the drafter's author names fields that a record has."""
    text = (ROOT / "docs" / "drafter-author.md").read_text(encoding="utf-8")
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    named = [field for cell in cells for field in re.findall(r"`([\w.]+)`", cell)]
    assert len(named) > 5
    for field in named:
        first = field.split(".")[0]
        assert first in Round.__struct_fields__ or first in Record.__struct_fields__, field


class Reader:
    """Somebody who follows a page: an empty home, a folder of their own, a shell, one Python session."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.home, self.folder = folder / "home", folder / "work"
        self.folder.mkdir()
        (self.home / ".cache").mkdir(parents=True)
        (self.home / ".cache" / "pytest-ngram").symlink_to(cache)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        gone = ("PYTEST_NGRAM_CACHE", "XDG_CACHE_HOME", "PYTEST_ADDOPTS")
        self.env = {name: value for name, value in os.environ.items() if name not in gone}
        self.env |= {"HOME": str(self.home), "PATH": path}

    def type(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def follow(self, page: Path, changes: dict[str, str]) -> str:
        """Type the page's shell lines and run its Python, in order; `changes` are this host's own names."""
        said, python = "", ""
        for kind, text in _FENCE.findall(page.read_text(encoding="utf-8")):
            for old, new in changes.items():
                text = text.replace(old, new)  # noqa: PLW2901 - the same block, with other names
            if kind == "python":
                python += text
                said += self.type([sys.executable, "-c", python])
            for line in text.splitlines() if kind == "bash" else ():
                if not line.startswith(_OTHERS):
                    said += self.type(["bash", "-eo", "pipefail", "-c", line])
        return said


@pytest.fixture
def reader(tmp_path: Path, session_cache: Path) -> Iterator[Reader]:
    shutil.rmtree(session_cache / "tables", ignore_errors=True)
    yield Reader(tmp_path, session_cache)
    shutil.rmtree(session_cache / "tables", ignore_errors=True)


def assert_compared(said: str, cell: str) -> None:
    """A table shows the cell of the saved run above the one of now, and of each no more than mean and OPS."""
    number = r"\d[\d.,]* \([\d.]+\)\s+"
    row = rf"test_cell\[{re.escape(cell)}\] \({{}}\)\s+(?:{number}){{{{2}}}}\n"
    assert re.search(row.format(r"0001_\w+") + row.format("NOW"), said), said[-4000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_comparison_can_be_seen(page: Path) -> None:
    """--benchmark-quiet hides a comparison, and that the saved run is missing: no command has both."""
    compared = [line for line in commands(page) if "--benchmark-compare" in line]
    assert [line for line in compared if "--benchmark-quiet" in line] == []


def test_the_host_owners_page(reader: Reader, tmp_path: Path, session_cache: Path) -> None:
    """From a model file and chats to the table, the journal and a comparison; one block of the evening."""
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(generate(HandBuiltSpec(), session_cache / "models"), models / "Qwen3.6-35B-A3B-IQ3_XXS.gguf")
    chats = (ROOT / "fixtures" / "corpus" / "demo.jsonl").read_bytes()
    (reader.home / "chats.jsonl.gz").write_bytes(gzip.compress(chats))
    reader.env["PYTEST_ADDOPTS"] = "-k /b1"  # a -k on the command line takes its place
    page = ROOT / "docs" / "host-owner.md"
    # the hand-built model knows few words, so it gets its own prompts; tests run beside others, so one thread
    prompts = "s/sets: .general, agentic./sets: [instrument]/; s/# n_predict: 128.*/n_predict: 512"
    prompts += "\\n    abstains: {ngram-cache: the prompts hold nothing twice}/"
    edit = f"sed -i '{prompts}; s/ -t [0-9]*$/ -t 1/' bench/matrix.yaml"
    changes = {"/models/": f"{models}/", "~/chats.jsonl.gz\n": f"~/chats.jsonl.gz\n{edit}\n"}
    said = reader.follow(page, changes)
    (block,) = blocks(page, "yaml")
    ((name, shown),) = yaml.safe_load(block)["models"].items()
    assert f"    {name}: " in said
    assert f"configs: {', '.join(shown['configs'])}\n" in said
    assert "1 MTP" in said
    assert "chats.json: the manifest\n" in said
    assert "predicted for -np 1: " in said
    assert re.search(r"ngram-cache\+chats: no prompt of \d+ is in the corpus of the table", said)
    assert re.search(r"ngram-cache\+chats .* 4 ok", said)
    assert "later.json against 0001_" in said
    assert len(list((reader.folder / ".ngram").glob("journal-*.jsonl"))) == 3


def test_the_engine_maintainers_page(reader: Reader) -> None:
    """Gates, both tables and the comparison, with the embedded engine in place of each build.

    `tests/native` has a binary; here `--engine` and `--llama-server` are left out.
    """
    changes = {
        " --engine llama.cpp/build/bin/llama-server": ONE_BLOCK,
        " --llama-server llama.cpp/build/bin/llama-server": " -k 'mtp1/ or golden or control'",
        " --llama-server builds/old/llama-server": "",
        " --llama-server builds/new/llama-server": "",
        "tiny-moe,deep-moe": "tiny-moe",
        "deep-moe": "tiny-moe",
        "mean:400%": "mean:999999%",  # no test is timed
    }
    page = ROOT / "docs" / "engine-maintainer.md"
    assert all(old in page.read_text(encoding="utf-8") for old in changes)
    said = reader.follow(page, changes)
    assert re.search(r"identity +\d+ passed, 0 failed", said)
    assert said.count("tiny-moe: 4 prompts") == 4
    assert "test_cell[tiny-moe/mtp1/word-en/t0/b1] (old)" in said
    assert_compared(said, "tiny-moe/mtp1/word-en/t0/b1")


def test_the_drafters_authors_page(reader: Reader) -> None:
    """The Python of the page runs, and shows acceptance by position, a policy of one's own, and the table."""
    said = reader.follow(
        ROOT / "docs" / "drafter-author.md", {"init --no-ci\n": f"init --no-ci{ONE_BLOCK}\n"}
    )
    assert re.search(r"mtp3 word-en accepted \d+/\d+ by position \['0\.\d\d', '0\.\d\d', '0\.\d\d'\]", said)
    assert re.search(r"word-phrase accepted [1-9]\d*/\d+, coverage \d+%", said)
    assert re.search(r"\d+ keys, \d+ pairs, \d+ draft by themselves", said)
    sweep(reader.folder / "bench" / "matrix.yaml", blocks(ROOT / "docs" / "drafter-author.md", "yaml"))
    shutil.copy(ROOT / "fixtures" / "corpus" / "demo.jsonl", reader.folder / "chats.jsonl")
    said = reader.type(["pytest", "bench", "--ngram-models", "tiny-moe", "--collect-only", "-q"])
    assert "test_cell[tiny-moe/ngram-cache+strict/word-en/t0/b1]" in said
    assert "is not there" not in said


def sweep(path: Path, written: list[str]) -> None:
    """Put a page's YAML blocks where a reader puts them: each key beside the others or in its old place."""
    matrix: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    for block in written:
        for section, entries in yaml.safe_load(block).items():
            for name, entry in entries.items():
                matrix[section][name] = {**matrix[section].get(name, {}), **entry}
    path.write_text(yaml.safe_dump(matrix, allow_unicode=True), encoding="utf-8")
