"""Power, heat, clocks, traffic and counters that follow from how busy a device is. A model, nothing measured.

Power goes from a sixth of the limit, as an idle data-centre GPU draws with its clocks up, to the limit; a
quarter of that depends on whether anything runs, the rest on how much of the device computes. Temperature
follows power as a body does that is warmed and cooled (Newton), within a minute. Clocks are the product's
highest while kernels run, lower by a twentieth where the power limit holds them. Bus and links carry shares
of what they can.
Source: power limits and clocks as in the catalogue; NVML, nvmlClocksEventReasons.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tonnage.model.catalog.gpus import GpuModel
from tonnage.twin.devices.load.activity import LoadActivity

_IDLE_SHARE: Final = 1 / 6
_RUNNING_PART: Final = 0.25
_CAPPED: Final = 0.97
"""Of its power limit: from there on clocks give way."""
_FULL_LOAD_C: Final = 42.0
"""How much warmer a device is at its power limit than idle."""
_LAGS: Final = ((0.0, 0.18), (15.0, 0.25), (30.0, 0.22), (60.0, 0.2), (120.0, 0.15))
"""An exponential decay of about a minute, as weights of what was drawn so many seconds ago."""
_IDLE_CLOCK: Final = 0.15
_CLOCK_STEP_MHZ: Final = 15
IDLE_REASON: Final = 0x1
POWER_CAP_REASON: Final = 0x4
STEP_S: Final = 10.0
"""Counters are summed up in steps of this length, which begin with the count."""
BUS_RECEIVED: Final = 2 << 30
BUS_SENT: Final = 512 << 20
"""Bytes a second over PCIe when the whole device computes: batches come, logs and losses go."""
LINK_EACH_WAY: Final = 2 << 30
"""The same over each NVLink, a twelfth of what one can, where workloads span several devices."""
_COUNTED_S: Final = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class DevicePhysics:
    """What a device of the model draws and how warm it is; `idle_c` without load."""

    power_w: float
    temperature_c: int
    sm_clock_mhz: int
    clock_reasons: int


def idle_power_w(model: GpuModel) -> float:
    """What it draws with nothing to do."""
    return model.power_limit_w * _IDLE_SHARE


def power_w(model: GpuModel, device: LoadActivity) -> float:
    """What it draws while it is so busy."""
    idle = idle_power_w(model)
    return idle + (model.power_limit_w - idle) * (
        _RUNNING_PART * device.busy + (1 - _RUNNING_PART) * device.active
    )


def physics(model: GpuModel, idle_c: int, device_at: Callable[[float], LoadActivity]) -> DevicePhysics:
    """The readings now; `device_at` says how busy the device was so many seconds ago."""
    now = device_at(0.0)
    drawn = power_w(model, now)
    idle = idle_power_w(model)
    felt = sum(weight * power_w(model, device_at(lag_s)) for lag_s, weight in _LAGS)
    warmer = _FULL_LOAD_C * (felt - idle) / (model.power_limit_w - idle)
    capped = drawn >= _CAPPED * model.power_limit_w
    factor = (0.95 if capped else 1.0) if now.busy > 0 else _IDLE_CLOCK
    clock = round(model.sm_clock_mhz * factor / _CLOCK_STEP_MHZ) * _CLOCK_STEP_MHZ
    reasons = POWER_CAP_REASON if capped else 0 if now.busy > 0 else IDLE_REASON
    return DevicePhysics(drawn, round(idle_c + warmer), clock, reasons)


@dataclass(frozen=True, slots=True)
class LoadTotals:
    """What a device has counted: energy, seconds at its power limit, seconds of full use of its NVLinks."""

    energy_j: float = 0.0
    capped_s: float = 0.0
    linked_s: float = 0.0

    def plus(self, other: LoadTotals, times: float = 1.0) -> LoadTotals:
        """Both together, the other so many times."""
        return LoadTotals(
            self.energy_j + other.energy_j * times,
            self.capped_s + other.capped_s * times,
            self.linked_s + other.linked_s * times,
        )


def counted_each_second(model: GpuModel, device: LoadActivity) -> LoadTotals:
    """What the device counts in a second in which it is so busy."""
    drawn = power_w(model, device)
    return LoadTotals(drawn, float(drawn >= _CAPPED * model.power_limit_w), device.linked)


class LoadCount:
    """Totals since a moment: sums over steps, so that they are the same whoever reads them, and when.

    What was summed up is kept, and a later reading goes on from there.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._sum = LoadTotals()

    def totals(self, elapsed_s: float, second_at: Callable[[float], LoadTotals]) -> LoadTotals:
        """`second_at` is what a second counted so long after that moment. `elapsed_s` never goes back.

        After 30 days it goes on as it was on average, so that a first reading does not take long.
        """
        if elapsed_s > _COUNTED_S:
            return LoadTotals().plus(self.totals(_COUNTED_S, second_at), elapsed_s / _COUNTED_S)
        while (self._steps + 1) * STEP_S <= elapsed_s:
            self._sum = self._sum.plus(second_at(self._steps * STEP_S), STEP_S)
            self._steps += 1
        began_s = self._steps * STEP_S
        return self._sum.plus(second_at(began_s), max(0.0, elapsed_s - began_s))
