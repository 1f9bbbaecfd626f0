"""Several tables of one vocabulary become one: counts added up, capped, and a manifest of them all."""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from pytest_ngram.errors import TableError
from pytest_ngram.files import write_whole
from pytest_ngram.models.gguf_file import ModelFacts
from pytest_ngram.table import COUNT_LIMIT
from pytest_ngram.table.build.counted import Counted, keep_of
from pytest_ngram.table.build.files import explained, write_table
from pytest_ngram.table.build.load import LoadedTable, load_table, read_counts
from pytest_ngram.table.build.manifest import Manifest, TableParams, encode_manifest, manifest_path
from pytest_ngram.table.build.output import check_output
from pytest_ngram.table.counts import merge
from pytest_ngram.table.format import TableFacts, encode, verify

# Nothing is pruned; counts are capped as ever.
KEEP_ALL = TableParams(top_k=COUNT_LIMIT, min_count=1)


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged table. `manifest`: null where a part has none. `notes`: what may surprise."""

    path: Path
    facts: TableFacts
    capped_keys: int
    manifest: Manifest | None
    notes: tuple[str, ...]


def merge_tables(
    paths: Sequence[Path],
    out: Path,
    *,
    params: TableParams = KEEP_ALL,
    model: ModelFacts | None = None,
    force: bool = False,
) -> Merged:
    """Add up tables, prune and cap the sum, and write it; `out` is replaced once the new one is whole.

    Of tables that were neither pruned nor capped it is the table that their corpora together would make with
    these `params`, byte for byte. What was taken from a part stays lost, although together it might have been
    frequent enough.

    Args:
        paths: two tables or more.
        out: the file to write, which may be one of the parts; the manifest goes beside it.
        params: what to keep of the sum.
        model: whose vocabulary they must be of; needed where a part does not tell its own.
        force: replace whatever is at `out`.

    Raises:
        TableError: a part is missing, corrupt or not its manifest's; vocabularies differ or are unknown; or
            `out` cannot be written, and is then as it was.
    """
    check_output(out, [] if model is None else [model.path], force=force)
    parts = _loaded(paths, model)
    summed = read_counts(parts[0].path)
    for part in parts[1:]:
        summed = merge(summed, read_counts(part.path))
    total = keep_of(summed, params)
    if not total.kept.pairs:
        raise TableError(
            "no pair of the sum is left to write",
            checked=[f"{total.keys_before} keys, {total.pairs_before} pairs, before pruning"],
            fix="lower what it is pruned by",
        )
    data = encode(total.kept)
    facts = verify(data, model.n_vocab if model else None)
    manifest = _manifest(parts, params, total, data)
    _write(out, data, manifest)
    return Merged(out, facts, total.capped_keys, manifest, tuple(_notes(parts, manifest)))


def _loaded(paths: Sequence[Path], model: ModelFacts | None) -> list[LoadedTable]:
    sha256, n_vocab = (model.vocab_sha256, model.n_vocab) if model else (None, None)
    parts = [load_table(path, sha256, n_vocab) for path in paths]
    first = parts[0].manifest
    for part in parts:
        told = part.manifest
        if model is None and (told is None or told.vocab_sha256 is None):
            raise TableError(
                f"the vocabulary of {part.path.name} is not known",
                checked=[f"its manifest {manifest_path(part.path).name}"],
                fix="name the model whose ids it has with --model",
            )
        if told is not None and first is not None and not _alike(told, first):
            raise TableError(
                f"{parts[0].path.name} and {part.path.name} are of different vocabularies",
                checked=[f"{each.vocab_sha256}, {each.n_vocab} tokens" for each in (first, told)],
                fix="merge tables of one vocabulary; build the others with this model's tokenizer",
            )
    return parts


def _alike(one: Manifest, other: Manifest) -> bool:
    unknown = one.vocab_sha256 is None or other.vocab_sha256 is None
    return one.n_vocab == other.n_vocab and (unknown or one.vocab_sha256 == other.vocab_sha256)


def _manifest(
    parts: Sequence[LoadedTable], params: TableParams, total: Counted, data: bytes
) -> Manifest | None:
    """A manifest with those of the parts in it; None where one of them has none."""
    known = [part.manifest for part in parts if part.manifest is not None]
    if len(known) < len(parts):
        return None
    hashes = {each.vocab_sha256 for each in known}
    return structs.replace(
        known[0],
        vocab_sha256=hashes.pop() if len(hashes) == 1 else None,
        sources=tuple(source for each in known for source in each.sources),
        parts=tuple(known),
        params=params,
        messages=sum(each.messages for each in known),
        tokens=sum(each.tokens for each in known),
        keys_before=total.keys_before,
        pairs_before=total.pairs_before,
        keys=total.kept.keys,
        pairs=total.kept.pairs,
        drafting_keys=total.drafting_keys,
        lifted_keys=total.lifted_keys,
        capped_keys=total.capped_keys,
        sha256=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
    )


def _write(out: Path, data: bytes, manifest: Manifest | None) -> None:
    beside = manifest_path(out)
    if manifest is not None:
        write_table(out, data, beside, encode_manifest(manifest))
        return
    with explained(out.parent):
        write_whole(out, data)
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()  # it described what was there before


def _notes(parts: Sequence[LoadedTable], manifest: Manifest | None) -> list[str]:
    # of what is noted of a part, its unknown vocabulary concerns the sum; the sum's counts are capped anew
    unknown = [part for part in parts if part.manifest is None or part.manifest.vocab_sha256 is None]
    notes = [part.notes[0] for part in unknown]
    if manifest is None:
        lacking = ", ".join(part.path.name for part in parts if part.manifest is None)
        return [*notes, f"no manifest was written, since {lacking} has none"]
    names = {source.sha256: source.name for source in manifest.sources}
    twice = [sha256 for sha256, n in Counter(source.sha256 for source in manifest.sources).items() if n > 1]
    notes += [
        f"the corpus {names[sha256]} is in more than one part: its counts are added up" for sha256 in twice
    ]
    if any(_was_cut(each) for each in manifest.parts):
        notes.append(
            "parts were pruned or capped before: the sum is not the table that all their corpora would make"
        )
    return notes


def _was_cut(manifest: Manifest) -> bool:
    cut = manifest.pairs < manifest.pairs_before or manifest.capped_keys > 0
    return cut or any(_was_cut(part) for part in manifest.parts)
