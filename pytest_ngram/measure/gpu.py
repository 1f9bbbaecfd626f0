"""How busy graphics cards are and what memory they hold: amdgpu by its files, NVIDIA by NVML where it is."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from pytest_ngram.measure.sysfs import Absent, Machine, amd_busy, amd_memory_mb, text
from pytest_ngram.record import MIB

_INSTALL = "an NVIDIA card is here, but not the Python package nvidia-ml-py, which reads it"


@dataclass(frozen=True)
class Cards:
    """What all cards of the machine do now: `busy` 0 to 1 of the busiest, memory in MiB of all together."""

    busy: float | Absent
    vram_mb: float | Absent
    gtt_mb: float | Absent


class Gpu:
    """Reads the cards of a machine.

    Args:
        machine: whose cards.
        nvml: NVIDIA's library; None loads it where the machine has its driver.
    """

    def __init__(self, machine: Machine, nvml: Any = None) -> None:
        self._cards = machine.cards
        self._nvml: Any = nvml
        self._handles: list[Any] = []
        self._why: str | None = None
        if nvml is not None or machine.path("proc/driver/nvidia/version").exists():
            self._open()

    def read(self) -> Cards:
        """Return what the cards do at this moment."""
        busy, vram_mb = amd_busy(self._cards), amd_memory_mb(self._cards, "vram")
        for handle in self._handles:
            busy_here, vram_here = self._ask(handle)
            busy = max(busy or 0.0, busy_here) if busy_here is not None else busy
            vram_mb = (vram_mb or 0.0) + vram_here if vram_here is not None else vram_mb
        gtt_mb = amd_memory_mb(self._cards, "gtt")
        why = Absent(self._why or self._no_card())
        return Cards(
            busy=why if busy is None else busy,
            vram_mb=why if vram_mb is None else vram_mb,
            gtt_mb=Absent("no card of amdgpu") if gtt_mb is None else gtt_mb,
        )

    def _open(self) -> None:
        try:
            self._nvml = self._nvml or importlib.import_module("pynvml")
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            self._handles = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
        except ImportError:
            self._why = _INSTALL
        except self._nvml.NVMLError as error:
            self._why = f"NVML: {error}"

    def _ask(self, handle: Any) -> tuple[float | None, float | None]:
        """A card may tell the one and not the other, as those do that share the system's memory."""
        nvml = self._nvml
        busy = vram_mb = None
        try:
            busy = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        except nvml.NVMLError as error:
            self._why = f"NVML: {error}"
        try:
            vram_mb = nvml.nvmlDeviceGetMemoryInfo(handle).used / MIB
        except nvml.NVMLError as error:
            self._why = f"NVML: {error}"
        return busy, vram_mb

    def _no_card(self) -> str:
        drivers = {(card / "driver").resolve().name for card in self._cards if (card / "driver").exists()}
        drivers |= {each for card in self._cards if (each := _driver(text(card / "uevent")))}
        if drivers:
            return f"the driver of the graphics card does not tell ({', '.join(sorted(drivers))})"
        return "no graphics card" if not self._cards else "the driver of the graphics card does not tell"


def _driver(uevent: str | None) -> str | None:
    lines = (uevent or "").splitlines()
    return next((line.partition("=")[2] for line in lines if line.startswith("DRIVER=")), None)
