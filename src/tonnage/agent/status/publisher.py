"""Publishes what the agent sees as the node's NodeGPUStatus."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentWorld
from tonnage.decide.node.offer import NodeOffer
from tonnage.model.actions.cluster import CreateNodeGpuStatus, PatchNodeGpuStatus
from tonnage.model.devices.inventory import MEMORY_IN_USE, Sample
from tonnage.model.errors import ApiError, ClusterError, ConfigError, HardwareError
from tonnage.model.json import JsonObject
from tonnage.ports.node import DeviceReader

_LOG: Final = logging.getLogger(__name__)
_NOT_OFTENER_S: Final = 0.25
_LOOK_S: Final = 60.0
_LOOKS: Final = 5
"""Looks between two writes of what has not changed: every agent of a fleet does so for ever."""
_RETRY_S: Final = 5.0


class StatusPublisher:
    """Keeps the object like the offer; what somebody deleted or changed comes back in five minutes."""

    def __init__(self, world: AgentWorld, board: NodeBoard, backend: DeviceReader) -> None:
        self._board = board
        self._backend = backend
        self._node = world.node
        self._api = world.api
        self._performer = world.performer
        self._clock = world.clock
        self._begun = world.started
        self._dirty = asyncio.Event()
        self._complaint = ""
        self._written: JsonObject | None = None
        """What the object says, but for the time; None where that is not known, or to be written again."""
        for topic in (board.offer, board.software):
            topic.subscribe(self._dirty.set)

    async def run(self) -> None:
        """Publish after every change until cancelled; a refusal is logged once and tried again."""
        if self._api is None:
            return
        await self._begun.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                if (offer := self._board.offer.value) is not None:
                    await self._publish(offer)
                await self._clock.sleep(_NOT_OFTENER_S)

    async def _tick(self) -> None:
        """Memory in use is told by nobody, so it is looked at; what is the same is written now and then."""
        look = 0
        while True:
            await self._clock.sleep(_RETRY_S if self._complaint else _LOOK_S)
            look += 1
            if look % _LOOKS == 0:
                self._written = None
            self._dirty.set()

    async def _sample(self) -> tuple[Sample, ...]:
        """What the devices read now; nothing when they cannot, which the scan reports already."""
        try:
            return await self._backend.sample((MEMORY_IN_USE,))
        except (HardwareError, ConfigError):
            return ()

    async def _publish(self, offer: NodeOffer) -> None:
        from tonnage.agent.status.body import status_of  # its models take time to load: after registration

        self._board.samples.publish(await self._sample())
        body = status_of(offer, self._board.samples.value, self._board.software.value, at="").to_json()
        if body == self._written:
            return
        self._written = None
        at = self._clock.now().isoformat(timespec="seconds").replace("+00:00", "Z")
        publish = PatchNodeGpuStatus(self._node, {"status": {**body, "updatedAt": at}})
        try:
            try:
                await self._performer.perform(publish)
            except ApiError as error:
                if error.code != 404:
                    raise
                await self._performer.perform(CreateNodeGpuStatus(self._node))
                await self._performer.perform(publish)
        except ClusterError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("status not published: node=%s error=%s", self._node, error)
        else:
            self._written, self._complaint = body, ""
