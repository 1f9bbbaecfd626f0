"""A whole run as it was read back, whichever file it was in."""

from __future__ import annotations

import msgspec

from pytest_ngram.record.types import Prompt, Record, ServerStart


class RunData(msgspec.Struct, frozen=True, kw_only=True):
    """What all that reads a run needs of it.

    Args:
        name: of the file, as a reader knows it.
        version: of pytest-ngram that measured it.
        profile, matrix_sha256, seed: as `Run`.
        records: cells, those that failed too.
        starts: of servers.
        prompts: the ids of each prompt on each model.
        when: it was saved, as the JSON says (`datetime`); None of a journal, which does not tell.
    """

    name: str
    version: str
    profile: str
    matrix_sha256: str
    seed: int
    records: tuple[Record, ...]
    starts: tuple[ServerStart, ...]
    prompts: tuple[Prompt, ...]
    when: str | None = None
