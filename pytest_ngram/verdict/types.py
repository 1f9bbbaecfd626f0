"""What is asked of a verdict, and what it says."""

from __future__ import annotations

from typing import Literal

import msgspec

from pytest_ngram.verdict.codes import Reason

Decision = Literal["adopt", "do not adopt", "cannot tell"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be reached.

    Args:
        threshold: the gain in tg that a config has to be worth, as a ratio − 1.
        pp_loss: the loss in pp that is borne, 0 to 1.
        rss_gain: the gain in resident memory that is borne, as a ratio − 1.
        rss_least_mb: a gain of fewer MiB is borne in any case.
        level: the chance that is taken of a false alarm in all configs together, and of a wrong interval.
        least_blocks: fewer tell nothing.
        power: the chance with which the blocks that are asked for would tell.
        baseline: the config that all others are set against.
    """

    threshold: float = 0.05
    pp_loss: float = 0.15
    rss_gain: float = 0.25
    rss_least_mb: float = 256.0
    level: float = 0.05
    least_blocks: int = 3
    power: float = 0.8
    baseline: str = "none"


class GateFailure(msgspec.Struct, frozen=True):
    """A gate that failed. `model` and `config` are None where it is of all."""

    gate: str
    what: str
    model: str | None = None
    config: str | None = None


class GateNote(msgspec.Struct, frozen=True):
    """What gates found that is neither a pass nor a failure. Without `config` it is of a whole model."""

    code: Literal["gate-known-issue", "gate-not-judged"]
    gate: str
    what: str
    model: str | None = None
    config: str | None = None


class GateResults(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of the gates says of the build that was measured.

    Args:
        source: the file, and what the build is called.
        counts: verdicts of the gates, by status.
        failures: those that failed.
        judged: model and config of whatever the gates compared the text of.
        notes: what is told of a config with its *adopt*.
    """

    source: str = ""
    counts: dict[str, int] = {}
    failures: tuple[GateFailure, ...] = ()
    judged: tuple[tuple[str, str], ...] = ()
    notes: tuple[GateNote, ...] = ()


class Span(msgspec.Struct, frozen=True):
    """An estimate that has an interval, each as a ratio − 1."""

    gain: float
    low: float
    high: float


def span(ratio: float | None, low: float | None, high: float | None) -> Span | None:
    """Return the three as ratios − 1; None where one is not known."""
    if ratio is None or low is None or high is None:
        return None
    return Span(ratio - 1, low - 1, high - 1)


class Estimate(msgspec.Struct, frozen=True):
    """A ratio of speeds, above 1 is faster; `low` and `high` are null where one block tells no interval."""

    ratio: float
    low: float | None
    high: float | None

    @property
    def span(self) -> Span | None:
        """The estimate with its interval; None without one."""
        return span(self.ratio, self.low, self.high)


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """One config against another, of one model at one temperature.

    `ratio`, `low` and `high` are of tg; each prompt weighs the same, and the interval is for other prompts of
    the same kind on this host. They are null where nothing could be compared.

    Args:
        config, against: the two.
        decision, reasons: the verdict, and why.
        token_weighted: each generated token weighs the same.
        these_prompts: the same ratio, its interval for these very prompts.
        floor: what a config that is the baseline would differ by, as a ratio − 1; null without both passes.
        p, p_holm: of "no difference", alone and among all configs.
        n_blocks, n_prompts, n_cells: that entered; `n_cells` are the config's own.
        excluded: the config's own cells that did not, by `contended`, `throttled` or their outcome.
        idle: it has a type, and drafted in none of the cells that entered.
        tokens, tokens_against: of an answer on the two sides, over the prompts and blocks that entered.
        lost_prompts, lost_blocks: without a pair, or with too few.
        filled: pairs that were missing from the grid and filled in.
        more_blocks, more_prompts: that would be needed to tell; null where that is not asked, or 100 do not.
        pp: ratio of prompt-processing speeds. rss, rss_more_mb: ratio and gain (MiB) of resident memory.
        per_prompt, per_block: ratios.
        strata: the same by set and kind of prompts (`general`, `general/code`), without those of all prompts.
    """

    config: str
    against: str
    decision: Decision
    reasons: tuple[Reason, ...]
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    token_weighted: Estimate | None = None
    these_prompts: Estimate | None = None
    floor: float | None = None
    p: float | None = None
    p_holm: float | None = None
    n_blocks: int = 0
    n_prompts: int = 0
    n_cells: int = 0
    excluded: dict[str, int] = {}
    idle: bool = False
    tokens: float | None = None
    tokens_against: float | None = None
    lost_prompts: tuple[str, ...] = ()
    lost_blocks: tuple[int, ...] = ()
    filled: int = 0
    more_blocks: int | None = None
    more_prompts: int | None = None
    pp: Estimate | None = None
    rss: float | None = None
    rss_more_mb: float | None = None
    per_prompt: dict[str, float] = {}
    per_block: dict[int, float] = {}
    strata: dict[str, Effect] = {}

    @property
    def span(self) -> Span | None:
        """The estimate with its interval; None without one."""
        return span(self.ratio, self.low, self.high)


class Floor(msgspec.Struct, frozen=True):
    """The baseline against itself, as ratios − 1.

    Args:
        bound: what a config that is the baseline would differ by with the chance `level`.
        worst: the gap between first and last pass in the worst block.
        blocks: that have both passes.
    """

    bound: float
    worst: float
    blocks: int


class ModelVerdict(msgspec.Struct, frozen=True):
    """All that is said of a model at one temperature.

    Args:
        model, temperature: of which it is.
        answer: the sentence.
        best: the config to adopt; null where none is.
        ties: other configs to adopt that this run cannot tell from the best.
        floor: null without both passes of the baseline.
        effects: each config against the baseline, in the order given.
        corpus: each config with a table against the same without.
        excluded: cells of all configs that entered nothing, by why.
    """

    model: str
    temperature: float
    answer: Reason
    best: str | None
    ties: tuple[str, ...]
    floor: Floor | None
    effects: tuple[Effect, ...]
    corpus: tuple[Effect, ...]
    excluded: dict[str, int]


class Verdict(msgspec.Struct, frozen=True):
    """A verdict for each model and temperature. `gates` is None where no results of gates were given."""

    settings: Settings
    gates: GateResults | None
    models: tuple[ModelVerdict, ...]
