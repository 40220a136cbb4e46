"""Everything that is asked of NVML about devices, call after call. All of it may block."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol, TypeVar

from tonnage.adapters.boot import boot_id
from tonnage.adapters.vendors.nvml_events import EventWatch
from tonnage.adapters.vendors.nvml_reading import (
    ProcessReader,
    is_display,
    optional,
    read_device,
    read_profile_sizes,
)
from tonnage.adapters.vendors.nvml_samples import SampleReader
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.adapters.vendors.nvml_vitals import read_vitals
from tonnage.adapters.vendors.platforms import INSTEAD, is_integrated
from tonnage.model.devices.inventory import Device, GpuProcess, ProfileSize, RawEvent, Sample, Vitals

T = TypeVar("T")

NODE: Final = -1
_FIRST: Final = 2.0
"""Deadlines that the first call about a GPU may take: without persistence mode it is started then."""


class CallHook(Protocol):
    """Told before calls about a device, or NODE; may raise to end the reading."""

    def __call__(self, subject: int, *, times: float = 1.0) -> None: ...


@dataclass(frozen=True, slots=True)
class Scan:
    """What was read: the devices that answered, and why others could not be read, by index.

    `count` is how many devices the driver has; those that were not asked for are in neither.
    """

    devices: tuple[Device, ...] = ()
    vitals: tuple[Vitals, ...] = ()
    failed: tuple[tuple[int, str], ...] = ()
    problems: tuple[str, ...] = ()
    count: int = 0
    driver_version: str = ""
    cuda_version: str = ""
    incarnation: str = ""

    def without(self, indices: AbstractSet[int]) -> Scan:
        """The same without these devices."""
        uuids = {device.uuid for device in self.devices if device.index in indices}
        return replace(
            self,
            devices=tuple(device for device in self.devices if device.uuid not in uuids),
            vitals=tuple(vitals for vitals in self.vitals if vitals.uuid not in uuids),
        )


class NvmlReader:
    """Reads devices. `wait` may run beside the others, which are for one thread."""

    def __init__(
        self, session: NvmlSession, root: Path, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.session = session
        self._root = root
        self._watch = EventWatch()
        self._samples = SampleReader(monotonic)
        self._processes = ProcessReader()
        self._links: dict[str, int] = {}
        self._queried: tuple[int, set[int]] = (0, set())

    def scan(self, step: CallHook, skip: AbstractSet[int] = frozenset()) -> Scan:
        """Every device whose index is not in `skip`. Raises NVMLError, OSError: no device can be read."""

        def read(nvml: ModuleType) -> Scan:
            return self._scan(nvml, step, skip)

        return self._afresh(read, step)

    def sample(
        self, fields: tuple[str, ...], step: CallHook, skip: AbstractSet[int] = frozenset()
    ) -> tuple[Sample, ...]:
        """Those fields of every device that can be read and is not in `skip`. Raises as `scan` does."""

        def read(nvml: ModuleType) -> tuple[Sample, ...]:
            about = (index for index in range(nvml.nvmlDeviceGetCount()) if index not in skip)
            return self._samples.read(nvml, self.session.number, fields, self._stepped(step, about))

        return self._afresh(read, step)

    def processes(self, step: CallHook, skip: AbstractSet[int] = frozenset()) -> tuple[GpuProcess, ...]:
        """Who computes on the devices that can be read and are not in `skip`. Raises as `scan` does."""

        def read(nvml: ModuleType) -> tuple[GpuProcess, ...]:
            all_processes: list[GpuProcess] = []
            for index in range(nvml.nvmlDeviceGetCount()):
                if index not in skip:
                    self._about(step, index)
                    with suppress(nvml.NVMLError, ValueError):
                        all_processes += self._processes.read(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
            return tuple(all_processes)

        return self._afresh(read, step)

    def wait(self, timeout_ms: int) -> RawEvent | None:
        """What the driver reports by itself; None when nothing does in time, or there was no scan yet.

        Raises NVMLError, OSError: the next scan is needed before anything is heard again.
        """
        with self.session.held() as nvml:
            return self._watch.next(nvml, self.session.number, timeout_ms)

    def _afresh(self, read: Callable[[ModuleType], T], step: CallHook) -> T:
        """What `read` returns; after a failure of the node as a whole, once more with a new session.

        The driver was loaded anew, or replaced. Devices that came or went need a new session, too.
        """
        step(NODE, times=_FIRST)
        if self.session.outdated():
            self.session.close()
        nvml = self.session.open()
        try:
            return read(nvml)
        except nvml.NVMLError:
            step(NODE, times=_FIRST)
            self.session.close()
            return read(self.session.open())

    def _stepped(self, step: CallHook, indices: Iterable[int]) -> Iterator[int]:
        """The same, and the step of each."""
        for index in indices:
            self._about(step, index)
            yield index

    def _about(self, step: CallHook, index: int) -> None:
        """The step of a device, longer when it is the first of this session."""
        if self._queried[0] != self.session.number:
            self._queried = (self.session.number, set())
        first = index not in self._queried[1]
        self._queried[1].add(index)
        step(index, times=_FIRST if first else 1.0)

    def _scan(self, nvml: ModuleType, step: CallHook, skip: AbstractSet[int]) -> Scan:
        self._listen(nvml, step, skip)  # first: what happens from here on is heard
        devices: list[Device] = []
        vitals: list[Vitals] = []
        failed: list[tuple[int, str]] = []
        problems: list[str] = []
        uuids: set[str] = set()
        step(NODE)
        count: int = nvml.nvmlDeviceGetCount()
        for index in (index for index in range(count) if index not in skip):
            self._about(step, index)
            try:
                device, wrong = read_device(nvml, index, self._root)
                own = {device.uuid, *(mig.uuid for mig in device.migs)}
                if own & uuids or len(own) <= len(device.migs):
                    raise ValueError(f"it shares a UUID with another device: {device.uuid}")
                device_vitals = self._vitals(nvml, device.uuid, index)
            except (nvml.NVMLError, ValueError) as error:
                failed.append((index, str(error)))
                continue
            uuids |= own
            if is_integrated(device.product):
                problem = f"{device.product} is part of a Tegra processor, which Tonnage does not support"
                problems.append(f"device {index}: {problem}: {INSTEAD}")
            elif not is_display(device.product):
                devices.append(replace(device, profile_sizes=self._profile_sizes(nvml, device)))
                vitals.append(device_vitals)
                problems += wrong
        # Again: what came meanwhile is listened to, what went is given up.
        self._listen(nvml, step, skip, frozenset(device.uuid for device in devices))
        step(NODE)
        cuda: int = optional(nvml, nvml.nvmlSystemGetCudaDriverVersion) or 0
        return Scan(
            tuple(devices),
            tuple(vitals),
            tuple(failed),
            tuple(problems),
            count,
            optional(nvml, nvml.nvmlSystemGetDriverVersion) or "",
            f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
            incarnation_of(self._root),
        )

    def _profile_sizes(self, nvml: ModuleType, device: Device) -> Mapping[int, ProfileSize]:
        """They stay the same: read once in a session."""
        if device.mig_enabled is None:
            return {}
        key = "profile sizes", device.uuid
        if key not in self.session.cache:
            sizes = optional(nvml, lambda: read_profile_sizes(nvml, device.index))
            if sizes is None:
                return {}
            self.session.cache[key] = sizes
        sizes_once: Mapping[int, ProfileSize] = self.session.cache[key]
        return sizes_once

    def _vitals(self, nvml: ModuleType, uuid: str, index: int) -> Vitals:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        vitals, self._links[uuid] = read_vitals(nvml, uuid, handle, self._links.get(uuid, 0))
        return vitals

    def _listen(
        self, nvml: ModuleType, step: CallHook, skip: AbstractSet[int], uuids: AbstractSet[str] | None = None
    ) -> None:
        """A driver without events still has devices; `wait` fails for it now and then."""
        with suppress(nvml.NVMLError):
            number = self.session.number
            self._watch.cover(nvml, number, uuids, skip=skip, step=lambda index: self._about(step, index))


def incarnation_of(root: Path) -> str:
    """Identifies the boot, and the loading of the driver's module: each gives its folder another inode.

    Empty where neither is told.
    """
    boot = boot_id(root)
    try:
        module = str((root / "sys/module/nvidia").stat().st_ino)
    except OSError:
        module = ""
    return f"{boot}/{module}" if boot or module else ""
