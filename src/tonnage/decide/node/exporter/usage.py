"""What each container used of a device between two readings. Sums over containers never exceed the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.decide.node.exporter.readings import TimedSample
from tonnage.decide.node.exporter.shares import DeviceShare
from tonnage.model.node.pod_usage import Amount, Certainty, DeviceUse, DeviceUser
from tonnage.model.node.telemetry import DeviceEntity, InstanceEntity

_ACTIVE: Final = "graphics_active_ratio"
_UTILIZATION: Final = "utilization_percent"
_ENERGY: Final = "energy_mj"
_POWER: Final = "power_w"
_MEMORY: Final = "memory_used_mib"
USAGE_FIELDS: Final = frozenset((_ACTIVE, _UTILIZATION, _ENERGY, _POWER, _MEMORY))
"""Fields of `catalog.metrics` that a device must be asked for."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DeviceActivity:
    """What a device did in `seconds`, up to its last reading; None is what it does not tell.

    `fraction` of the physical GPU is what the device is, `busy` the part of the time in which it computed.
    """

    seconds: float = 0.0
    fraction: float = 1.0
    busy: float | None = None
    energy_j: float | None = None
    energy_divided: bool = False
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessActivity:
    """A process on a device: whose it is, None of nobody who holds the device; `busy` as of a device."""

    user: DeviceUser | None
    memory_bytes: int | None = None
    busy: float | None = None


def activity_of(
    entity: DeviceEntity, samples: Mapping[str, TimedSample], fraction: float = 1.0
) -> DeviceActivity | None:
    """Out of a device's last two samples; None: it does not answer. Of one sample only the present follows.

    A GPU instance has the part of its GPU's energy that it is of the GPU: the driver measures no less.
    """
    whole = entity.gpu.uuid if isinstance(entity, InstanceEntity) else entity.uuid
    names = entity.uuids if isinstance(entity, InstanceEntity) else (entity.uuid,)
    timed = next((samples[name] for name in names if name in samples), None)
    if timed is None:
        return None
    seconds = 0.0 if timed.before is None else max(0.0, timed.seen_s - timed.before.seen_s)
    energy_j = _energy_j(samples.get(whole))
    memory_mib = timed.sample.values.get(_MEMORY)
    return DeviceActivity(
        seconds,
        fraction,
        _busy(timed),
        None if energy_j is None else energy_j * fraction,
        isinstance(entity, InstanceEntity),
        None if memory_mib is None else int(memory_mib * _MIB),
    )


def _busy(timed: TimedSample) -> float | None:
    values = timed.sample.values
    if (ratio := values.get(_ACTIVE)) is not None:
        return min(1.0, max(0.0, ratio))
    percent = values.get(_UTILIZATION)
    return None if percent is None else min(1.0, max(0.0, percent / 100))


def _energy_j(timed: TimedSample | None) -> float | None:
    """By the device's counter, which begins anew with the driver; else by its power."""
    if timed is None or timed.before is None:
        return None
    now, before = (sample.values.get(_ENERGY) for sample in (timed.sample, timed.before.sample))
    if now is not None and before is not None:
        return (now - before) / 1000 if now >= before else None
    power_w = timed.sample.values.get(_POWER)
    return None if power_w is None else max(0.0, power_w) * max(0.0, timed.seen_s - timed.before.seen_s)


def uses_of(
    activity: DeviceActivity,
    shares: Sequence[DeviceShare],
    processes: Iterable[ProcessActivity] | None = None,
) -> Iterator[DeviceUse]:
    """What each of the containers used. Without `processes` what is shared is divided by replicas.

    What a process of nobody's uses is nobody's.
    """
    every = None if processes is None else tuple(processes)
    computing = _by_process(every, lambda process: process.busy, activity.busy, most=1.0)
    memory = _by_process(every, lambda process: process.memory_bytes, activity.memory_bytes)
    whole = activity.fraction * activity.seconds
    for share in shares:
        ratio = _amount(share, activity.busy, computing)
        yield DeviceUse(
            share.user,
            Amount(whole * share.share, Certainty.EXACT if share.share == 1 else Certainty.EVEN),
            None if ratio is None else Amount(ratio.value * whole, ratio.certainty),
            _energy(share, activity, computing),
            ratio,
            _amount(share, activity.memory_bytes, memory),
        )


@dataclass(frozen=True, slots=True)
class _ByProcess:
    """What processes have together, and those of each container; None where one of its does not tell.

    `scale` makes the sum what the device has at most.
    """

    total: float
    scale: float
    of_user: Mapping[DeviceUser, float | None]


def _by_process(
    processes: Sequence[ProcessActivity] | None,
    of: Callable[[ProcessActivity], float | None],
    device: float | None,
    most: float | None = None,
) -> _ByProcess | None:
    """None: no process tells. What is more than the device has is scaled."""
    if processes is None or (processes and all(of(process) is None for process in processes)):
        return None
    sums: dict[DeviceUser, float | None] = {}
    total = 0.0
    for process in processes:
        amount = of(process)
        total += amount or 0.0
        if process.user is not None:
            before = sums.get(process.user, 0.0)
            sums[process.user] = None if amount is None or before is None else before + amount
    limit = most if device is None else device
    scale = 1.0 if limit is None or total <= limit else limit / total
    return _ByProcess(total, scale, sums)


def _amount(share: DeviceShare, device: float | None, by_process: _ByProcess | None) -> Amount | None:
    if share.alone:
        return None if device is None else Amount(device, Certainty.EXACT)
    if by_process is not None:
        amount = by_process.of_user.get(share.user, 0.0)
        return None if amount is None else Amount(amount * by_process.scale, Certainty.PROCESS)
    return None if device is None else Amount(device * share.part, Certainty.EVEN)


def _energy(share: DeviceShare, activity: DeviceActivity, computing: _ByProcess | None) -> Amount | None:
    """As they compute; while nobody does, by replicas."""
    if activity.energy_j is None:
        return None
    if share.alone:
        certainty = Certainty.EVEN if activity.energy_divided else Certainty.EXACT
        return Amount(activity.energy_j, certainty)
    if computing is None:
        return Amount(activity.energy_j * share.part, Certainty.EVEN)
    amount = computing.of_user.get(share.user, 0.0)
    if amount is None:
        return None
    part = amount / computing.total if computing.total else share.part
    return Amount(activity.energy_j * part, Certainty.PROCESS)
