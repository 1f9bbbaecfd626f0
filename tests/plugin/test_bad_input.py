"""Bad input: the cause, what was checked, what to do; never a traceback, never silence."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_ngram.models.handbuilt import HandBuiltSpec, generate

if TYPE_CHECKING:
    from conftest import Project

LINE = (
    '{"v":1,"session":"a","seq":0,"role":"user","content":" model token cache model token",'
    '"ts":"2026-01-01T00:00:00Z"}\n'
)


@pytest.fixture
def with_table(project: Project) -> Project:
    """A config with a table built from `corpus.jsonl`."""
    project.edit("ngram-cache: {types: [ngram-cache]}", "ngram-cache: {types: [ngram-cache], table: chats}")
    project.edit(
        "prompt_sets:\n", "tables:\n  chats: {corpus: {path: corpus.jsonl}, min_count: 1}\nprompt_sets:\n"
    )
    (project.bench / "corpus.jsonl").write_text(LINE * 3, encoding="utf-8")
    return project


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("configs:\n  none", "confgs:\n  none", "matrix.yaml: confgs: unknown key 'confgs'"),
        ("types: [draft-mtp]", "types: [draft-mpt]", "matrix.yaml: configs.mtp1.types[0]: unknown"),
        (
            "tiny: {",
            "tiny-mtp: {",
            "matrix.yaml: models.tiny-mtp: model id 'tiny-mtp' contains the config word",
        ),
        ("{path: words.yaml}", "{path: wrods.yaml}", "prompt set 'words' cannot be read"),
        ('warmup: "the model"', 'warmup: "model token"', "matrix.yaml: warmup: is part of prompt 'word-en'"),
        ("blocks: 1", "blocks: one", "matrix.yaml: profiles.smoke.blocks: "),
        ("-t 1", "-t 1 --threds 2", "matrix.yaml: models.tiny with configs.none: --threds is not a flag"),
    ],
)
def test_a_wrong_matrix_stops_the_run(project: Project, old: str, new: str, expected: str) -> None:
    """Nothing is measured; the message names file, key path and what is allowed."""
    project.edit(old, new)
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    text = result.stdout.str()
    assert expected in text
    assert "to do: " in text
    assert "Traceback" not in text
    assert "_pytest" not in text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--ngram-profile=ful"], "no profile 'ful'"),
        (["--ngram-models=tniy"], "no model 'tniy'"),
        (["--ngram-models=ti"], "did you mean 'tiny'?"),
        (["--ngram-matrix=nowhere.yaml"], "the matrix cannot be read: No such file or directory"),
        (["--ngram-resume=a", "--ngram-journal=b"], "exclude each other"),
    ],
)
def test_a_wrong_option_stops_the_run(project: Project, options: list[str], expected: str) -> None:
    """The message says what is allowed instead."""
    result = project.run(*options)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert expected in result.stdout.str()
    assert "_pytest" not in result.stdout.str()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"GGUX" + bytes(100), "GGUF"),
        (b"", "empty"),
        (None, "gone.gguf"),
    ],
)
def test_a_file_that_is_no_model_is_refused(project: Project, content: bytes | None, expected: str) -> None:
    """Missing, empty or something else: found before a server starts, with the file's name."""
    project.edit("generate: {target: 0.7}", "path: gone.gguf")
    if content is not None:
        (project.bench / "gone.gguf").write_bytes(content)
    result = project.run("-k", "mtp1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*ModelError: *", "*to do: *", "*2 refused"])
    assert expected in result.stdout.str()
    assert not list((project.path / ".ngram").rglob("*.log"))


def test_a_truncated_model_is_refused(project: Project) -> None:
    """A download that broke off is told by the bytes that are missing."""
    whole = generate(HandBuiltSpec(), project.cache / "models")
    (project.bench / "half.gguf").write_bytes(whole.read_bytes()[:-1000])
    project.edit("generate: {target: 0.7}", "path: half.gguf")
    result = project.run("-k", "mtp1")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*ModelError: *", "*1000*"])


def test_a_package_that_is_not_installed_is_said(project: Project) -> None:
    """The name of the package stands in the error."""
    project.edit("generate: {target: 0.7}", "package: no_such_package/model.gguf")
    project.run("-k", "mtp1").stdout.fnmatch_lines(["*package 'no_such_package' is not installed*"])


def test_a_table_is_built_and_recorded(with_table: Project) -> None:
    """The server loads the table of the corpus, and the record says which."""
    data = with_table.measure("-k", "cache")
    for bench in data["benchmarks"]:
        record = bench["extra_info"]["ngram"]
        assert record["table"]["keys"] > 0
        assert record["table"]["bytes"] == 20 * record["table"]["keys"] + 8 * record["table"]["pairs"]
        assert "-lcs" in record["engine"]["argv"]


def test_a_compressed_corpus_gives_the_same_table(with_table: Project) -> None:
    """JSONL and JSONL.gz of the same text become the same bytes."""
    plain = with_table.measure("-k", "cache")
    (with_table.bench / "corpus.jsonl.gz").write_bytes(gzip.compress((LINE * 3).encode()))
    with_table.edit("corpus.jsonl", "corpus.jsonl.gz")
    packed = with_table.measure("-k", "cache")
    assert (
        packed["benchmarks"][0]["extra_info"]["ngram"]["table"]
        == plain["benchmarks"][0]["extra_info"]["ngram"]["table"]
    )


def test_a_table_of_several_corpora_takes_filters(with_table: Project) -> None:
    """The matrix's own table is the one that `table build` makes of the same files and choices."""
    more = "".join(LINE.replace('"a"', f'"{name}"').replace(" model", f" {name}") for name in "bcdefgh")
    (with_table.bench / "more.jsonl").write_text(more + LINE.replace("user", "tool"), encoding="utf-8")
    with_table.edit(
        "corpus: {path: corpus.jsonl}, min_count: 1",
        "corpus: [{path: corpus.jsonl}, {path: more.jsonl}], min_count: 1, roles: [user], min_chars: 3, "
        "max_mb: 0.00015, seed: 7",
    )
    cell, *_ = with_table.measure("-k", "cache")["benchmarks"]
    argv = cell["extra_info"]["ngram"]["engine"]["argv"]
    (model,) = Path(argv[argv.index("-lcs") + 1]).parents[1].glob("models/*.gguf")
    words = ["corpus.jsonl", "more.jsonl", "-o", "own.lcs", "--model", str(model), "--role", "user"]
    words += ["--min-chars", "3", "--max-mb", "0.00015", "--seed", "7", "--min-count", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest_ngram.cli", "table", "build", *words],
        cwd=with_table.bench, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "not in the sample" in done.stdout
    own = hashlib.sha256((with_table.bench / "own.lcs").read_bytes()).hexdigest()
    assert own == cell["extra_info"]["ngram"]["table"]["sha256"]


@pytest.mark.parametrize(
    ("corpus", "expected"),
    [
        (LINE + "not json\n", "line 2"),
        (LINE + LINE + '{"v":1,"role":"user"}\n', "line 3"),
        ("", "CorpusError"),
        (None, "CorpusError"),
    ],
)
def test_a_bad_corpus_is_refused(with_table: Project, corpus: str | None, expected: str) -> None:
    """A line that is not JSON or lacks content is named; an empty or missing corpus is an error."""
    path = with_table.bench / "corpus.jsonl"
    path.unlink()
    if corpus is not None:
        path.write_text(corpus, encoding="utf-8")
    result = with_table.run("-k", "cache")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*CorpusError: *", "*to do: *", "*2 refused"])
    assert expected in result.stdout.str()


def test_bad_lines_can_be_counted_instead(with_table: Project) -> None:
    """`on_bad_line: count` goes on without them, and says at every run how many there were."""
    path = with_table.bench / "corpus.jsonl"
    path.write_text(LINE * 2 + "not json\n", encoding="utf-8")
    with_table.edit("min_count: 1}", "min_count: 1, on_bad_line: count}")
    for _ in range(2):
        result = with_table.run("-k", "cache")
        result.assert_outcomes(passed=2, deselected=6)
        result.stdout.fnmatch_lines(["warning: *rows that cannot be used: 1 not JSON"])


def ready_table(project: Project, data: bytes) -> None:
    project.edit("corpus: {path: corpus.jsonl}, min_count: 1", "file: {path: ready.lcs}")
    (project.bench / "ready.lcs").write_bytes(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", "empty"), (b"\x01\x00", "byte"), (b"\xff" * 40, "record 1")],
)
def test_a_corrupt_table_never_reaches_the_server(with_table: Project, data: bytes, expected: str) -> None:
    """The loader would abort the server or load nonsense silently: refused before it starts."""
    ready_table(with_table, data)
    result = with_table.run("-k", "cache")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*TableError: *", "*to do: *", "*2 refused"])
    assert expected in result.stdout.str()


def test_a_table_of_another_vocabulary_is_refused(with_table: Project) -> None:
    """llama.cpp would load it silently; the manifest tells."""
    with_table.measure("-k", "cache")
    (table,) = (with_table.cache / "tables").glob("*.lcs")
    ready_table(with_table, table.read_bytes())
    manifest = table.with_suffix(".json").read_text()
    vocabulary = manifest.split('"vocab_sha256":')[1].split('"')[1]
    (with_table.bench / "ready.json").write_text(manifest.replace(vocabulary, "0" * 64))
    result = with_table.run("-k", "cache")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*TableError: *built for another vocabulary*"])


def test_a_missing_table_is_refused(with_table: Project) -> None:
    """A missing file aborts llama.cpp; here it is an error that names it."""
    with_table.edit("corpus: {path: corpus.jsonl}, min_count: 1", "file: {path: ready.lcs}")
    with_table.run("-k", "cache").stdout.fnmatch_lines(["*TableError: the table ready.lcs is not there*"])
