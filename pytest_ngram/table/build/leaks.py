"""What of the prompts is in the corpora of a table: looked for once, and kept beside the table.

All their messages are looked at, not only those that the table counts. A table of answers alone has read no
question, and yet it drafts the answer to a question that was asked in these chats.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from pytest_ngram.corpus import Corpora, read_corpora
from pytest_ngram.corpus.leakage import Found, find
from pytest_ngram.files import write_whole
from pytest_ngram.record import CorpusPlace, Leakage
from pytest_ngram.table.build.builder import Tokenizer, Wanted
from pytest_ngram.table.build.files import explained, locked
from pytest_ngram.table.build.tokens import OnProgress

# Raise it when the same prompts and corpora would give another leakage.
LEAKAGE_VERSION = 2
_LOCK_TIMEOUT_S = 3600.0

# UnicodeDecodeError is what msgspec before 0.23 raises for bytes that are not UTF-8.
_NOT_KEPT = (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError)

Turns = Sequence[str]


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file beside a table: what was found, by a hash of the prompt's own words. No text is in it."""

    version: int = LEAKAGE_VERSION
    prompts: dict[str, Leakage] = {}


def leakage_path(table: Path) -> Path:
    """Where it is kept what of prompts is in a table's corpus: `x.lcs` has `x.leakage.json` beside it."""
    return table.with_suffix(".leakage.json")


def leakage_of(
    prompts: Mapping[str, Turns],
    wanted: Wanted,
    tokenizer: Tokenizer,
    table: Path,
    *,
    on_progress: OnProgress | None = None,
) -> dict[str, Leakage]:
    """Look for prompts in all messages of the corpora that a table was built from.

    Whatever it was built from them: whose role, how long or in a sample or not decides what the table counts,
    not what was said in these chats.

    Nothing is tokenized for prompts that were looked for before; for others, what the token cache lacks.

    Args:
        prompts: by id, the texts of their own turns: no system prompt, no template.
        wanted: what the table was built from; of its selection nothing counts.
        tokenizer: the one that it was built with.
        table: where it lies in the cache.
        on_progress: called as the messages are tokenized.

    Raises:
        CorpusError, TableError: the corpus cannot be read or tokenized any more, or the folder not be used.
    """
    names = {prompt: _digest(turns) for prompt, turns in prompts.items()}
    path = leakage_path(table)
    with locked(table.with_suffix(".lock"), _LOCK_TIMEOUT_S):
        known = _read(path)
        missing = {names[prompt]: turns for prompt, turns in prompts.items() if names[prompt] not in known}
        if missing:
            known |= _look(missing, wanted, tokenizer, on_progress)
            with explained(path.parent):
                write_whole(path, msgspec.json.encode(_Kept(prompts=known)))
    return {prompt: known[name] for prompt, name in names.items()}


def _look(
    prompts: Mapping[str, Turns], wanted: Wanted, tokenizer: Tokenizer, on_progress: OnProgress | None
) -> dict[str, Leakage]:
    corpora = read_corpora(wanted.paths, on_bad=wanted.on_bad, kind=wanted.kind)
    tokens = tokenizer.tokens(corpora.messages, on_progress)
    messages = list(tokens)
    turns = [turn for each in prompts.values() for turn in each]
    ids = iter(tokenizer.tokenize(turns))
    found = find([[next(ids) for _turn in each] for each in prompts.values()], messages)
    return {name: _told(each, corpora) for name, each in zip(prompts, found, strict=True)}


def _told(found: Found, corpora: Corpora) -> Leakage:
    return Leakage(
        run=found.run,
        share=found.share,
        of_one_message=found.of_one_message,
        exact=None if found.exact is None else len(found.exact),
        near=None if found.near is None else len(found.near),
        at=None if found.run_message is None else _place(found.run_message, corpora),
    )


def _place(message: int, corpora: Corpora) -> CorpusPlace:
    at = corpora.messages[message]
    return CorpusPlace(
        corpus=corpora.reports[at.file].name, session=at.session or None, number=at.seq, line=at.line
    )


def _digest(turns: Turns) -> str:
    return hashlib.sha256(msgspec.json.encode(list(turns))).hexdigest()


def _read(path: Path) -> dict[str, Leakage]:
    """What is kept; nothing where the file is not there, damaged, or of another version."""
    with explained(path.parent), contextlib.suppress(*_NOT_KEPT):
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        return dict(kept.prompts) if kept.version == LEAKAGE_VERSION else {}
    return {}
