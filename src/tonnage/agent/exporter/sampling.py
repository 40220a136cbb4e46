"""Reads the fields that a page shows, device by device, at an interval."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from tonnage.agent.context import AgentWorld
from tonnage.decide.node.exporter.readings import TimedSample
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.ports.node import DeviceReader

_LOG: Final = logging.getLogger(__name__)
_INTERVALS: Final = 2
_GRACE_S: Final = 5.0


class DeviceSampler:
    """The newest sample of each device. It is what pages show, so a scrape never waits for a driver."""

    def __init__(
        self,
        world: AgentWorld,
        backend: DeviceReader,
        fields: Callable[[], Collection[str]],
        interval_s: float,
    ) -> None:
        self._backend = backend
        self._clock = world.clock
        self._node = world.node
        self._started = world.started
        self._fields = fields
        self._interval_s = interval_s
        self._samples: dict[str, TimedSample] = {}
        self._complaint = ""

    async def run(self) -> None:
        """Sample until cancelled."""
        await self._started.wait()
        while True:
            await self.sample()
            await self._clock.sleep(self._interval_s)

    def fresh(self) -> Mapping[str, TimedSample]:
        """By uuid, the samples of devices that answered lately; of one that hangs there is none."""
        oldest = self._clock.monotonic() - _INTERVALS * self._interval_s - _GRACE_S
        return {uuid: timed for uuid, timed in self._samples.items() if timed.seen_s >= oldest}

    async def sample(self) -> None:
        """Ask every device once; what cannot be read is logged once, and its last sample grows old."""
        try:
            samples = await self._backend.sample(self._fields())
        except (HardwareError, ConfigError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("devices not sampled: node=%s error=%s", self._node, error)
            return
        self._complaint = ""
        now = self._clock.monotonic()
        for sample in samples:
            before = self._samples.get(sample.uuid)
            earlier = None if before is None else TimedSample(before.sample, before.seen_s)
            self._samples[sample.uuid] = TimedSample(sample, now, earlier)
        self._samples = dict(self.fresh())
