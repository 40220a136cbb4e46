"""How busy workloads keep a device: alone, time-sliced and as clients of MPS. A model, nothing measured.

Time-slicing runs the kernels of one process at a time, so times add up, and a device that is busy all the
time gives each its part. Under MPS kernels of several processes run side by side as far as the device has
room, so what they fill adds up, and the times overlap.
Source: NVIDIA, Multi-Process Service, "When to Use MPS" and "Volta MPS Execution Resource Provisioning";
NVML, nvmlUtilization_t.gpu: percent of time over the past sample period during which one or more kernels was
executing on the GPU.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.model.devices.pretended_load import LoadKind, PretendedLoad

_LOADING_S: Final = 10.0
"""So long a workload reads its model or data, with memory that fills up, before it computes."""
_CHECKPOINT_EVERY_S: Final = 600.0
_CHECKPOINT_S: Final = 15.0
_WAVES: Final = ((7.0, 0.5), (31.0, 0.3), (113.0, 0.2))
"""Periods of the wobble and their parts of it: none is a multiple of another."""
_WOBBLE: Final = 0.06


@dataclass(frozen=True, slots=True)
class RunningLoad:
    """A workload on a device for `age_s` by now; negative before its start. `spans`: on others as well."""

    load: PretendedLoad
    age_s: float
    seed: int = 0
    mps: bool = False
    spans: bool = False


@dataclass(frozen=True, slots=True)
class LoadActivity:
    """`busy` is the share of time with a kernel, `active` the share of the device that computes, on average.

    `memory` is the share of time in which its memory moves data, `memory_mib` what is allocated. `granted`
    has the share of time that each workload's kernels get, in the order of the workloads; `linked` is the
    part of `active` of those that run on several devices.
    """

    busy: float = 0.0
    active: float = 0.0
    memory: float = 0.0
    memory_mib: int = 0
    granted: tuple[float, ...] = ()
    linked: float = 0.0


def activity(running: Sequence[RunningLoad], memory_mib: int) -> LoadActivity:
    """What the workloads of one device, or of one MIG device, come to.

    >>> half = PretendedLoad(LoadKind.TRAINING, busy=0.6, width=0.5)
    >>> two = [RunningLoad(half, 30.0), RunningLoad(half, 30.0)]
    >>> sliced = activity(two, 1000)
    >>> shared = activity([RunningLoad(half, 30.0, mps=True)] * 2, 1000)
    >>> sliced.busy, round(sliced.active, 2), round(shared.busy, 2) < 1.0, shared.active > sliced.active
    (1.0, 0.5, True, True)
    """
    if not running:
        return LoadActivity()
    mps = any(run.mps for run in running)
    widths = [run.load.width for run in running]
    demands = [min(1.0, demand_at(run)) for run in running]
    # What must share the device: its room under MPS, else its time.
    used = sum(map(operator.mul, demands, widths)) if mps else sum(demands)
    granted = tuple(part / max(1.0, used) for part in demands)
    busy = 1.0 - math.prod(1.0 - part for part in granted) if mps else min(1.0, sum(granted))
    active = min(1.0, sum(map(operator.mul, granted, widths)))
    held = sum(memory_of(run, memory_mib) for run in running)
    linked = sum(part * width for part, width, run in zip(granted, widths, running, strict=True) if run.spans)
    return LoadActivity(busy, active, 0.6 * active, min(memory_mib, held), granted, min(active, linked))


def demand_at(running: RunningLoad) -> float:
    """The share of time in which the workload's kernels would run alone, now."""
    load, age_s = running.load, running.age_s
    if age_s < _LOADING_S or load.kind is LoadKind.IDLE:
        return 0.0
    if load.kind in (LoadKind.TRAINING, LoadKind.CRASH) and age_s % _CHECKPOINT_EVERY_S < _CHECKPOINT_S:
        return 0.05 * load.demand
    wobble = sum(
        part * math.sin(2 * math.pi * (age_s / period + (running.seed * (number + 1) % 97) / 97))
        for number, (period, part) in enumerate(_WAVES)
    )
    demand = load.demand * (1.0 + _WOBBLE * wobble)
    # Requests that wait make more work than there is time; kernels of training never overlap.
    return demand if load.service_s else min(1.0, demand)


def memory_of(running: RunningLoad, memory_mib: int) -> int:
    """What the workload has allocated on a device of that size, now."""
    load, age_s = running.load, running.age_s
    if age_s < 0:
        return 0
    share = load.memory_share + load.growth_share * max(0.0, age_s - _LOADING_S)
    whole = load.memory_mib if load.memory_mib is not None else load.memory_share * memory_mib
    grown = whole + (share - load.memory_share) * memory_mib
    return min(memory_mib, round(grown * min(1.0, (age_s + 1.0) / _LOADING_S)))
