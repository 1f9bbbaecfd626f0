"""Which instructions a build was made for, and which of them this CPU lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_ngram.errors import EngineError

# What llama.cpp's `system_info` line calls an instruction set, and what /proc/cpuinfo calls all of it.
_CPUINFO_NAMES = {
    "SSE3": ("pni",),
    "SSSE3": ("ssse3",),
    "AVX": ("avx",),
    "AVX_VNNI": ("avx_vnni",),
    "AVX2": ("avx2",),
    "F16C": ("f16c",),
    "FMA": ("fma",),
    "BMI2": ("bmi2",),
    "AVX512": ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"),
    "AVX512_VBMI": ("avx512vbmi",),
    "AVX512_VNNI": ("avx512_vnni",),
    "AVX512_BF16": ("avx512_bf16",),
    "AMX_INT8": ("amx_tile", "amx_int8"),
    "NEON": ("asimd",),
    "ARM_FMA": ("asimd",),
    "FP16_VA": ("asimdhp",),
    "DOTPROD": ("asimddp",),
    "MATMUL_INT8": ("i8mm",),
    "SVE": ("sve",),
    "SME": ("sme",),
}
_CPU_PART = re.compile(r"system_info:.*?\| CPU :(?P<sets>[^:]*)")
_SET = re.compile(r"(\w+) = 1")
_HEAD_BYTES = 256 * 1024
# of a long list of CPU flags, the ones that a llama.cpp build may ask for
_TELLING = frozenset(name for names in _CPUINFO_NAMES.values() for name in names)


def wanted_by(log_text: str) -> tuple[str, ...]:
    """Return the instruction sets that the `system_info` line (`-lv 4`) names; empty where there is none.

    llama.cpp prints what it was compiled for, not what the CPU has.
    """
    found = _CPU_PART.search(log_text)
    return tuple(name for name in _SET.findall(found["sets"]) if name in _CPUINFO_NAMES) if found else ()


def missing(wanted: Iterable[str], cpu: frozenset[str]) -> tuple[str, ...]:
    """Return those of `wanted` that a CPU with these flags does not have."""
    return tuple(name for name in wanted if not cpu.issuperset(_CPUINFO_NAMES[name]))


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the first processor's flags; empty where they cannot be read."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def explain_sigill(error: EngineError, program: Path, log_path: Path, cpu: frozenset[str]) -> EngineError:
    """Say of a server that died of SIGILL what this CPU lacks, as far as the build tells.

    Args:
        error: the plain explanation, whose outcome, checks and log are kept.
        program: the binary.
        log_path: its log, whose first 256 KiB are searched for `system_info`.
        cpu: `cpu_flags()`.
    """
    wanted = wanted_by(_head(log_path))
    lacking = missing(wanted, cpu) if cpu else ()
    cause = f"{program.name} needs instructions that this CPU lacks"
    has = sorted(cpu & _TELLING)
    checked = [*error.checked, f"program: {program}"]
    if lacking:
        cause += f": {', '.join(lacking)}"
        checked.append(f"it was built for: {', '.join(wanted)}")
    else:
        cause += "; it does not say which"
        checked.append(f"it was built for: {', '.join(wanted) or 'its log does not say'}")
        checked += _variants(program)
    checked.append(f"this CPU has: {', '.join(has) or 'flags that cannot be read'}")
    return EngineError(
        cause,
        outcome=error.outcome,
        checked=checked,
        fix="use a build made on this host (cmake -DGGML_NATIVE=ON), or a portable one (embedded)",
        log_tail=error.log_tail,
    )


def _variants(program: Path) -> Sequence[str]:
    """Name the CPU variants that lie beside the program (`libggml-cpu-haswell.so`)."""
    found = sorted(path.name for path in program.resolve().parent.glob("libggml-cpu-*.so"))
    return [f"CPU variants beside it: {', '.join(found)}"] if found else []


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
