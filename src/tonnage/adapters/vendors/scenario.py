"""Pretended devices out of a small file that may change at any time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tonnage.adapters.ports import Clock
from tonnage.documents.hardware import Hardware, HardwareDevice
from tonnage.documents.source import MAX_BYTES, parse_document
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.devices import Device, Inventory, RawEvent, RawEventKind, Sample
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.links import NVSWITCH, Link

_POLL_S: Final = 0.2


class ScenarioBackend:
    """A DeviceBackend over `documents.hardware`; the file is read again whenever it changed."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._seen = b""

    async def scan(self) -> Inventory:
        self._seen = self._identity()
        hardware = self._read()
        devices = tuple(_device(entry, index) for entry, index in hardware.indexed())
        links = tuple(
            Link(entry.uuid, NVSWITCH, count)
            for entry, _ in hardware.indexed()
            if (count := gpu_models()[entry.model].nvswitch_links)
        )
        return Inventory(devices, hardware.driver_version, hardware.cuda_version, links=links)

    async def events(self) -> AsyncIterator[RawEvent]:
        while True:
            await self._clock.sleep(_POLL_S)
            now = self._identity()
            if now != self._seen:
                self._seen = now
                yield RawEvent(RawEventKind.CHANGED)

    async def sample(self) -> tuple[Sample, ...]:
        return tuple(
            Sample(
                entry.uuid,
                entry.memory_used_mib,
                entry.utilization_percent,
                entry.temperature_c,
                float(gpu_models()[entry.model].power_limit_w) / 6,
            )
            for entry, _ in self._read().indexed()
            if entry.health != "lost"
        )

    def stuck_s(self) -> float:
        return 0.0

    async def close(self) -> None:
        """Nothing to let go of."""

    def _identity(self) -> bytes:
        """What the file says; its content rather than its times, which a fast writer may leave equal."""
        try:
            return self._file.read_bytes() if self._file.stat().st_size <= MAX_BYTES else b""
        except OSError as error:
            return str(error.errno).encode()

    def _read(self) -> Hardware:
        try:
            with self._file.open("rb") as stream:
                text = stream.read(MAX_BYTES + 1).decode("utf-8")
        except (OSError, UnicodeError) as error:
            raise HardwareError(
                Problem("the scenario's devices cannot be read", str(self._file), str(error))
            ) from None
        return parse_document(text, Hardware, source=str(self._file))


def _device(entry: HardwareDevice, index: int) -> Device:
    model = gpu_models()[entry.model]
    reason = entry.reason or {"healthy": "", "unhealthy": "unhealthy", "lost": "GPU is lost"}[entry.health]
    return Device(
        uuid=entry.uuid,
        index=index,
        product=model.product,
        memory_mib=model.memory_mib,
        compute_capability=model.compute_capability,
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
        minor=index,
        numa_node=entry.numa,
        healthy=entry.health == "healthy",
        reason=reason if entry.health != "healthy" else "",
    )
