"""What a matrix file may say: one struct a section, units in the names."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(ge=1)]
Tokens = Annotated[int, msgspec.Meta(ge=2, le=1_000_000)]  # the time of one token is told from the second on
Seconds = Annotated[float, msgspec.Meta(gt=0.0, le=86_400.0)]
Share = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
ZeroToOne = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Temperature = Annotated[float, msgspec.Meta(ge=0.0, le=5.0)]

# llama.cpp's own names.
SPEC_TYPES = (
    "draft-simple",
    "draft-eagle3",
    "draft-mtp",
    "draft-dflash",
    "draft-dspark",
    "ngram-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
    "ngram-cache",
)
# Of these something outlives the request, so that cells depend on their order: the context table, the hash
# pool, the map's old keys and its place in the earlier prompt. `tests/process` shows it of each of them.
STATEFUL_TYPES = frozenset({"ngram-cache", "ngram-mod", "ngram-map-k", "ngram-map-k4v"})
# Types that draft with a second model, which `-md` names. (`draft-mtp` has its block in the model itself.)
DRAFT_MODEL_TYPES = frozenset({"draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"})
BASELINE = "none"


class GenerateSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hand-built model: dial the MTP acceptance by `target` or by the noise `sigma`."""

    target: Share | None = None
    sigma: Annotated[float, msgspec.Meta(ge=0.0)] | None = None
    seed: int = 1
    layers: Positive = 4
    width: Positive = 32


class FileSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: `path` (relative to the matrix file) or `package` (`package_name/path/inside`)."""

    path: str | None = None
    package: str | None = None


class SourceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a model file comes from: exactly one of `path`, `package`, `parts` and `generate`.

    `parts` are pieces of one file, cut anywhere, in order; `sha256` is of the whole file that they make,
    and is needed where their names do not number them.
    """

    path: str | None = None
    package: str | None = None
    parts: tuple[FileSpec, ...] = ()
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | None = None
    generate: GenerateSpec | None = None


class ModelSpec(SourceSpec, frozen=True, forbid_unknown_fields=True):
    """One model: where it comes from, llama-server flags for it, and what is run on it.

    `draft` is the second model, with which `draft-simple` and its like draft. `abstains` gives, by config,
    why it is expected never to draft on this model: a reason, or for a stack a reason for each such type.
    """

    flags: str = ""
    draft: SourceSpec | None = None
    configs: tuple[str, ...] | None = None
    prompt_sets: tuple[str, ...] | None = None
    n_predict: Tokens | None = None
    blocks: Positive | None = None
    abstains: dict[str, str | dict[str, str]] = {}


class ConfigSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One speculative configuration: spec types, llama-server flags, a table, and requests per cell.

    `identity` says what its greedy text must be, for the gates: the baseline's in every id (`strict`), the
    baseline's but for a numeric near-tie (`near-tie`), or its own at another draft length (`self`).
    """

    types: tuple[str, ...] = ()
    flags: str = ""
    table: str | None = None
    rounds: Positive = 1
    identity: Literal["strict", "near-tie", "self"] = "near-tie"

    @property
    def stateful(self) -> bool:
        """Whether a request changes what later requests on the same server draft."""
        return bool(STATEFUL_TYPES.intersection(self.types))

    @property
    def needs_draft_model(self) -> bool:
        """Whether it drafts with a second model."""
        return bool(DRAFT_MODEL_TYPES.intersection(self.types))


class LeakageSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of a prompt may be in the corpus of a table: a longer run or a larger share is a leak.

    A run is of tokens in one message, the share is of the prompt's 8-grams.
    """

    max_run_tokens: Positive = 31
    max_share: ZeroToOne = 0.1


class TableSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A static table: built from `corpus`, pruned to `top_k` continuations a key, or a ready `file`.

    The keys after `file` say how a table is built, so they go with `corpus` only, which is one file or a
    list. `roles` and `min_chars` choose messages, of which `max_mb` (10⁶ bytes of text) are drawn by `seed`.
    `min_total` and `min_top_share` choose 2-grams, `min_count` and `min_share` their continuations. `leakage`
    bounds what of a prompt may be in the corpus.
    """

    corpus: FileSpec | tuple[FileSpec, ...] | None = None
    file: FileSpec | None = None
    top_k: Positive = 4
    min_count: Positive = 2
    min_share: ZeroToOne = 0.0
    min_total: Positive = 1
    min_top_share: ZeroToOne = 0.0
    roles: tuple[str, ...] | None = None
    min_chars: Positive = 1
    max_mb: Annotated[float, msgspec.Meta(gt=0.0, le=1e6)] | None = None
    seed: int = 1
    on_bad_line: Literal["error", "count"] = "error"
    leakage: LeakageSpec = LeakageSpec()

    @property
    def corpora(self) -> tuple[FileSpec, ...]:
        """The files that it is built from; empty where it is ready."""
        if self.corpus is None:
            return ()
        return (self.corpus,) if isinstance(self.corpus, FileSpec) else self.corpus


class ProfileSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is measured.

    `models` and `configs` choose out of those of the matrix, all where they are left out. `prompts` limits a
    set to its first n; a set that is not named is taken whole. `echo` takes so many prompts out of the corpus
    of a table, to show what leakage would have bought; they are in no row of the results.
    """

    blocks: Positive
    n_predict: Tokens
    temperatures: tuple[Temperature, ...] = (0.0,)
    models: tuple[str, ...] | None = None
    configs: tuple[str, ...] | None = None
    prompts: dict[str, Positive] = {}
    echo: dict[str, Positive] = {}


class GatesSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the gates ask: of the models those named, of each one's configs those named, None for all.

    `prompts` limits a set to its first n; a set that is not named is taken whole.

    `never_rejected` gives, by `model/config`, why every draft is expected to be accepted there. `symbols` are
    names that the build's libraries must define, because something else attaches to them.
    """

    models: tuple[str, ...] | None = None
    configs: tuple[str, ...] | None = None
    prompts: dict[str, Positive] = {}
    n_predict: Tokens = 96
    never_rejected: dict[str, str] = {}
    symbols: tuple[str, ...] = ()


class MatrixSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file, with every name resolved by `matrix.decode`."""

    version: int
    seed: int
    warmup: str
    hang_after_s: float
    models: dict[str, ModelSpec]
    configs: dict[str, ConfigSpec]
    tables: dict[str, TableSpec]
    prompt_sets: dict[str, FileSpec]
    profiles: dict[str, ProfileSpec]
    gates: GatesSpec = GatesSpec()

    def models_of(self, profile: str) -> tuple[str, ...]:
        """The models of a profile, in the order of the matrix."""
        chosen = self.profiles[profile].models
        return tuple(name for name in self.models if chosen is None or name in chosen)

    def configs_of(self, model: str, profile: str | None = None) -> tuple[str, ...]:
        """The config ids that run on a model, in the order written; with a profile, those of them it takes.

        A model that names none gets all; where it has no `draft`, those that need one are left out.
        """
        spec = self.models[model]
        names = spec.configs or [
            name for name, config in self.configs.items() if spec.draft or not config.needs_draft_model
        ]
        taken = self.profiles[profile].configs if profile is not None else None
        return tuple(name for name in names if taken is None or name in taken)

    def unused_configs(self) -> tuple[str, ...]:
        """The config ids that no model runs, in the order of the matrix."""
        used = {name for model in self.models for name in self.configs_of(model)}
        return tuple(name for name in self.configs if name not in used)

    def abstains_of(self, model: str, config: str) -> dict[str, str]:
        """The types of a config that are expected never to draft on a model, and why."""
        told = self.models[model].abstains.get(config, {})
        return dict.fromkeys(self.configs[config].types, told) if isinstance(told, str) else told

    @property
    def leakage_bounds(self) -> dict[str, LeakageSpec]:
        """The bounds of each config's table, by config; those without a table have none."""
        configs = ((name, config.table) for name, config in self.configs.items())
        return {name: self.tables[table].leakage for name, table in configs if table is not None}

    def echo_tables(self, model: str, profile: str) -> tuple[str, ...]:
        """The tables out of whose corpus a model gets echo prompts, in the order of the matrix."""
        used = {self.configs[name].table for name in self.configs_of(model, profile)}
        return tuple(name for name in self.tables if name in used and name in self.profiles[profile].echo)

    def prompt_sets_of(self, model: str) -> tuple[str, ...]:
        """The prompt sets that run on a model, in the order written."""
        chosen = self.models[model].prompt_sets
        return tuple(self.prompt_sets) if chosen is None else chosen
