"""Which instructions a build wants, and which a CPU has."""

from __future__ import annotations

from pathlib import Path

from pytest_ngram.engine import isa
from pytest_ngram.errors import EngineError

# as b10434 prints it at -lv 4
SYSTEM_INFO = (
    "0.00.007.369 I cmn  common_param: system_info: n_threads = 1 (n_threads_batch = 1) / 2 | CPU : "
    "SSE3 = 1 | SSSE3 = 1 | AVX = 1 | AVX_VNNI = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | BMI2 = 1 | "
    "AVX512 = 1 | AVX512_VBMI = 1 | AVX512_VNNI = 1 | AVX512_BF16 = 1 | AMX_INT8 = 1 | LLAMAFILE = 1 | "
    "OPENMP = 1 | REPACK = 1 | "
)
HASWELL = frozenset(["pni", "ssse3", "avx", "avx2", "f16c", "fma", "bmi2", "sse4_2"])


def explained(tmp_path: Path, log: str, cpu: frozenset[str]) -> EngineError:
    path = tmp_path / "server.log"
    path.write_text(log)
    (tmp_path / "libggml-cpu-icelake.so").touch()
    plain = EngineError("died", outcome="crash", checked=["signal SIGILL (4)"], fix="x", log_tail=["last"])
    return isa.explain_sigill(plain, tmp_path / "llama-server", path, cpu)


def test_wanted_is_what_the_build_says() -> None:
    """The `system_info` line names what the build was compiled for; other entries are left out."""
    wanted = isa.wanted_by(SYSTEM_INFO)
    assert wanted[0] == "SSE3"
    assert wanted[-1] == "AMX_INT8"
    assert "OPENMP" not in wanted
    assert isa.wanted_by("no such line") == ()


def test_missing_is_named() -> None:
    """An AVX-512 build on a CPU of 2013 lacks five sets; on one that has them all, none."""
    assert isa.missing(isa.wanted_by(SYSTEM_INFO), HASWELL) == (
        "AVX_VNNI", "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16", "AMX_INT8",
    )  # fmt: skip
    assert isa.missing(["AVX2", "FMA"], HASWELL) == ()


def test_sigill_names_what_this_cpu_lacks(tmp_path: Path) -> None:
    """The error names the instruction sets, keeps the outcome, the checks and the log."""
    error = explained(tmp_path, SYSTEM_INFO, HASWELL)
    assert "this CPU lacks: AVX_VNNI, AVX512" in error.cause
    assert error.outcome == "crash"
    assert error.checked[0] == "signal SIGILL (4)"
    assert error.log_tail == ("last",)


def test_sigill_that_says_nothing(tmp_path: Path) -> None:
    """Where the build does not say what it wants, the CPU's own sets and the variants beside it are named."""
    error = explained(tmp_path, "", HASWELL)
    assert "does not say which" in error.cause
    assert any("avx2" in item for item in error.checked)
    assert any("libggml-cpu-icelake.so" in item for item in error.checked)


def test_cpu_flags(tmp_path: Path) -> None:
    """x86 says `flags`, ARM says `Features`; a file that is not there gives nothing."""
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nflags\t\t: fpu avx2\n\nprocessor : 1\nflags\t\t: fpu\n")
    assert isa.cpu_flags(path) == {"fpu", "avx2"}
    path.write_text("processor : 0\nFeatures\t: asimd sve\n")
    assert isa.cpu_flags(path) == {"asimd", "sve"}
    assert isa.cpu_flags(tmp_path / "none") == frozenset()
