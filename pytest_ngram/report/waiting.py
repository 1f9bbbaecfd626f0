"""The line that shows what a run waits for: its text, and when it is due. Time comes from outside."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field

from pytest_ngram.matrix.duration import said
from pytest_ngram.measure.events import (
    ONCE,
    Asking,
    Building,
    Event,
    Loading,
    Opening,
    Resting,
    Standing,
    WarmingUp,
)

# The first look at a request is after a second; an answer takes no longer while tokens are generated.
_UNHEARD_S = 3.0


@dataclass
class Waits:
    """What is waited for now, the newest last, and where the run stands."""

    waits: list[tuple[Event, float]] = field(default_factory=list)
    standing: Standing | None = None
    stood_s: float = 0.0

    def began(self, event: Event, now_s: float) -> None:
        """A wait began."""
        self.waits.append((event, now_s))

    def went_on(self, event: Event) -> None:
        """The newest wait of this kind got on."""
        place = self._place(event)
        if place is not None:
            self.waits[place] = (event, self.waits[place][1])

    def ended(self, event: Event, now_s: float) -> None:
        """The newest wait of this kind ended, and all that began within it."""
        place = self._place(event)
        if place is not None:
            stopped_s = now_s - self._counted(now_s)
            del self.waits[place:]
            self.stood_s += stopped_s - (now_s - self._counted(now_s))

    def _place(self, event: Event) -> int | None:
        places = (n for n in range(len(self.waits) - 1, -1, -1) if type(self.waits[n][0]) is type(event))
        return next(places, None)

    def stands(self, standing: Standing, now_s: float) -> None:
        """Note where the run stands."""
        self.standing, self.stood_s = standing, now_s

    def line(self, now_s: float, columns: int | None = None) -> str | None:
        """Return the line; None where nothing is waited for.

        Args:
            now_s: the time.
            columns: what there is room for: the model's name is cut first. The line may still be longer.
        """
        if not self.waits:
            return None
        event, began_s = self.waits[-1]
        what, whose = described(event, now_s - began_s)
        text = f"ngram: {what}, {_ticking(now_s - began_s)}: "
        if self.standing is not None and self.standing.cells:
            stands = stood(self.standing, self._counted(now_s) - self.stood_s)
            text = text.replace("ngram: ", f"ngram: {stands} | ", 1)
        return text + (whose if columns is None else shortened(whose, columns - width(text)))

    def _counted(self, now_s: float) -> float:
        """The time up to which what is left gets less: it stands still while something is made once."""
        return next((began_s for event, began_s in self.waits if isinstance(event, ONCE)), now_s)


def stood(standing: Standing, since_s: float) -> str:
    """Return cells done of all and the time left, so many seconds after it was told."""
    text = f"{standing.done}/{standing.cells} cells"
    if standing.left_s is None:
        return f"{text}, time left unknown"
    left_s = standing.left_s - since_s
    if left_s <= 0 and standing.done < standing.cells:
        return f"{text}, later than estimated"
    return f"{text}, {'at least ' if standing.at_least else ''}{_ticking(left_s)} left"


def described(event: Event, elapsed_s: float = 0.0) -> tuple[str, str]:
    """Return what is waited for, and for which start, cell or model: that comes last, and may be cut."""
    match event:
        case Opening(source):
            return "opening the model", source
        case Loading(start, file, size_bytes):
            return f"loading {_size(size_bytes)}", f"{start} ({file})"
        case Resting(start):
            return "resting", start
        case WarmingUp(start):
            return "warming up", start
        case Building():
            return _building(event)
        case Asking():
            return _asking(event, elapsed_s)


def _building(event: Building) -> tuple[str, str]:
    if event.of_messages is None:
        return f"table {event.table}", event.model
    done = f"{event.messages} of {event.of_messages} messages, {event.tokens} tokens"
    return f"building table {event.table}, {done}", event.model


def _asking(event: Asking, elapsed_s: float) -> tuple[str, str]:
    """A server that reads a batch of the prompt does not answer in between, one that generates does."""
    if event.n_decoded:
        return f"{event.n_decoded} of {event.n_predict} tokens", event.cell
    if event.n_decoded is None and elapsed_s < _UNHEARD_S:
        return f"{event.n_predict} tokens", event.cell
    read = f", {event.prompt_processed} tokens read" if event.prompt_processed else ""
    return f"reading the prompt{read}", event.cell


def _ticking(seconds: float) -> str:
    """Whole seconds: tenths would only flicker."""
    return f"{max(0.0, seconds):.0f} s" if seconds < 10 else said(seconds)


def shortened(whose: str, columns: int) -> str:
    """Return the id of a start or cell with less of its model's name, and without its file, if need be.

    What tells it from its neighbours comes behind the model, and is never cut here.
    """
    if width(whose) <= columns or "/" not in whose:
        return whose
    model, rest = whose.split(" (", maxsplit=1)[0].split("/", maxsplit=1)
    room = columns - width(rest) - 1
    return f"{cut(model, max(1, room))}/{rest}"


def cut(text: str, columns: int) -> str:
    """Return as much of a text as so many columns hold, marked where it goes on; no control characters."""
    clean = "".join(" " if unicodedata.category(char)[0] == "C" else char for char in text)
    if width(clean) <= columns:
        return clean
    kept, used = "", 0
    for char in clean:
        used += width(char)
        if used > columns - 1:
            break
        kept += char
    return f"{kept}…" if columns > 0 else ""


def width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


@dataclass
class EveryMinute:
    """Says when the next plain line is due: none in the first interval, then one in each at most."""

    interval_s: float = 60.0
    last_s: float | None = None

    def due(self, now_s: float) -> bool:
        """Whether a line is due now; if so, the next is due an interval later."""
        if self.last_s is None:
            self.last_s = now_s
        if now_s - self.last_s < self.interval_s:
            return False
        self.last_s = now_s
        return True


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
