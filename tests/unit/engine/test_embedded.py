from __future__ import annotations

from typing import Any

import pytest
import xllamacpp

from pytest_ngram.engine import embedded, flags
from pytest_ngram.engine.flag_table import FLAGS, Flag
from pytest_ngram.errors import EngineError

# as llama.cpp writes them (common/common.h)
EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
LAYER_0, LAYER_1 = (rf"blk\.{layer}{EXPERTS}=CPU" for layer in (0, 1))


def params_of(line: str) -> Any:
    return embedded.common_params(flags.parse(line.split()), xllamacpp)


def sample(flag: Flag) -> list[str]:
    """A command line that gives this flag some allowed value."""
    if not flag.takes_value:
        return [flag.names[0]]
    words = list(flag.choices)
    number = str(int(flag.low or 1))
    value = {"onoff": "on", "text": "x", "words": "x", "floats": "0.5", "pairs": "x=CPU"}.get(flag.kind)
    return [flag.names[0], value or (words[-1] if words else number)]


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.key)
def test_every_flag_has_a_place(flag: Flag) -> None:
    """Each flag of the table is accepted and lands in a field of the installed build's `CommonParams`."""
    embedded.common_params(flags.parse(sample(flag)), xllamacpp)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("-c 77", "n_ctx", 77),
        ("-ub 8", "n_ubatch", 8),
        ("--no-repack", "no_extra_bufts", True),
        ("--repack", "no_extra_bufts", False),
        ("-kvo", "no_kv_offload", False),
        ("--no-warmup", "warmup", False),
        ("-t 3", "cpuparams_batch.n_threads", 3),
        ("-t 3", "speculative.draft.cpuparams_batch.n_threads", 3),
        ("-t 3 -tb 2", "cpuparams_batch.n_threads", 2),
        ("--cpu-strict 1", "cpuparams.strict_cpu", True),
        ("--host 127.0.0.1,::1", "hostnames", ["127.0.0.1", "::1"]),
        ("-a b", "model_alias", {"b"}),
        ("-ncmoe 0", "tensor_buft_overrides", ""),
        ("-ncmoe 2", "tensor_buft_overrides", f"{LAYER_0},{LAYER_1}"),
        ("-cmoe", "tensor_buft_overrides", f"{EXPERTS}=CPU"),
        ("-ot a=CPU,b=CPU", "tensor_buft_overrides", "a=CPU,b=CPU"),
        ("-ot a=CPU -ncmoe 1 -cmoe", "tensor_buft_overrides", f"a=CPU,{LAYER_0},{EXPERTS}=CPU"),
        ("-ncmoe 1 -ot a=CPU", "tensor_buft_overrides", f"{LAYER_0},a=CPU"),
        ("-ncmoed 1", "speculative.draft.tensor_buft_overrides", LAYER_0),
        ("-cmoed -otd a=CPU", "speculative.draft.tensor_buft_overrides", f"{EXPERTS}=CPU,a=CPU"),
        ("-md d.gguf", "speculative.draft.mparams.path", "d.gguf"),
        ("-lcs t.bin", "speculative.ngram_cache.lookup_cache_static", "t.bin"),
        ("--spec-ngram-mod-n-match 5", "speculative.ngram_mod.n_match", 5),
        ("--spec-draft-sampling probabilistic", "speculative.draft.probabilistic", True),
        ("--spec-synth-rates 0.5,0.25", "speculative.synth_rates", [0.5, 0.25]),
    ],
)
def test_value_lands_in_its_field(line: str, field: str, value: object) -> None:
    """A flag sets its field to its value, turned round where the field means the opposite."""
    holder = params_of(line)
    for part in field.split("."):
        holder = getattr(holder, part)
    assert holder == value


@pytest.mark.parametrize(
    ("line", "field", "member"),
    [
        ("-fa off", "flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_DISABLED"),
        ("-ctv q4_0", "cache_type_v", "GGML_TYPE_Q4_0"),
        ("--no-mmap", "load_mode", "LLAMA_LOAD_MODE_NONE"),
        ("--prio 2", "cpuparams.priority", "GGML_SCHED_PRIO_HIGH"),
        ("--numa isolate", "numa", "GGML_NUMA_STRATEGY_ISOLATE"),
    ],
)
def test_word_becomes_its_enum_member(line: str, field: str, member: str) -> None:
    """A word sets its field to the member of llama.cpp's enum that it names."""
    holder = params_of(line)
    for part in field.split("."):
        holder = getattr(holder, part)
    assert holder.name == member


def test_types_become_members() -> None:
    """Speculative types arrive in the order written."""
    types = params_of("--spec-type ngram-mod,draft-mtp").speculative.types
    assert [member.name for member in types] == [
        "COMMON_SPECULATIVE_TYPE_NGRAM_MOD",
        "COMMON_SPECULATIVE_TYPE_DRAFT_MTP",
    ]


def test_threads_of_zero_are_all_cores() -> None:
    """`-t 0` means all cores, as in llama-server."""
    assert params_of("-t 0").cpuparams.n_threads >= 1


def test_sampler_flag_marks_itself_as_given() -> None:
    """A sampler flag sets the bit without which the model file's own defaults would win."""
    assert params_of("--top-k 3").sampling.user_sampling_config != 0
    assert params_of("-c 1").sampling.user_sampling_config == 0


def test_memory_that_a_build_lacks_is_refused() -> None:
    """A buffer type that this build does not have is refused with the flag's name."""
    with pytest.raises(EngineError, match="--override-tensor: unknown buffer type") as caught:
        params_of("-ot exps=CUDA7")
    assert caught.value.outcome == "refused"
    assert caught.value.checked == ("given: exps=CUDA7",)


def test_field_that_a_build_lacks_is_refused() -> None:
    """A flag whose field the build does not have is refused by name, never dropped."""

    class Old:
        class CommonParams:
            pass

    with pytest.raises(EngineError, match="--ctx-size is not offered by this build"):
        embedded.common_params(flags.parse(["-c", "1"]), Old)


def test_single_host_on_builds_before_the_list() -> None:
    """Builds whose field holds one address take one, and refuse two."""

    class Old:
        class CommonParams:
            hostname = ""

    assert embedded.common_params(flags.parse(["--host", "::1"]), Old).hostname == "::1"
    with pytest.raises(EngineError, match="not offered"):
        embedded.common_params(flags.parse(["--host", "::1,127.0.0.1"]), Old)


@pytest.mark.parametrize(
    ("version", "build"),
    [("2026.10.11549", "b11549"), ("2026.9.11063", "b11063"), ("0.3", None), ("1.2.x", None)],
)
def test_build_from_the_version(version: str, build: str | None) -> None:
    """The third part of the package's version is llama.cpp's build."""
    assert embedded.build_of(version) == build
