"""What a cell's record says of the host, from what was counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_ngram.measure.gpu import Gpu
from pytest_ngram.measure.host import LEAST_S, Probe, slope_mb
from pytest_ngram.measure.sampler import MOST_SHARE, Sampled, Sampler, Span, between, counters
from pytest_ngram.measure.sysfs import Machine

Hosts = Callable[[str], Machine]


def a_span(seconds: float = 2.0, server_s: float | None = 1.9, sampled: Sampled | None = None) -> Span:
    """Of two cores: three seconds busy, of which a tenth was stolen."""
    return Span(seconds, 3.0, 0.1, 4.0, server_s, 0.1, {"cpu": 500_000}, 0, 6, sampled or Sampled())


def test_others_are_what_neither_the_server_nor_we_took(host_of: Hosts) -> None:
    """Busy 3.0 s less the server's 1.9 and our 0.1 are 1.0 s of the 4 that two cores had; steal is in it."""
    probe = Probe(77, host_of("amd-desktop"))
    host = probe.host(a_span(), probe.temperature())
    assert (host.cpu_busy, host.server_busy, host.own_busy) == pytest.approx((0.75, 0.475, 0.025))
    assert (host.others_busy, host.steal) == pytest.approx((0.25, 0.025))
    assert host.pressure is not None
    assert (host.pressure.cpu, host.pressure.io, host.pressure.over_s) == (25.0, None, 2.0)
    assert host.temp_sensor == "k10temp Tctl"
    assert host.temp_before_c == 63.25
    assert set(host.absent) == {"on_battery", "gpu_busy"}


def test_a_short_request_has_no_shares(host_of: Hosts) -> None:
    """Below what ticks of 10 ms can tell, shares are null with the reason; pressure is counted finer."""
    probe = Probe(77, host_of("amd-desktop"))
    host = probe.host(a_span(LEAST_S / 2), probe.temperature())
    assert host.others_busy is None
    assert "too short" in host.absent["others_busy"]
    assert host.pressure is not None


def test_a_server_elsewhere_leaves_others_unknown(host_of: Hosts) -> None:
    """At a URL nobody knows what the server took, so what others took is null, not all of it."""
    probe = Probe(None, host_of("amd-desktop"))
    host = probe.host(a_span(server_s=None), probe.temperature())
    assert (host.server_busy, host.others_busy) == (None, None)
    assert host.absent["others_busy"] == "the server's process is not known here"
    assert probe.memory(a_span(), 10, []) is None


def test_samples_give_the_mean_load_and_the_highest_heat(host_of: Hosts) -> None:
    """A card's load is a mean over samples while requests ran; memory and heat are the highest seen."""
    sampled = Sampled(temp_c=(90.0, 70.0), gpu_busy=(0.5, 0.9), vram_mb=(9000.0,), samples=2, cost_s=0.01)
    probe = Probe(77, host_of("amd-desktop"))
    host = probe.host(a_span(sampled=sampled), probe.temperature())
    assert (host.temp_c, host.gpu_busy, host.vram_mb) == (90.0, pytest.approx(0.7), 9000.0)
    assert (host.samples, host.probe_share) == (2, 0.005)


def test_rounds_of_a_cell_add_up() -> None:
    """Two requests are one span; what is not known of one is not known of both."""
    both = a_span() + a_span(sampled=Sampled(samples=3, temp_c=(50.0,)))
    assert (both.seconds, both.busy_s, both.majflt, both.wait_us) == (4.0, 6.0, 12, {"cpu": 1_000_000})
    assert (both.sampled.samples, both.sampled.temp_c) == (3, (50.0,))
    assert (a_span() + a_span(server_s=None)).server_s is None


def test_faults_are_counted_by_token(host_of: Hosts) -> None:
    """Six major faults over 12 tokens are half a one each; no token, no share."""
    probe = Probe(77, host_of("amd-desktop"))
    found = probe.memory(a_span(), 12, [100.0, 110.0, 120.0])
    assert found is not None
    assert (found.majflt, found.majflt_per_token, found.anon_slope_mb) == (6, 0.5, 10.0)
    none = probe.memory(a_span(), 0, [])
    assert none is not None
    assert none.majflt_per_token is None


def test_memory_slope() -> None:
    """A straight line by least squares over the requests; null under three, or where one is not known."""
    assert slope_mb([100.0, 100.0, 130.0, 130.0]) == pytest.approx(12.0)
    assert slope_mb([50.0] * 4) == 0.0
    assert slope_mb([100.0, 200.0]) is None
    assert slope_mb([100.0, None, 120.0, 130.0]) is None


def test_counters_of_a_machine(host_of: Hosts) -> None:
    """Two readings give what was between them; a process that ended in between leaves the server unknown."""
    machine = host_of("amd-desktop")
    before = counters(machine, 77, 12)
    stat = machine.path("proc/stat")
    stat.write_text(stat.read_text().replace("cpu  10000 200 3000 80000", "cpu  10150 200 3000 80050"))
    own = machine.path("proc/77/stat")
    own.write_text(own.read_text().replace(" 4000 500 ", " 4100 500 "))
    span = between(before, counters(machine, 77, 15), Sampled())
    assert (span.busy_s, span.all_s, span.server_s, span.majflt) == pytest.approx((1.5, 2.0, 1.0, 3))
    own.unlink()
    assert between(before, counters(machine, 77, 15), Sampled()).server_s is None


def test_a_sampler_that_is_slow_looks_less_often(host_of: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its share of a core stays below 1 %: what costs 20 ms is not done ten times a second."""
    machine = host_of("amd-desktop")
    waits: list[float] = []
    sampler = Sampler(machine, Gpu(machine))
    clock = iter(0.02 * n for n in range(1, 6))
    monkeypatch.setattr("pytest_ngram.measure.sampler.time.thread_time", lambda: next(clock))

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 4

    monkeypatch.setattr(sampler._end, "wait", wait)
    sampler._run()
    assert waits[0] == 0.1
    assert waits[1:] == pytest.approx([0.02 / MOST_SHARE] * 3)
    assert sampler._samples == 3
