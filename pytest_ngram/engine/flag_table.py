"""llama-server's own flags, and where each goes in the embedded engine's `CommonParams`.

Names, value kinds and limits follow llama.cpp's `common/arg.cpp` (build b11434). A flag stands here only when
its meaning maps one to one to fields of `CommonParams`; all others are refused, with a reason where one is
known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

# int, float, text: one value.  words: comma list of text.  floats: comma list of numbers.
# types: comma list out of `choices`, may be repeated.  choice: one of `choices`.  onoff: on | off.
# pairs: comma list of PATTERN=WORD.
# switch: no value, the name itself says true or false.  const: no value, sets `const`.
Kind = Literal[
    "int", "float", "text", "words", "floats", "types", "pairs", "choice", "onoff", "switch", "const"
]

TRUTHY = ("on", "enabled", "true", "1")
FALSY = ("off", "disabled", "false", "0")


@dataclass(frozen=True)
class Flag:
    """One flag of llama-server.

    Args:
        names: all spellings, the long one whose text is the key first.
        target: dotted path in `CommonParams`; empty where `embedded` has a rule of its own.
        off_names: spellings that mean the opposite (`switch` only).
        choices: allowed words and what each becomes: a member of `enum`, or a number.
        low, high: inclusive limits of a number.
        negated: the field means the opposite of the flag (`--repack` and `no_extra_bufts`).
        wrap: what holds the value in the field: a list, a set, or nothing.
        older: name of the field in builds before it held a list; takes exactly one value there.
        sampling_bit: the bit of `sampling.user_sampling_config` that says the user set this.
        experts: adds to the tensor overrides: `layers` the experts of the first N layers, `all` those of all.
    """

    names: tuple[str, ...]
    kind: Kind
    target: str
    off_names: tuple[str, ...] = ()
    choices: Mapping[str, str | int] = field(default_factory=lambda: MappingProxyType({}))
    enum: str | None = None
    low: float | None = None
    high: float | None = None
    negated: bool = False
    const: int | None = None
    wrap: Literal["list", "set", "none"] = "none"
    older: str | None = None
    sampling_bit: str | None = None
    experts: Literal["none", "layers", "all"] = "none"

    @property
    def key(self) -> str:
        """The first name without dashes, such as `ubatch-size`."""
        return self.names[0].lstrip("-")

    @property
    def takes_value(self) -> bool:
        """Whether the next argument belongs to this flag."""
        return self.kind not in ("switch", "const")


def _int(names: str, target: str, low: float | None = None, high: float | None = None) -> Flag:
    return Flag(tuple(names.split()), "int", target, low=low, high=high)


def _float(names: str, target: str, low: float | None = None, high: float | None = None) -> Flag:
    return Flag(tuple(names.split()), "float", target, low=low, high=high)


def _text(names: str, target: str) -> Flag:
    return Flag(tuple(names.split()), "text", target)


def _switch(names: str, target: str, off: str = "", *, negated: bool = False) -> Flag:
    return Flag(tuple(names.split()), "switch", target, off_names=tuple(off.split()), negated=negated)


def _choice(names: str, target: str, enum: str | None, choices: Mapping[str, str | int]) -> Flag:
    return Flag(tuple(names.split()), "choice", target, enum=enum, choices=MappingProxyType(dict(choices)))


def _override_flags() -> tuple[Flag, ...]:
    """What keeps weights in the memory of a device of the user's choice, of the model and of the draft's."""
    flags: list[Flag] = []
    for holder, some, every, pairs in (
        ("", "--n-cpu-moe -ncmoe", "--cpu-moe -cmoe", "--override-tensor -ot"),
        (
            "speculative.draft.",
            "--spec-draft-n-cpu-moe --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft",
            "--spec-draft-cpu-moe -cmoed --cpu-moe-draft",
            "--spec-draft-override-tensor -otd --override-tensor-draft",
        ),
    ):
        target = f"{holder}tensor_buft_overrides"
        flags += [
            Flag(tuple(some.split()), "int", target, low=0, experts="layers"),
            Flag(tuple(every.split()), "const", target, const=1, experts="all"),
            Flag(tuple(pairs.split()), "pairs", target),
        ]
    return tuple(flags)


def _sampling(names: str, target: str, bit: str, *, kind: Kind = "float") -> Flag:
    return Flag(tuple(names.split()), kind, f"sampling.{target}", sampling_bit=bit)


_SPEC = "COMMON_SPECULATIVE_TYPE_"
SPEC_TYPES: Mapping[str, str | int] = MappingProxyType(
    {
        name: _SPEC + name.upper().replace("-", "_")
        for name in (
            "none", "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark",
            "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache",
        )
    }
)  # fmt: skip
_KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
_KV = {name: f"GGML_TYPE_{name.upper()}" for name in _KV_TYPES}
_LOAD = {name.lower().replace("_", "+"): name for name in ("AUTO", "NONE", "MMAP", "MLOCK", "MMAP_MLOCK")}
_LOAD["dio"] = "DIRECT_IO"
_PRIO = {"-1": "LOW", "0": "NORMAL", "1": "MEDIUM", "2": "HIGH", "3": "REALTIME"}
_PRIO = {word: f"GGML_SCHED_PRIO_{name}" for word, name in _PRIO.items()}
_FA = {"on": "ENABLED", "off": "DISABLED", "auto": "AUTO"}
_GPU_WORDS = MappingProxyType[str, str | int]({"auto": -1, "all": -2})


def _cpu_flags() -> tuple[Flag, ...]:
    """Threads, polling, priority and placement of the four thread pools (suffix, field, spec-style name)."""
    flags: list[Flag] = []
    for suffix, short, holder in (
        ("", "", "cpuparams"),
        ("-batch", "b", "cpuparams_batch"),
        ("-draft", "d", "speculative.draft.cpuparams"),
        ("-batch-draft", "bd", "speculative.draft.cpuparams_batch"),
    ):
        draft = suffix.endswith("draft")
        part = "-batch" if "batch" in suffix else ""

        def names(base: str, part: str = part, suffix: str = suffix, draft: bool = draft) -> str:
            return f"--{base}{suffix}" + (f" --spec-draft-{base}{part}" if draft else "")

        flags += [
            _int(f"{names('threads')} -t{short}", f"{holder}.n_threads"),
            _int(names("poll"), f"{holder}.poll", 0, 100),
            _choice(names("cpu-strict"), f"{holder}.strict_cpu", None, {"0": 0, "1": 1}),
            _choice(names("prio"), f"{holder}.priority", "ggml_sched_priority", _PRIO),
        ]
    return tuple(flags)


def _ngram_flags() -> tuple[Flag, ...]:
    flags = [
        _int("--spec-ngram-mod-n-match", "speculative.ngram_mod.n_match", 1, 1024),
        _int("--spec-ngram-mod-n-min", "speculative.ngram_mod.n_min", 0, 1024),
        _int("--spec-ngram-mod-n-max", "speculative.ngram_mod.n_max", 0, 1024),
    ]
    for name in ("simple", "map-k", "map-k4v"):
        holder = f"speculative.ngram_{name.replace('-', '_')}"
        flags += [
            _int(f"--spec-ngram-{name}-size-n", f"{holder}.size_n", 1, 1024),
            _int(f"--spec-ngram-{name}-size-m", f"{holder}.size_m", 1, 1024),
            _int(f"--spec-ngram-{name}-min-hits", f"{holder}.min_hits", 1),
        ]
    return tuple(flags)


_MODEL = (
    _text("--model -m", "model.path"),
    Flag(("--alias", "-a"), "words", "model_alias", wrap="set"),
    _int("--ctx-size -c", "n_ctx", 0),
    _int("--predict -n --n-predict", "n_predict", -1),
    _int("--batch-size -b", "n_batch", 1),
    _int("--ubatch-size -ub", "n_ubatch", 1),
    _int("--keep", "n_keep", -1),
    _int("--parallel -np", "n_parallel", 1),
    Flag(("--n-gpu-layers", "-ngl", "--gpu-layers"), "int", "n_gpu_layers", choices=_GPU_WORDS, low=0),
    _int("--main-gpu -mg", "main_gpu", 0),
    _choice(
        "--split-mode -sm", "split_mode", "llama_split_mode",
        {word: f"LLAMA_SPLIT_MODE_{word.upper()}" for word in ("none", "layer", "row", "tensor")},
    ),
    _choice(
        "--flash-attn -fa", "flash_attn_type", "llama_flash_attn_type",
        {word: f"LLAMA_FLASH_ATTN_TYPE_{name}" for word, name in _FA.items()},
    ),
    _choice("--cache-type-k -ctk", "cache_type_k", "ggml_type", _KV),
    _choice("--cache-type-v -ctv", "cache_type_v", "ggml_type", _KV),
    _choice(
        "--load-mode -lm", "load_mode", "llama_load_mode",
        {word: f"LLAMA_LOAD_MODE_{name}" for word, name in _LOAD.items()},
    ),
    _choice(
        "--lazy-mode -lzm", "lazy_mode", "llama_lazy_mode",
        {word: f"LLAMA_LAZY_MODE_{word.upper()}" for word in ("on", "auto", "off")},
    ),
    _choice(
        "--numa", "numa", "ggml_numa_strategy",
        {word: f"GGML_NUMA_STRATEGY_{word.upper()}" for word in ("distribute", "isolate", "numactl")},
    ),
    _switch("--repack", "no_extra_bufts", "--no-repack -nr", negated=True),
    _switch("--no-host", "no_host"),
    _switch("--op-offload", "no_op_offload", "--no-op-offload", negated=True),
    _switch("--kv-offload -kvo", "no_kv_offload", "--no-kv-offload -nkvo", negated=True),
    _switch("--kv-unified -kvu", "kv_unified", "--no-kv-unified -no-kvu"),
    _int("--kv-unified-per-slot", "kv_unified_per_slot", 0),
    _switch("--check-tensors", "check_tensors"),
    _switch("--warmup", "warmup", "--no-warmup"),
    _switch("--swa-full", "swa_full"),
    _switch("--context-shift", "ctx_shift", "--no-context-shift"),
    _switch("--cont-batching -cb", "cont_batching", "--no-cont-batching -nocb"),
    Flag(("--fit", "-fit"), "onoff", "fit_params"),
    _int("--fit-ctx -fitc", "fit_params_min_ctx", 0),
    _float("--rope-freq-base", "rope_freq_base", 0),
    _float("--rope-freq-scale", "rope_freq_scale", 0),
    _int("--yarn-orig-ctx", "yarn_orig_ctx", 0),
    _float("--yarn-ext-factor", "yarn_ext_factor"),
    _float("--yarn-attn-factor", "yarn_attn_factor"),
    _float("--yarn-beta-slow", "yarn_beta_slow"),
    _float("--yarn-beta-fast", "yarn_beta_fast"),
)  # fmt: skip

_SERVER = (
    Flag(("--host",), "words", "hostnames", wrap="list", older="hostname"),
    _int("--port", "port", 0, 65535),
    _int("--threads-http", "n_threads_http", 1),
    _int("--cache-ram -cram", "cache_ram_mib", -1),
    _switch("--cache-prompt", "cache_prompt", "--no-cache-prompt"),
    _int("--cache-reuse", "n_cache_reuse", 0),
    _switch("--cache-idle-slots", "cache_idle_slots", "--no-cache-idle-slots"),
    _int("--ctx-checkpoints -ctxcp --swa-checkpoints", "n_ctx_checkpoints", 0),
    _int("--checkpoint-min-step -cms", "checkpoint_min_step", 0),
    _switch("--metrics", "endpoint_metrics"),
    _switch("--props", "endpoint_props"),
    _switch("--slots", "endpoint_slots", "--no-slots"),
    _float("--slot-prompt-similarity -sps", "slot_prompt_similarity", 0, 1),
    _switch("--jinja", "use_jinja", "--no-jinja"),
    _text("--chat-template", "chat_template"),
    _switch("--prefill-assistant", "prefill_assistant", "--no-prefill-assistant"),
    _switch("--special -sp", "special"),
    _switch("--offline", "offline"),
    _int("--verbosity -lv --log-verbosity", "verbosity", 0),
    Flag(("--verbose", "-v", "--log-verbose"), "const", "verbosity", const=2**31 - 1),
)

_SPECULATIVE = (
    Flag(("--spec-type",), "types", "speculative.types", choices=SPEC_TYPES, enum="common_speculative_type"),
    _int("--spec-draft-n-max", "speculative.draft.n_max", 0),
    _int("--spec-draft-n-min", "speculative.draft.n_min", 0),
    _float("--spec-draft-p-min --draft-p-min", "speculative.draft.p_min", 0, 1),
    _float("--spec-draft-p-split --draft-p-split", "speculative.draft.p_split", 0, 1),
    _choice(
        "--spec-draft-sampling", "speculative.draft.probabilistic", None, {"greedy": 0, "probabilistic": 1}
    ),
    _switch(
        "--spec-draft-backend-sampling", "speculative.draft.backend_sampling",
        "--no-spec-draft-backend-sampling",
    ),
    _text("--spec-draft-model -md --model-draft", "speculative.draft.mparams.path"),
    Flag(
        ("--spec-draft-ngl", "-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft"), "int",
        "speculative.draft.n_gpu_layers", choices=_GPU_WORDS, low=0,
    ),
    _choice(
        "--spec-draft-type-k -ctkd --cache-type-k-draft", "speculative.draft.cache_type_k", "ggml_type", _KV
    ),
    _choice(
        "--spec-draft-type-v -ctvd --cache-type-v-draft", "speculative.draft.cache_type_v", "ggml_type", _KV
    ),
    _text("--lookup-cache-static -lcs", "speculative.ngram_cache.lookup_cache_static"),
    _text("--lookup-cache-dynamic -lcd", "speculative.ngram_cache.lookup_cache_dynamic"),
    _float("--spec-synth-len", "speculative.synth_len", 1),
    Flag(("--spec-synth-rates",), "floats", "speculative.synth_rates", low=0, high=1, wrap="list"),
    *_ngram_flags(),
)  # fmt: skip

# Defaults of the server's sampler. Each cell states temperature and seed itself, so those two are refused.
_SAMPLER = (
    _sampling("--top-k", "top_k", "TOP_K", kind="int"),
    _sampling("--top-p", "top_p", "TOP_P"),
    _sampling("--min-p", "min_p", "MIN_P"),
    _sampling("--repeat-penalty", "penalty_repeat", "PENALTY_REPEAT"),
    Flag(("--presence-penalty",), "float", "sampling.penalty_present"),
    Flag(("--frequency-penalty",), "float", "sampling.penalty_freq"),
)

FLAGS: tuple[Flag, ...] = (*_MODEL, *_override_flags(), *_cpu_flags(), *_SERVER, *_SPECULATIVE, *_SAMPLER)
