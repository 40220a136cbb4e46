"""Power, temperature, clocks and energy that follow from how busy a device is. A model, nothing measured.

Power goes from a sixth of the limit, as an idle data-centre GPU draws with its clocks up, to the limit; a
quarter of that depends on whether anything runs, the rest on how much of the device computes. Temperature
follows power as a body does that is warmed and cooled (Newton), within a minute. Clocks are the product's
highest while kernels run, lower by a twentieth where the power limit holds them.
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
"""Energy is summed up in steps of this length, which begin with the count."""
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


class EnergyCount:
    """Energy since a moment: the sum over steps, so that it is the same whoever reads it, and when.

    What was summed up is kept, and a later reading goes on from there.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._sum_j = 0.0

    def joules(self, elapsed_s: float, power_at: Callable[[float], float]) -> float:
        """`power_at` says what was drawn so many seconds after that moment. `elapsed_s` never goes back.

        After 30 days it goes on as it was on average, so that a first reading does not take long.
        """
        if elapsed_s > _COUNTED_S:
            return self.joules(_COUNTED_S, power_at) / _COUNTED_S * elapsed_s
        while (self._steps + 1) * STEP_S <= elapsed_s:
            self._sum_j += STEP_S * power_at(self._steps * STEP_S)
            self._steps += 1
        began_s = self._steps * STEP_S
        return self._sum_j + max(0.0, elapsed_s - began_s) * power_at(began_s)
