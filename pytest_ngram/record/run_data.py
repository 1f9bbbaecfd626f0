"""A whole run as it was read back, whichever file it was in."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pytest_ngram.record.types import Prompt, Record, RunFile, ServerStart


class RunData(msgspec.Struct, frozen=True, kw_only=True):
    """What all that reads a run needs of it.

    Args:
        name: of the file, as a reader knows it.
        version: of pytest-ngram that measured it.
        profile, matrix_sha256, seed: as `Run`.
        records: cells, those that failed too.
        starts: of servers.
        prompts: the ids of each prompt on each model.
        when: it was saved, ISO 8601 with the zone; a journal does not tell.
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

    @classmethod
    def of(cls, name: str, file: RunFile, records: Iterable[Record], when: str | None = None) -> RunData:
        """Return a run that has this object at the top of its JSON, and these cells."""
        run = file.run
        return cls(
            name=name,
            version=run.version,
            profile=run.profile,
            matrix_sha256=run.matrix_sha256,
            seed=run.seed,
            records=tuple(records),
            starts=run.starts,
            prompts=file.prompts,
            when=when,
        )
