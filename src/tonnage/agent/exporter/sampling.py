"""Reads the fields that a page shows, device by device, at an interval."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final

from tonnage.agent.context import AgentContext
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.exporter.facts import DeviceAge
from tonnage.decide.node.exporter.readings import CLOCK_REASONS, PEER_FIELDS, TimedSample, counters_of
from tonnage.model.devices.inventory import Inventory, Sample
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.ports.node import DeviceReader

_LOG: Final = logging.getLogger(__name__)
_INTERVALS: Final = 2
_GRACE_S: Final = 5.0
_MOST_READINGS: Final = 3600
"""Of the longest window, an hour, at the shortest interval."""
_DEMAND_S: Final = 0.5


class DeviceSampler:
    """The newest sample of each device. It is what pages show, so a scrape never waits for a driver."""

    def __init__(
        self,
        context: AgentContext,
        backend: DeviceReader,
        fields: Callable[[], Collection[str]],
        settings: ExporterSettings,
    ) -> None:
        self._backend = backend
        self._clock = context.clock
        self._node = context.node
        self._started = context.started
        self._fields = fields
        self._interval_s = settings.interval_s
        self._on_demand = settings.on_demand
        """Devices are read when a page is asked for: they are pretended, and answer at once."""
        self._samples: Mapping[str, TimedSample] = {}
        self._answered_s: dict[str, float] = {}
        """When each device last answered, by the monotonic clock."""
        self._begun_s = context.clock.monotonic()
        self._reasons: dict[str, deque[tuple[float, int]]] = {}
        """Of each device, when it was read and by what its clocks were held, the newest last."""
        self._complaint = ""
        self.sampled = asyncio.Event()
        """Set after each reading, also one that failed."""
        self._lacking: dict[str, frozenset[str]] = {}
        """Fields that each GPU was told to lack."""
        self._sampled_s = float("-inf")

    async def run(self) -> None:
        """Sample until cancelled, unless it is done on demand."""
        await self._started.wait()
        while not self._on_demand:
            await self.sample()
            self.sampled.set()
            await self._clock.sleep(self._interval_s)

    async def when_due(self) -> bool:
        """Sample if that is done on demand, and not done just now; whether it was."""
        due = self._on_demand and self._clock.monotonic() - self._sampled_s >= _DEMAND_S
        if due:
            await self.sample()
        return due

    def fresh(self) -> Mapping[str, TimedSample]:
        """By uuid, the samples of devices that answered lately; of one that hangs there is none.

        The same object until devices are read again or one grows old, so that `is` tells of news.
        """
        oldest = self._clock.monotonic() - _INTERVALS * self._interval_s - _GRACE_S
        if all(timed.seen_s >= oldest for timed in self._samples.values()):
            return self._samples
        return {uuid: timed for uuid, timed in self._samples.items() if timed.seen_s >= oldest}

    def ages(self, inventory: Inventory) -> tuple[DeviceAge, ...]:
        """How long ago each GPU was read, and what the driver owes."""
        now, stuck_s = self._clock.monotonic(), self._backend.stuck_s()
        hanging = {vitals.uuid for vitals in inventory.vitals if vitals.hangs}
        fresh = self.fresh()
        ages: list[DeviceAge] = []
        for device in inventory.devices:
            answered_s = self._answered_s.get(device.uuid)
            silent_s = now - (self._begun_s if answered_s is None else answered_s)
            stall_s = silent_s if device.uuid in hanging else 0.0 if device.uuid in fresh else stuck_s
            ages.append(DeviceAge(device, None if answered_s is None else silent_s, stall_s))
        return tuple(ages)

    def clock_reasons(self, uuid: str, oldest_s: float) -> tuple[int, ...]:
        """By what the device's clocks were held at each reading from that time on, as bits."""
        return tuple(bits for seen_s, bits in self._reasons.get(uuid, ()) if seen_s >= oldest_s)

    async def sample(self) -> None:
        """Ask every device once; what cannot be read is logged once, and its last sample grows old."""
        fields = frozenset(self._fields())
        try:
            samples = await self._backend.sample(fields)
        except (HardwareError, ConfigError) as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("devices not sampled: node=%s error=%s", self._node, error)
            return
        self._complaint = ""
        now = self._sampled_s = self._clock.monotonic()
        newer = dict[str, TimedSample]()
        for sample in samples:
            before = self._samples.get(sample.uuid)
            earlier = None if before is None else TimedSample(before.sample, before.seen_s)
            newer[sample.uuid] = TimedSample(sample, now, earlier)
            if before is not None:  # the first sample has no activity yet
                self._tell_what_is_lacking(sample, fields)
            self._answered_s[sample.uuid] = now
            if (bits := sample.whole(CLOCK_REASONS)) is not None:
                self._reasons.setdefault(sample.uuid, deque(maxlen=_MOST_READINGS)).append((now, bits))
        self._samples = {**self.fresh(), **newer}

    def _tell_what_is_lacking(self, sample: Sample, fields: frozenset[str]) -> None:
        """Log once the counters that are absent because the GPU lacks them; of a MIG device nothing."""
        if sample.uuid.startswith("MIG-"):
            return
        present = {
            name for values in (sample.values, sample.texts, *sample.links.values()) for name in values
        }
        if sample.peers:
            present |= PEER_FIELDS
        lacking = fields - present
        fresh = lacking - self._lacking.get(sample.uuid, frozenset())
        if fresh:
            self._lacking[sample.uuid] = lacking | self._lacking.get(sample.uuid, frozenset())
            names = ",".join(counters_of(sorted(fresh)))
            _LOG.info("counters absent: node=%s uuid=%s lacks=%s", self._node, sample.uuid, names)
