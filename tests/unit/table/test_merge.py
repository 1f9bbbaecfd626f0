"""Tables added up: the table of all corpora, of one vocabulary, and written whole or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_ngram.errors import TableError
from pytest_ngram.models.gguf_file import inspect
from pytest_ngram.models.handbuilt import HandBuiltSpec, generate
from pytest_ngram.table import COUNT_LIMIT, Counts
from pytest_ngram.table.build import BuiltTable, TableParams, info, load_table, manifest_path
from pytest_ngram.table.build.counted import keep_of
from pytest_ngram.table.build.merging import merge_tables
from pytest_ngram.table.counts import COUNT_CAP, cap_counts, count_bigrams, merge
from pytest_ngram.table.format import decode, encode

Build = Callable[..., BuiltTable]
WriteCorpus = Callable[[str, list[str]], Path]

KEEP_ALL = TableParams(top_k=1000, min_count=1, count_cap=COUNT_LIMIT)
MESSAGES = st.lists(st.lists(st.integers(0, 4), max_size=10), max_size=6)
PARAMS = st.builds(
    TableParams,
    top_k=st.integers(1, 5),
    min_count=st.integers(1, 3),
    min_share=st.sampled_from([0.0, 0.3]),
    min_total=st.integers(1, 4),
    min_top_share=st.sampled_from([0.0, 0.5]),
    count_cap=st.integers(1, 30),
)
ONE, OTHER = ["abcabcabd", "abc"], ["abcd", "xyz", "bcabc"]


@pytest.fixture
def parts(build: Build, write_corpus: WriteCorpus) -> list[Path]:
    """Two unpruned tables of the same vocabulary."""
    corpora = [write_corpus("one.jsonl", ONE), write_corpus("other.jsonl", OTHER)]
    return [build(paths=(corpus,), params=KEEP_ALL).path for corpus in corpora]


def without_manifest(counts: Counts, folder: Path, name: str) -> Path:
    (folder / name).write_bytes(encode(counts))
    return folder / name


def test_the_sum_is_the_build_of_the_concatenation(
    parts: list[Path], build: Build, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    """Unpruned and uncapped, the merged file has the bytes of the table of all messages."""
    together = build(paths=(write_corpus("both.jsonl", ONE + OTHER),), params=KEEP_ALL)
    merged = merge_tables(parts, tmp_path / "sum.lcs")
    assert merged.path.read_bytes() == together.path.read_bytes()
    assert merged.notes == ()
    told = merged.manifest
    assert told is not None
    assert (told.messages, told.tokens) == (together.manifest.messages, together.manifest.tokens)
    assert (told.keys, told.pairs, told.drafting_keys) == (
        together.manifest.keys,
        together.manifest.pairs,
        together.manifest.drafting_keys,
    )


@given(MESSAGES, MESSAGES, PARAMS)
@settings(deadline=None, max_examples=60)
def test_the_file_is_that_of_all_messages(
    one: list[list[int]], other: list[list[int]], params: TableParams
) -> None:
    """For any messages and rules: adding up two files is counting all messages, pruned and capped alike."""
    counted = [count_bigrams(one), count_bigrams(other)]
    if not all(counts.pairs for counts in counted):
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [without_manifest(counts, folder, f"{i}.lcs") for i, counts in enumerate(counted)]
        model = inspect(generate(HandBuiltSpec(), session_models(folder)))
        expected = keep_of(count_bigrams([*one, *other]), params).kept
        if not expected.pairs:
            with pytest.raises(TableError, match="no pair of the sum is left"):
                merge_tables(paths, folder / "sum.lcs", params=params, model=model)
            return
        merge_tables(paths, folder / "sum.lcs", params=params, model=model)
        assert (folder / "sum.lcs").read_bytes() == encode(expected)


def session_models(folder: Path) -> Path:
    """The hand-built models of the session: made once, whatever folder a test works in."""
    from pytest_ngram.options import cache_folder

    return cache_folder() / "models"


def test_the_manifest_holds_those_of_the_parts(parts: list[Path], tmp_path: Path) -> None:
    """Sources are listed, the parts' manifests are kept whole, and the sum loads for the same vocabulary."""
    merged = merge_tables(parts, tmp_path / "sum.lcs")
    assert merged.manifest is not None
    assert [source.name for source in merged.manifest.sources] == ["one.jsonl", "other.jsonl"]
    assert merged.manifest.parts == tuple(info(path).manifest for path in parts)
    loaded = load_table(tmp_path / "sum.lcs", "a" * 64, 256)
    assert (loaded.manifest, loaded.notes) == (merged.manifest, ())


def test_what_surprises_is_noted(
    parts: list[Path], build: Build, write_corpus: WriteCorpus, tmp_path: Path
) -> None:
    """A corpus in two parts counts twice; what pruning took stays lost; what was capped is counted."""
    capping = TableParams(top_k=9, min_count=1, count_cap=3)
    twice = merge_tables([parts[0], parts[0]], tmp_path / "twice.lcs", params=capping)
    assert twice.notes == ("the corpus one.jsonl is in more than one part: its counts are added up",)
    assert twice.capped_keys > 0
    assert twice.facts.max_count == 3
    pruned = build(paths=(write_corpus("p.jsonl", [*ONE, "abd"]),), params=TableParams(top_k=1)).path
    assert "parts were pruned or capped" in merge_tables([pruned, parts[1]], tmp_path / "p.lcs").notes[-1]


def test_other_vocabularies_are_refused(parts: list[Path], tmp_path: Path) -> None:
    """Both hashes are named, and nothing is written."""
    beside = manifest_path(parts[1])
    beside.write_text(beside.read_text().replace("a" * 64, "b" * 64))
    with pytest.raises(TableError, match="of different vocabularies") as caught:
        merge_tables(parts, tmp_path / "sum.lcs")
    assert caught.value.checked == (f"{'a' * 64}, 256 tokens", f"{'b' * 64}, 256 tokens")
    assert not (tmp_path / "sum.lcs").exists()


def test_an_unknown_vocabulary_needs_a_model(parts: list[Path], tmp_path: Path) -> None:
    """Without a manifest it is refused; with a model its ids are checked, and no manifest is invented."""
    facts = inspect(generate(HandBuiltSpec(), session_models(tmp_path)))
    bare = [without_manifest(decode(path.read_bytes()), tmp_path, path.name) for path in parts]
    with pytest.raises(TableError, match=r"the vocabulary of .* is not known") as caught:
        merge_tables([parts[0], bare[1]], tmp_path / "sum.lcs")
    assert "--model" in caught.value.fix
    merged = merge_tables(bare, tmp_path / "sum.lcs", model=facts)
    assert merged.manifest is None
    assert "no manifest was written" in merged.notes[-1]
    assert not manifest_path(tmp_path / "sum.lcs").exists()
    outside = without_manifest(count_bigrams([[1, 2, facts.n_vocab]]), tmp_path, "outside.lcs")
    with pytest.raises(TableError, match="outside the vocabulary"):
        merge_tables([bare[0], outside], tmp_path / "none.lcs", model=facts)


def test_a_part_may_be_the_output(parts: list[Path]) -> None:
    """New chats can be added to the table at hand."""
    expected = merge(*(decode(path.read_bytes()) for path in parts))
    merge_tables(parts, parts[0])
    assert decode(parts[0].read_bytes()).equals(expected)
    assert info(parts[0]).manifest_fits


def random_table(seed: int) -> Counts:
    return count_bigrams([np.random.default_rng(seed).integers(0, 900, 150_000).tolist()])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two tables of some 140 000 keys, without manifests."""
    folder = tmp_path_factory.mktemp("large")
    return [without_manifest(random_table(seed), folder, f"{seed}.lcs") for seed in (1, 2)]


MERGE = """
import sys, resource
from pathlib import Path
limit = int(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from pytest_ngram.cli import main
import pytest_ngram.table.build.merging  # numpy takes a Ctrl-C during its import for a fault of its own
print("begins", flush=True)
sys.exit(main(["table", "merge", *sys.argv[2:4], "-o", sys.argv[4], "--model", sys.argv[5], "--force"]))
"""


def start_merge(parts: list[Path], out: Path, limit: int = 0) -> subprocess.Popen[str]:
    model = generate(HandBuiltSpec(), session_models(out.parent))
    words = [str(limit), *map(str, parts), str(out), str(model)]
    process = subprocess.Popen(
        [sys.executable, "-c", MERGE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


@pytest.mark.parametrize("after_s", [0.02, 0.1, 0.2, 0.4])
def test_ctrl_c_leaves_the_old_file_or_the_new_one(large: list[Path], tmp_path: Path, after_s: float) -> None:
    """Whenever it comes, there is one whole table under the name, and nothing else in the folder."""
    out = tmp_path / "sum.lcs"
    out.write_bytes(b"old")
    process = start_merge(large, out)
    time.sleep(after_s)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT), said
    assert [path.name for path in tmp_path.iterdir()] == ["sum.lcs"]
    expected = encode(cap_counts(merge(random_table(1), random_table(2)), COUNT_CAP).counts)
    # one that comes while the new table takes its name waits until it has
    assert out.read_bytes() in ([b"old", expected] if process.returncode else [expected])


def test_a_file_that_cannot_be_written_whole_is_not_there(large: list[Path], tmp_path: Path) -> None:
    """Where a file may not become so large, the old one stays and the error is told."""
    out = tmp_path / "sum.lcs"
    out.write_bytes(b"old")
    _, said = (process := start_merge(large, out, limit=1_000_000)).communicate(timeout=60)
    assert process.returncode == 1
    assert said.startswith("TableError: ")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("sum.lcs", b"old")]


def test_bytes_of_a_sum_do_not_depend_on_the_order(parts: list[Path], tmp_path: Path) -> None:
    """The same tables in another order make the same file."""
    one, other = (merge_tables(order, tmp_path / f"{i}.lcs") for i, order in enumerate((parts, parts[::-1])))
    assert one.path.read_bytes() == other.path.read_bytes()
    assert np.frombuffer(one.path.read_bytes(), "<i4").size > 0
