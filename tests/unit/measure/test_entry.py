"""Rest before a server starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_ngram.errors import OptionError
from pytest_ngram.measure.entry import Rest, check, enter
from pytest_ngram.measure.sysfs import Machine
from pytest_ngram.record import Entry

Hosts = Callable[[str], Machine]
TCTL = "sys/class/hwmon/hwmon1/temp1_input"


class Cooling:
    """A machine that gets one degree cooler a second, and a clock that only sleeping moves."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        file = self.machine.path(TCTL)
        file.write_text(str(int(file.read_text()) - int(1000 * seconds)))

    def enter(self, rest: Rest) -> Entry:
        return enter(rest, self.machine, sleep=self.sleep, now_s=lambda: self.now)


@pytest.fixture
def cooling(host_of: Hosts) -> Cooling:
    return Cooling(host_of("amd-desktop"))


def test_without_a_wish_nothing_is_waited_for(cooling: Cooling) -> None:
    """The state is read all the same: temperature, load, pressure, free memory."""
    entry = cooling.enter(Rest())
    assert (entry.waited_s, entry.gave_up, entry.temp_c) == (0.0, None, 63.25)
    assert entry.temp_sensor == "k10temp Tctl"
    assert entry.pressure is not None
    assert (entry.pressure.cpu, entry.pressure.over_s) == (1.5, 10.0)
    assert entry.free_mb is not None
    assert entry.load1 is not None
    assert entry.busy is None
    assert "--ngram-settle" in entry.absent["busy"]


def test_it_settles_for_as_long_as_was_asked(cooling: Cooling) -> None:
    """--ngram-settle waits whatever the temperature."""
    assert cooling.enter(Rest(settle_s=20)).waited_s == 20.0


def test_it_waits_until_it_is_cool(cooling: Cooling) -> None:
    """From 63.25 °C, at a degree a second, 60 °C are reached after four looks."""
    entry = cooling.enter(Rest(max_temp_c=60))
    assert (entry.waited_s, entry.gave_up) == (4.0, None)
    assert entry.temp_c == pytest.approx(59.25)


def test_it_gives_up(cooling: Cooling) -> None:
    """After the deadline the server is started hot, and the record says how hot."""
    rest = Rest(max_temp_c=20, deadline_s=10)
    entry = cooling.enter(rest)
    assert entry.waited_s == 10.0
    assert entry.gave_up == "k10temp Tccd1 is at 55 °C, not 20 °C, after 10 s"


def test_a_sensor_that_is_not_there_is_told_before_the_run(host_of: Hosts) -> None:
    """The error names those that are there; on a machine with none it says to leave the option out."""
    check(Rest(max_temp_c=80), host_of("amd-desktop"))
    check(Rest(), host_of("virtual-machine"))
    with pytest.raises(OptionError, match=r"nvme Composite: 82 °C[\s\S]*--ngram-temp-sensor"):
        check(Rest(max_temp_c=80, sensor="battery"), host_of("amd-desktop"))
    with pytest.raises(OptionError, match="leave out --ngram-max-temp"):
        check(Rest(max_temp_c=80), host_of("virtual-machine"))
