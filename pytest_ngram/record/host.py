"""The machine and the engine's process while a cell ran, and what of that speaks against its number."""

from __future__ import annotations

import msgspec

MIB = 2**20  # bytes: the unit of every `*_mb` of the record


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Memory of the engine after the cell, in MiB, and its major page faults during the cell.

    `rss_peak_mb` is of the whole life of the process. `majflt_per_token` is by generated token.
    `anon_slope_mb` is how much anonymous memory the server gained with each request so far, as a straight
    line fits it best; null under three requests.
    """

    rss_anon_mb: float | None
    rss_file_mb: float | None
    rss_peak_mb: float | None
    majflt: int | None
    swap_mb: float | None = None
    majflt_per_token: float | None = None
    anon_slope_mb: float | None = None

    @property
    def rss_mb(self) -> float | None:
        """What is resident, in MiB: the engine's own and its files'; None where one of them is not known."""
        if self.rss_anon_mb is None or self.rss_file_mb is None:
            return None
        return self.rss_anon_mb + self.rss_file_mb


class Pressure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In how much of the time some task waited for a core, a disk or memory, in percent, by the kernel.

    `over_s` are the seconds that it is of: those of the cell's requests, or the kernel's own last 10 s.
    """

    cpu: float | None
    io: float | None
    memory: float | None
    over_s: float


class Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machine during the requests of the cell that are kept.

    Shares of processor time are of all cores, 0 to 1: `cpu_busy` of everybody, `server_busy` of the engine,
    `own_busy` of this program, `others_busy` of everybody else, the time that a hypervisor took (`steal`)
    counted in. `gpu_busy`, 0 to 1, is the mean of the busiest graphics card, sampled while requests ran.
    `psi_cpu` is the kernel's 10-second average at the end, in percent. `temp_c` is the highest seen,
    `temp_before_c` the one before the first request, both of `temp_sensor`. `throttles` counts how often the
    processor was slowed down for heat, by the kernel's own count. `vram_mb` and `gtt_mb` (system memory that
    a card uses) are of all cards, in MiB. `probe_share` is what looking took, as a share of one core.
    `absent` gives the reason for what is null.
    """

    cpu: str | None
    cores: int | None
    isa: tuple[str, ...] | None
    load1: float | None
    psi_cpu: float | None
    cpu_busy: float | None
    gpu_busy: float | None
    vram_mb: float | None
    temp_c: float | None
    governor: str | None
    seconds: float | None = None
    server_busy: float | None = None
    own_busy: float | None = None
    others_busy: float | None = None
    steal: float | None = None
    pressure: Pressure | None = None
    freq_mhz: float | None = None
    freq_min_mhz: float | None = None
    temp_sensor: str | None = None
    temp_before_c: float | None = None
    throttles: int | None = None
    gtt_mb: float | None = None
    on_battery: bool | None = None
    samples: int | None = None
    probe_share: float | None = None
    absent: dict[str, str] = {}


class Disturbance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What speaks against the number of a cell: reasons why it is `contended` or `throttled`, if any.

    `repeats` requests were measured again for that, which took `repeat_s` seconds; they are in no result.
    `not_repeated` says why no (further) repeat was made of a cell that is contended or throttled.
    """

    contended: tuple[str, ...] = ()
    throttled: tuple[str, ...] = ()
    repeats: int = 0
    repeat_s: float = 0.0
    not_repeated: str | None = None


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The machine right before a server started.

    `pressure` is the kernel's 10-second average. `busy` is the share of all cores, 0 to 1, while it was
    waited for rest; null where that was not. `waited_s` is that wait, `gave_up` why it ended unrested.
    """

    load1: float | None
    busy: float | None
    pressure: Pressure | None
    free_mb: float | None
    temp_c: float | None
    temp_sensor: str | None
    waited_s: float
    gave_up: str | None = None
    absent: dict[str, str] = {}
