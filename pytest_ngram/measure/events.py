"""What a run is waiting for, told to whoever shows it. Knows nothing of terminals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from pytest_ngram.engine.watchdog import Progress


@dataclass(frozen=True)
class Opening:
    """A model file is found, generated or put together, inspected, and read once for its hash."""

    source: str


@dataclass(frozen=True)
class Loading:
    """A server starts and loads a model file of so many bytes."""

    start: str
    file: str
    size_bytes: int


@dataclass(frozen=True)
class Resting:
    """A machine rests before a server starts."""

    start: str


@dataclass(frozen=True)
class WarmingUp:
    """A server answers what is not measured."""

    start: str


@dataclass(frozen=True)
class Building:
    """A table is built from a corpus: messages of all, and the tokens so far."""

    table: str
    model: str
    messages: int = 0
    of_messages: int | None = None
    tokens: int = 0


@dataclass(frozen=True)
class Asking:
    """A request of a cell runs. Counts are what `/slots` last said; None until it was first asked."""

    cell: str
    n_predict: int
    n_decoded: int | None = None
    prompt_processed: int | None = None

    def seen(self, progress: Progress) -> Asking:
        """Return it with the watchdog's newest counts."""
        return replace(
            self, n_decoded=progress.n_decoded, prompt_processed=progress.n_prompt_tokens_processed
        )


Event = Opening | Resting | Loading | WarmingUp | Building | Asking
# What is done once and then kept: no estimate of a run holds it.
ONCE = (Opening, Building)
E = TypeVar("E", bound=Event)


@dataclass(frozen=True)
class Standing:
    """Where a run stands.

    Args:
        done, cells: cells that ended, of all.
        left_s: what is left, by what was measured; None where nothing is known.
        at_least: whether more is left than can be told.
    """

    done: int
    cells: int
    left_s: float | None
    at_least: bool


class Listener(Protocol):
    """Hears of events. Called from the thread that waits, `went_on` from one that watches it too."""

    def began(self, event: Event) -> None:
        """Waiting began; it may begin within another wait."""
        ...

    def went_on(self, event: Event) -> None:
        """The newest wait has got on."""
        ...

    def ended(self, event: Event) -> None:
        """This wait has ended, well or not, if it had begun: Ctrl-C may come in between."""
        ...

    def stands(self, standing: Standing) -> None:
        """A cell has ended, or the run is about to begin."""
        ...


class Silent:
    """Hears and says nothing."""

    def began(self, event: Event) -> None:
        """Do nothing."""

    def went_on(self, event: Event) -> None:
        """Do nothing."""

    def ended(self, event: Event) -> None:
        """Do nothing."""

    def stands(self, standing: Standing) -> None:
        """Do nothing."""


SILENT = Silent()


@contextmanager
def waiting(listener: Listener, event: E) -> Iterator[E]:
    """Tell the listener that something begins, and that it ends, whichever way."""
    try:
        listener.began(event)
        yield event
    finally:
        listener.ended(event)
