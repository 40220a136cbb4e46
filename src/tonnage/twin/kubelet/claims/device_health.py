"""healthInfoCache: how drivers say that their devices are, by the stream DRAResourceHealth.

Source: Kubernetes 1.35, pkg/kubelet/cm/dra/healthinfo.go and manager.go (HandleWatchResourcesStream).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from tonnage.ports.clock import Clock
from tonnage.twin.kubelet.claims.drivers import Driver
from tonnage.twin.kubelet.devices.plugins import CHANNEL_OPTIONS
from tonnage.wire.kubelet import claim_methods as methods
from tonnage.wire.kubelet import drahealth_v1_pb2 as wire

_LOG: Final = logging.getLogger(__name__)
_AGAIN_S: Final = 5.0
_TIMEOUT_S: Final = 30.0
"""Where a driver names none."""
_NAMES: Final = {wire.HEALTHY: "Healthy", wire.UNHEALTHY: "Unhealthy"}
_MOST_DEVICES: Final = 2048
UNKNOWN: Final = "Unknown"


class _Report(NamedTuple):
    health: str
    until_s: float


class DeviceHealth:
    """Follows every driver that has the stream. `changed` is called when a device's health is another."""

    def __init__(self, clock: Clock, changed: Callable[[], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._streams: dict[Driver, asyncio.Task[None]] = {}
        self._reports: dict[tuple[str, str, str], _Report] = {}

    def follow(self, drivers: Iterable[Driver]) -> None:
        """Follow these and no others."""
        followed = {driver for driver in drivers if driver.health}
        for driver in self._streams.keys() - followed:
            self._streams.pop(driver).cancel()
        for driver in followed - self._streams.keys():
            self._streams[driver] = asyncio.create_task(self._watch(driver), name=f"health {driver.name}")

    def of(self, driver: str, pool: str, device: str) -> str:
        """Healthy, Unhealthy or Unknown."""
        report = self._reports.get((driver, pool, device))
        return UNKNOWN if report is None or report.until_s < self._clock.monotonic() else report.health

    async def close(self) -> None:
        """Follow none."""
        tasks = tuple(self._streams.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._streams.clear()

    async def _watch(self, driver: Driver) -> None:
        while True:
            try:
                async for devices in _reported(driver):
                    self._note(driver.name, devices)
            except grpc.aio.AioRpcError as error:
                _LOG.info("health stream ended: driver=%s error=%s", driver.name, error.details())
            await self._clock.sleep(_AGAIN_S)

    def _note(self, driver: str, devices: Iterable[wire.DeviceHealth]) -> None:
        now = self._clock.monotonic()
        news = False
        self._reports = {name: report for name, report in self._reports.items() if report.until_s >= now}
        for device in islice(devices, _MOST_DEVICES):
            name = (driver, device.device.pool_name, device.device.device_name)
            health = _NAMES.get(device.health, UNKNOWN)
            news |= self.of(*name) != health
            self._reports[name] = _Report(health, now + (device.health_check_timeout_seconds or _TIMEOUT_S))
        if news:
            self._changed()


async def _reported(driver: Driver) -> AsyncIterator[Iterable[wire.DeviceHealth]]:
    method = methods.health_method(driver.health)
    async with grpc.aio.insecure_channel(f"unix:{driver.endpoint}", options=CHANNEL_OPTIONS) as channel:
        stream: Any = channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        async for answer in stream(method.request()):
            yield answer.devices
