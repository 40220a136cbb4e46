"""NVIDIA devices through NVML. Facts only; a device that fails never hides another."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from tonnage.adapters.ports import Clock
from tonnage.adapters.vendors.driver_root import LIBRARY, DriverLibrary
from tonnage.adapters.vendors.driver_thread import DriverThread
from tonnage.model.devices import Device, Inventory, RawEvent, RawEventKind, Sample
from tonnage.model.errors import HardwareError, Problem

T = TypeVar("T")

_WAIT_MS: Final = 500
_RETRY_S: Final = 5.0
_DISPLAY: Final = ("DGX Display", "NVIDIA DGX Display")
_MIB: Final = 1 << 20


class NvmlBackend:
    """A DeviceBackend over nvidia-ml-py; the library is loaded at the first call, in a thread of its own.

    `root` stands before the node's /sys. `driver_root` is where the driver's files are mounted; without it
    the library is where this system's own search finds it.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        root: Path = Path("/"),
        driver_root: Path | None = None,
        deadline_s: float = 10.0,
    ) -> None:
        self._clock = clock
        self._root = root
        self._driver_root = driver_root
        self._driver = None if driver_root is None else DriverLibrary(driver_root)
        self._loading = threading.Lock()
        self._calls = DriverThread("nvml", deadline_s=deadline_s)
        self._waits = DriverThread("nvml-events", deadline_s=deadline_s + _WAIT_MS / 1000)
        self._nvml: ModuleType | None = None
        self._known: dict[int, Device] = {}

    async def scan(self) -> Inventory:
        return await self._call("scan", self._scan)

    async def sample(self) -> tuple[Sample, ...]:
        return await self._call("sample", self._sample)

    async def events(self) -> AsyncIterator[RawEvent]:
        event_set: Any = None
        try:
            while True:
                try:
                    if event_set is None:
                        event_set = await self._waits.call("register events", self._subscribe)
                    event = await self._waits.call("wait for events", partial(self._wait, event_set))
                except self._errors(HardwareError):
                    event_set = None
                    yield RawEvent(RawEventKind.CHANGED)
                    await self._clock.sleep(_RETRY_S)
                    continue
                if event is not None:
                    yield event
        finally:
            self._waits.close()

    def stuck_s(self) -> float:
        return max(self._calls.stuck_s(), self._waits.stuck_s())

    async def close(self) -> None:
        self._calls.close()
        self._waits.close()

    async def _call(self, what: str, function: Callable[[], T]) -> T:
        try:
            return await self._calls.call(what, function)
        except self._errors() as error:
            visible = "visible to this process" if self._driver is None else f"under {self._driver_root}"
            remedy = f"is the NVIDIA driver loaded, and {LIBRARY} {visible}? it is looked for again and again"
            raise HardwareError(Problem(f"NVML: {error}", remedy=remedy)) from None

    def _errors(self, *more: type[Exception]) -> tuple[type[Exception], ...]:
        """What a call may raise; before the library is there, why it is not."""
        return (*more, ImportError, OSError, *((self._nvml.NVMLError,) if self._nvml else ()))

    def _library(self) -> ModuleType:
        """The bindings, initialised. A driver that comes later is found by a later call."""
        with self._loading:  # both threads come here
            if self._nvml is None:
                import pynvml

                try:
                    if self._driver is not None:
                        self._driver.load(pynvml)
                    pynvml.nvmlInit()
                except pynvml.NVMLError as error:
                    raise OSError(str(error)) from None
                self._nvml = pynvml
            return self._nvml

    def _scan(self) -> Inventory:
        nvml = self._library()
        count: int = nvml.nvmlDeviceGetCount()
        devices: list[Device] = []
        problems: list[str] = []
        for index in range(count):
            try:
                device = self._device(nvml, index)
            except nvml.NVMLError as error:
                known = self._known.get(index)
                if known is None:
                    problems.append(f"device {index}: {error}")
                    continue
                device = replace(known, healthy=False, reason=str(error))
            else:
                self._known[index] = device
            if device.product not in _DISPLAY:
                devices.append(device)
        cuda: int = _optional(nvml, nvml.nvmlSystemGetCudaDriverVersion) or 0
        return Inventory(
            tuple(devices),
            _optional(nvml, nvml.nvmlSystemGetDriverVersion) or "",
            f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
            tuple(problems),
        )

    def _device(self, nvml: ModuleType, index: int) -> Device:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid: str = nvml.nvmlDeviceGetUUID(handle)
        capability = _optional(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
        pci = _optional(nvml, lambda: nvml.nvmlDeviceGetPciInfo_v3(handle))
        bus_id: str = pci.busId if pci is not None else ""
        return Device(
            uuid=uuid,
            index=index,
            product=nvml.nvmlDeviceGetName(handle),
            memory_mib=nvml.nvmlDeviceGetMemoryInfo(handle).total // _MIB,
            compute_capability=f"{capability[0]}.{capability[1]}" if capability else "",
            pci_bus_id=bus_id,
            minor=_optional(nvml, lambda: nvml.nvmlDeviceGetMinorNumber(handle)),
            numa_node=self._numa(bus_id),
        )

    def _numa(self, bus_id: str) -> int | None:
        """The kernel's NUMA node of the device, None when it has none. sysfs writes a four-digit domain."""
        domain, _, rest = bus_id.lower().partition(":")
        file = self._root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node"
        try:
            node = int(file.read_text(encoding="ascii")[:16])
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _sample(self) -> tuple[Sample, ...]:
        nvml = self._library()
        samples: list[Sample] = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                samples.append(_readings(nvml, handle, nvml.nvmlDeviceGetUUID(handle)))
            except nvml.NVMLError:
                continue  # what scan says about this device is the report
        return tuple(samples)

    def _subscribe(self) -> Any:
        nvml = self._library()
        event_set = nvml.nvmlEventSetCreate()
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, event_set)
            except nvml.NVMLError:
                continue  # too old for events, or lost: the periodic scan still sees it
        return event_set

    def _wait(self, event_set: Any) -> RawEvent | None:
        nvml = self._library()
        try:
            event = nvml.nvmlEventSetWait_v2(event_set, _WAIT_MS)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            raise
        uuid = _optional(nvml, lambda: nvml.nvmlDeviceGetUUID(event.device)) or ""
        return RawEvent(RawEventKind.XID, uuid, int(event.eventData))


def _readings(nvml: ModuleType, handle: Any, uuid: str) -> Sample:
    memory = _optional(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    rates = _optional(nvml, lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    power = _optional(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    return Sample(
        uuid,
        memory.used // _MIB if memory else None,
        rates.gpu if rates else None,
        _optional(nvml, lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        power / 1000 if power is not None else None,
    )


def _optional(nvml: ModuleType, read: Callable[[], T]) -> T | None:
    """A fact that the device may not give; None then."""
    try:
        return read()
    except nvml.NVMLError:
        return None
