"""What is remembered of devices as JSON, for the next start of the agent."""

from __future__ import annotations

import math
from typing import Final

from tonnage.decide.node.health.faults import MOST, Baseline, DeviceFault, FaultSighting, HealthState
from tonnage.model.devices.health import FaultClass
from tonnage.model.json import JsonObject, JsonValue

_VERSION: Final = 1


def health_json(state: HealthState, *, epoch: float) -> JsonObject:
    """The state as JSON, the same for as long as nothing changes that must survive.

    `epoch` is the wall time, in seconds since 1970, at which the monotonic clock stood at zero.
    """
    return {
        "version": _VERSION,
        "incarnation": state.incarnation,
        "faults": [
            {
                "subject": fault.subject,
                "device": fault.device,
                "cause": fault.cause,
                "reason": fault.reason,
                "needs": fault.needs.value,
                "since": round(fault.since + epoch, 3),
                "lasting": fault.lasting,
                "away": fault.away,
                "times": fault.times,
            }
            for fault in state.faults
        ],
        "sightings": [
            [sighting.device, sighting.cause, sighting.times, round(sighting.last + epoch, 3)]
            for sighting in state.sightings
        ],
        "baselines": [
            [baseline.device, baseline.uncorrected, baseline.nvlinks]
            for baseline in sorted(state.baselines, key=lambda baseline: baseline.device)
        ],
    }


def health_from_json(memory: JsonValue, *, epoch: float, now: float) -> HealthState:
    """The state that was remembered. How devices did meanwhile is not known; nothing is in the future.

    Raises ValueError: not what `health_json` makes.
    """
    try:
        if not isinstance(memory, dict) or memory["version"] != _VERSION:
            raise ValueError("unknown version")
        return HealthState(
            tuple(_fault(row, epoch, now) for row in _rows(memory["faults"])),
            tuple(
                FaultSighting(_text(device), _text(cause), _number(times), min(_time(last) - epoch, now))
                for device, cause, times, last in map(_rows, _rows(memory["sightings"]))
            ),
            tuple(
                Baseline(_text(device), now, _count(uncorrected), _count(nvlinks))
                for device, uncorrected, nvlinks in map(_rows, _rows(memory["baselines"]))
            ),
            _text(memory["incarnation"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no memory of devices: {error}") from None


def _fault(row: JsonValue, epoch: float, now: float) -> DeviceFault:
    if not isinstance(row, dict):
        raise TypeError("a fault is an object")
    return DeviceFault(
        _text(row["subject"]),
        _text(row["device"]),
        _text(row["cause"]),
        _text(row["reason"]),
        FaultClass(_text(row["needs"])),
        min(_time(row["since"]) - epoch, now),
        lasting=row["lasting"] is True,
        away=row["away"] is True,
        times=max(1, _number(row["times"])),
    )


def _rows(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value[-MOST:]


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _number(value: JsonValue) -> int:
    if not isinstance(value, int):
        raise TypeError("no number")
    return value


def _count(value: JsonValue) -> int | None:
    return None if value is None else _number(value)


def _time(value: JsonValue) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("no time")
    return float(value)
