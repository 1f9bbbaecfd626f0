"""What starts and requests were measured to take, kept as sums so that runs can be added. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pytest_ngram.record import Record, Round, ServerStart

# A mean over more rounds than these would hardly follow a host that changed.
KEPT_ROUNDS = 64.0


class Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Starts and requests of one config on one model: counts, tokens, and seconds by the server's own clock.

    `later_n` counts generated tokens after the first of each request, whose time is the prompt's. `wall_s` is
    the client's clock around the requests. Counts are floats, since old ones fade.
    """

    starts: float = 0.0
    load_s: float = 0.0
    warmup_s: float = 0.0
    rounds: float = 0.0
    prompt_n: float = 0.0
    prompt_s: float = 0.0
    later_n: float = 0.0
    predicted_s: float = 0.0
    wall_s: float = 0.0

    def __add__(self, other: Timing) -> Timing:
        """Return both measured together."""
        return Timing(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))

    def faded(self, kept_rounds: float = KEPT_ROUNDS) -> Timing:
        """Return the same means with the weight of `kept_rounds` rounds, or starts, at most."""
        weight = max(self.rounds, self.starts)
        share = min(1.0, kept_rounds / weight) if weight else 1.0
        return Timing(*(value * share for value in _values(self)))

    @property
    def mean_load_s(self) -> float | None:
        """Seconds until a server is ready; None where no start was measured."""
        return self.load_s / self.starts if self.starts else None

    @property
    def start_s(self) -> float | None:
        """Seconds of a start with its warm-up; None where no start was measured."""
        return (self.load_s + self.warmup_s) / self.starts if self.starts else None

    def request_s(self, prompt_n: float | None, tokens: float) -> float | None:
        """Seconds of a request; None where no request was measured.

        Args:
            prompt_n: tokens of the prompt; None takes the mean of what was measured.
            tokens: how many it will generate.
        """
        if not self.rounds or not self.later_n:
            return None
        rest_s = max(0.0, self.wall_s - self.prompt_s - self.predicted_s) / self.rounds
        if prompt_n is None or not self.prompt_n:
            prompt_s = self.prompt_s / self.rounds
        else:
            prompt_s = self.prompt_s / self.prompt_n * prompt_n
        return rest_s + prompt_s + self.predicted_s / self.later_n * max(0.0, tokens - 1)


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a prompt became and how its answers ended.

    `ended` of the `rounds` answers came to an end by themselves, after `ended_n` tokens in all; the others
    were cut by their limit.
    """

    prompt_n: int
    rounds: float = 0.0
    ended: float = 0.0
    ended_n: float = 0.0

    def __add__(self, other: Answer) -> Answer:
        """Return both together; the newer prompt's length holds."""
        return Answer(
            other.prompt_n, self.rounds + other.rounds, self.ended + other.ended, self.ended_n + other.ended_n
        )

    def faded(self, kept_rounds: float = KEPT_ROUNDS) -> Answer:
        """Return the same shares with the weight of `kept_rounds` rounds at most."""
        share = min(1.0, kept_rounds / self.rounds) if self.rounds else 1.0
        return Answer(self.prompt_n, self.rounds * share, self.ended * share, self.ended_n * share)

    def tokens(self, n_predict: int) -> float:
        """How many tokens an answer is expected to have under this limit."""
        if not self.ended:
            return n_predict
        share = self.ended / self.rounds
        return share * min(n_predict, self.ended_n / self.ended) + (1 - share) * n_predict


class Between(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Time that was neither a start nor a request: pytest, templates, `/metrics`, ends of servers."""

    cells: float = 0.0
    seconds: float = 0.0

    @property
    def per_cell_s(self) -> float | None:
        """Seconds a cell; None where nothing was measured."""
        return self.seconds / self.cells if self.cells else None


class ModelTimings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that is known of one model: by config id, by prompt id."""

    configs: dict[str, Timing] = {}
    prompts: dict[str, Answer] = {}
    between: Between = Between()


class Source(msgspec.Struct, frozen=True):
    """Timings by model id, and what to call the place where they come from."""

    label: str
    models: dict[str, ModelTimings]


class Gathered:
    """Adds up what is measured, by model, as it comes."""

    def __init__(self) -> None:
        self.models: dict[str, ModelTimings] = {}

    def add_start(self, start: ServerStart) -> None:
        """Count a start."""
        self._add(start.model, start.config, Timing(starts=1, load_s=start.load_s, warmup_s=start.warmup_s))

    def add_record(self, record: Record) -> None:
        """Count the requests of a cell that ended well; one that failed tells nothing of what others take."""
        if record.outcome.status == "ok":
            for round_ in record.rounds:
                self.add_round(record.cell.model, record.cell.config, record.cell.prompt, round_)

    def add_round(self, model: str, config: str, prompt: str | None, round_: Round) -> None:
        """Count a request; one that lacks a time is left out."""
        timing = timing_of(round_)
        if timing is None:
            return
        self._add(model, config, timing)
        if prompt is not None and round_.prompt_n is not None:
            prompts = self.models[model].prompts
            answer = Answer(round_.prompt_n, 1, *_ended(round_))
            prompts[prompt] = prompts[prompt] + answer if prompt in prompts else answer

    def add_prompt(self, model: str, prompt: str, prompt_n: int) -> None:
        """Note what a prompt became, without an answer to it."""
        self.models.setdefault(model, ModelTimings({}, {})).prompts.setdefault(prompt, Answer(prompt_n))

    def _add(self, model: str, config: str, timing: Timing) -> None:
        configs = self.models.setdefault(model, ModelTimings({}, {})).configs
        configs[config] = configs.get(config, Timing()) + timing


def gather(records: Iterable[Record], starts: Iterable[ServerStart]) -> dict[str, ModelTimings]:
    """Return the timings of a run by model."""
    gathered = Gathered()
    for start in starts:
        gathered.add_start(start)
    for record in records:
        gathered.add_record(record)
    return gathered.models


def timing_of(round_: Round) -> Timing | None:
    """Return the timing of one request; None where a time or count of it is not known."""
    n, ms, wall_s = round_.predicted_n, round_.predicted_ms, round_.wall_s
    if round_.prompt_n is None or round_.prompt_ms is None or n is None or ms is None or wall_s is None:
        return None
    return Timing(
        rounds=1,
        prompt_n=round_.prompt_n,
        prompt_s=round_.prompt_ms / 1000,
        later_n=max(0, n - 1),
        predicted_s=ms / 1000,
        wall_s=wall_s,
    )


def _ended(round_: Round) -> tuple[float, float]:
    by_itself = round_.stop in ("eos", "word") and round_.predicted_n is not None
    return (1.0, float(round_.predicted_n or 0)) if by_itself else (0.0, 0.0)


def _values(timing: Timing) -> tuple[float, ...]:
    return tuple(getattr(timing, name) for name in Timing.__struct_fields__)
