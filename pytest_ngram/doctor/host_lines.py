"""What a host's facts mean for measuring: cores, governor, pressure, other processes, clock, swap. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pytest_ngram.doctor.line import Line, fail, ok, warn, worst
from pytest_ngram.record import MIB
from pytest_ngram.verdict.contention import OTHERS, PRESSURE

_NAMED_FROM = 0.02  # of one core: a process below is not named
_NAMED_AT_MOST = 5
_SWAP_BYTES = 256 * MIB  # a desktop leaves some old pages there; more means that memory was short
_COARSE_S = 1e-3  # a decode of a small model takes as long
_FINE_S = 1e-5
_STEADY_SOURCES = frozenset(
    {"tsc", "arch_sys_counter", "riscv_clocksource", "timebase", "tod", "stable_counter"}
)
_VIRTUAL_SOURCES = ("kvm-clock", "hyperv", "xen")
# These scale by load even under the name `powersave`; others then stay at the lowest frequency.
_SCALING_DRIVERS = frozenset({"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"})
_SET_GOVERNOR = "sudo cpupower frequency-set -g performance"


@dataclass(frozen=True)
class Cores:
    """What this process may use: cores, what they run at once (hyper-threads), and its quota in cores."""

    cores: int | None
    threads: int | None
    quota: float | None = None


def cores(wanted: Mapping[str, int], host: Cores) -> Line:
    """Hold `-t` against the cores.

    Args:
        wanted: threads by model; 0 where it is left to llama.cpp, which takes one a core.
        host: what there is.
    """
    what = _what_there_is(host)
    if not wanted:
        return ok("cores", what)
    most_first = sorted(wanted.items(), key=lambda item: -item[1])
    return worst([_cores_of(model, n, host, what) for model, n in most_first])


def _what_there_is(host: Cores) -> str:
    if host.threads is None:
        return "cores that cannot be counted"
    count = f"{host.cores} cores" if host.cores is not None else "an unknown number of cores"
    text = f"{count}, {host.threads} threads at once"
    return text if host.quota is None else f"{text}, a quota of {host.quota:g} cores"


def _cores_of(model: str, n: int, host: Cores, what: str) -> Line:
    use = host.cores or host.threads
    if n > 0 and host.threads is not None and n > host.threads:
        return fail(
            "cores",
            f"{model} asks for -t {n}; there are {what}: threads wait for each other at every step",
            f"write -t {use}",
        )
    if host.quota is not None and (n or use or 0) > host.quota:
        return fail(
            "cores",
            f"{model} uses {n or use} threads; there are {what}: all of them are stopped when it is used up",
            f"write -t {max(1, int(host.quota))}, or lift the quota (cpu.max of the control group)",
        )
    if n > 0 and host.cores is not None and n > host.cores:
        return warn(
            "cores",
            f"{model} asks for -t {n}; there are {what}: hyper-threads share a core's arithmetic",
            f"write -t {host.cores}, or measure both",
        )
    return ok("cores", f"{what}; {model} takes {f'-t {n}' if n > 0 else 'what llama.cpp chooses'}")


@dataclass(frozen=True)
class Governor:
    """How frequencies are set: governors of the cores, their driver, what that prefers: power or speed."""

    governors: tuple[str, ...] = ()
    driver: str | None = None
    preference: str | None = None


def governor(host: Governor) -> Line:
    """Judge whether the cores run as fast as they can while they are busy."""
    names = sorted(set(host.governors))
    if not names:
        return ok("governor", "not told by this host (of a virtual machine, its own host decides)")
    said = f"{', '.join(names)} (driver {host.driver or 'unknown'})"
    if len(names) > 1:
        return warn("governor", f"{said}: cores differ, so it matters where a thread runs", _SET_GOVERNOR)
    if names == ["powersave"] and host.driver not in _SCALING_DRIVERS:
        return warn("governor", f"{said}: the cores stay at their lowest frequency", _SET_GOVERNOR)
    if names in (["userspace"], ["conservative"]):
        return warn("governor", f"{said}: the frequency does not follow the load at once", _SET_GOVERNOR)
    if names != ["performance"] and host.preference in ("power", "balance_power"):
        return warn("governor", f"{said}, preference {host.preference}: slower to save power", _SET_GOVERNOR)
    return ok("governor", said)


def power(on_battery: bool | None) -> Line:
    """Judge where the power comes from; None where there is no battery that tells."""
    if on_battery:
        return warn("power", "from a battery, which slows the cores down and ends", "plug it in")
    return ok("power", "no battery" if on_battery is None else "not from the battery")


def pressure(some_avg10: Mapping[str, float]) -> Line:
    """Judge what tasks waited for in the last ten seconds.

    Args:
        some_avg10: percent of the time by resource (`cpu`, `memory`, `io`); absent where it is not told.
    """
    if not some_avg10:
        return warn(
            "pressure",
            "not told by this kernel, so contention during cells is seen less well",
            "boot with psi=1 (in a container: show it /proc/pressure)",
        )
    said = ", ".join(f"{name} {percent:g} %" for name, percent in some_avg10.items())
    high = [name for name, percent in some_avg10.items() if percent >= PRESSURE]
    if not high:
        return ok("pressure", f"{said} of the last 10 s")
    return warn(
        "pressure", f"{said} of the last 10 s: tasks wait for {', '.join(high)}", "let it get quiet first"
    )


@dataclass(frozen=True)
class Busy:
    """What others took while the doctor slept.

    Args:
        by_name: shares of one core by command name, those of one name added up.
        share: of all cores' time, known even where the processes are not.
        another_run: whether another run of this plugin measures.
    """

    by_name: Mapping[str, float]
    share: float
    another_run: bool = False


def busy(host: Busy) -> Line:
    """Judge whether something else runs."""
    top = sorted(host.by_name.items(), key=lambda item: -item[1])[:_NAMED_AT_MOST]
    named = ", ".join(f"{name} {share:.0%}" for name, share in top if share >= _NAMED_FROM)
    said = f"others take {min(max(host.share, 0), 1):.0%} of all cores" + (
        f"; of one core: {named}" if named else ""
    )
    if host.another_run:
        return warn("busy", f"another run is measuring on this host; {said}", "wait until it has ended")
    if host.share <= OTHERS:
        return ok("busy", said)
    return warn("busy", said, "end them, or wait" if named else "find them with top, and end them or wait")


@dataclass(frozen=True)
class Clock:
    """The clock that times are read from.

    Args:
        source: the kernel's name for it, None where it is not told.
        step_s: the smallest step that was seen between two readings.
        read_s: how long a reading takes.
        backwards: how often a reading was before the one that came first.
        now_s: the date, in seconds since 1970.
        installed_s: when this package was installed, the same; None where that is not known.
    """

    source: str | None
    step_s: float
    read_s: float
    backwards: int
    now_s: float
    installed_s: float | None


def clock(host: Clock) -> Line:
    """Judge whether times can be told, and the dates of saved runs."""
    costs = f"a reading takes {_time(host.read_s)}, steps of {_time(host.step_s)}"
    said = f"{host.source or 'source not told'}, {costs}"
    if host.backwards:
        return fail(
            "clock",
            f"{said}: it went backwards {host.backwards} times",
            "measure on another host, or boot with another clocksource=",
        )
    if host.step_s > _COARSE_S:
        return fail("clock", f"{said}: a step of a small model is no longer", _use_tsc())
    if host.step_s > _FINE_S or not _steady(host.source):
        return warn(
            "clock", f"{said}: slow or coarse, and often a sign that the processor's is unsteady", _use_tsc()
        )
    if host.installed_s is not None and host.now_s < host.installed_s:
        day = datetime.fromtimestamp(host.now_s, UTC).date()
        return warn(
            "clock",
            f"it is {day} by it, before this plugin was installed: saved runs would bear wrong dates",
            "set the date: sudo timedatectl set-ntp true",
        )
    return ok("clock", said)


def _steady(source: str | None) -> bool:
    return source is None or source in _STEADY_SOURCES or source.startswith(_VIRTUAL_SOURCES)


def _use_tsc() -> str:
    return "see why the kernel left tsc: dmesg | grep -i -e tsc -e clocksource"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def swap(used_bytes: int, total_bytes: int) -> Line:
    """Judge whether memory was short lately."""
    if total_bytes <= 0:
        return ok("swap", "none")
    said = f"{used_bytes / MIB:.0f} of {total_bytes / MIB:.0f} MiB in use"
    if used_bytes < _SWAP_BYTES:
        return ok("swap", said)
    return warn(
        "swap",
        f"{said}: memory was short, and what comes back from there stalls cells",
        "close what holds memory, then: sudo swapoff -a && sudo swapon -a",
    )
