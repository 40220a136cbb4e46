"""What each pretended device reads of the workloads on it, at any moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from tonnage.documents.hardware import Hardware
from tonnage.model.catalog.gpus import GpuModel, gpu_models
from tonnage.model.devices.inventory import Device
from tonnage.twin.devices.load.activity import LoadActivity, RunningLoad, activity
from tonnage.twin.devices.load.load_file import LoadFile, LoadRun, NodeLoad
from tonnage.twin.devices.load.physics import (
    DevicePhysics,
    LoadCount,
    LoadTotals,
    counted_each_second,
    physics,
)

_SLICES: Final = 7


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """How busy a device is, and its MIG devices by uuid, with what follows from it.

    `totals` sums up its counters; it gives None where nobody counts.
    """

    whole: LoadActivity
    physics: DevicePhysics
    parts: Mapping[str, LoadActivity] = field(default_factory=dict)
    totals: Callable[[], LoadTotals | None] = lambda: None


class DeviceLoads:
    """The loads of a node's devices. Nothing is computed before it is asked for."""

    def __init__(self, file: Path) -> None:
        self._file = LoadFile(file)
        self._counts: dict[tuple[str, float], LoadCount] = {}

    def of(self, hardware: Hardware, device: Device, idle_c: int, now_s: float) -> DeviceLoad:
        """The device's load now."""
        node, model = self._file.read(), _model_of(hardware, device)
        at = partial(_activities, _runs_on(node, device), device)
        whole, parts = at(now_s)
        felt = physics(model, idle_c, lambda lag_s: at(now_s - lag_s)[0])
        if node is None:
            return DeviceLoad(whole, felt, parts)
        return DeviceLoad(whole, felt, parts, partial(self._totals, hardware, node, device, model, now_s))

    def begin(self, hardware: Hardware, devices: tuple[Device, ...], run: LoadRun, now_s: float) -> None:
        """A workload begins to run."""
        self._file.write(self._counted(hardware, devices, now_s).with_run(run))

    def finish(self, hardware: Hardware, devices: tuple[Device, ...], key: str, now_s: float) -> None:
        """A workload has ended."""
        self._file.write(self._counted(hardware, devices, now_s).without_run(key))

    def start(self, boot: str, now_s: float) -> None:
        """The node has booted: counters begin here."""
        self._file.write(NodeLoad(now_s, boot))

    def _counted(self, hardware: Hardware, devices: tuple[Device, ...], now_s: float) -> NodeLoad:
        """The load with all counters up to now."""
        node = self._file.read() or NodeLoad(now_s, hardware.boot)
        totals = {
            device.uuid: self._totals(hardware, node, device, _model_of(hardware, device), now_s)
            for device in devices
        }
        return NodeLoad(now_s, hardware.boot, totals, node.runs)

    def _totals(
        self, hardware: Hardware, node: NodeLoad, device: Device, model: GpuModel, now_s: float
    ) -> LoadTotals:
        key = device.uuid, node.since_s
        if key not in self._counts:
            stale = [old for old in self._counts if old[0] == device.uuid]
            for old in stale:
                del self._counts[old]
        count = self._counts.setdefault(key, LoadCount())
        runs = _runs_on(node, device)

        def second_at(elapsed_s: float) -> LoadTotals:
            return counted_each_second(model, _activities(runs, device, node.since_s + elapsed_s)[0])

        elapsed_s = max(0.0, now_s - node.since_s)
        before = node.totals.get(device.uuid, LoadTotals()) if node.boot == hardware.boot else LoadTotals()
        if not runs:
            return before.plus(second_at(0.0), elapsed_s)
        return before.plus(count.totals(elapsed_s, second_at))


def _model_of(hardware: Hardware, device: Device) -> GpuModel:
    return gpu_models()[next(entry.model for entry in hardware.devices if entry.uuid == device.uuid)]


_Placed = Mapping[str, tuple[LoadRun, ...]]
"""Workloads by the uuid of the device or MIG device that they run on."""


def _runs_on(node: NodeLoad | None, device: Device) -> _Placed:
    names = {part.uuid: {part.uuid} for part in device.migs}
    if not device.mig_enabled:
        names[device.uuid] = {device.uuid, str(device.index), "all"}
    runs = () if node is None else node.runs
    return {
        uuid: placed
        for uuid, own in names.items()
        if (placed := tuple(run for run in runs if not own.isdisjoint(run.ids)))
    }


def _activities(
    placed: _Placed, device: Device, at_s: float
) -> tuple[LoadActivity, Mapping[str, LoadActivity]]:
    """Of the whole device and of its MIG devices, at a moment."""
    if not placed:
        return LoadActivity(), {}
    if not device.mig_enabled:
        return activity(_running(placed.get(device.uuid, ()), at_s), device.memory_mib), {}
    parts = {
        part.uuid: activity(_running(placed[part.uuid], at_s), part.memory_mib)
        for part in device.migs
        if part.uuid in placed
    }
    slices = {part.uuid: part.compute_slices / _SLICES for part in device.migs}
    return LoadActivity(
        busy=1.0 - math.prod(1.0 - part.busy for part in parts.values()),
        active=sum(part.active * slices[uuid] for uuid, part in parts.items()),
        memory=sum(part.memory * slices[uuid] for uuid, part in parts.items()),
        memory_mib=sum(part.memory_mib for part in parts.values()),
    ), parts


def _spans(run: LoadRun) -> bool:
    """Whether the workload runs on several devices, which then exchange data."""
    return len(run.ids) > 1 or run.ids == ("all",)


def _running(runs: tuple[LoadRun, ...], at_s: float) -> list[RunningLoad]:
    return [
        RunningLoad(run.load, at_s - run.started_s, run.seed, run.mps, _spans(run))
        for run in runs
        if run.started_s <= at_s and (run.ended_s is None or at_s < run.ended_s)
    ]
