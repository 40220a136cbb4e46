"""Publishes what the agent sees as the node's NodeGPUStatus."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.retries import Retries
from tonnage.decide.node.offer import NodeOffer, offer_of, plan_of
from tonnage.loop.ticks import next_beat
from tonnage.model.actions.cluster import CreateNodeGpuStatus, PatchNodeGpuStatus
from tonnage.model.devices.inventory import FABRIC_COMPLETE, MEMORY_IN_USE, Sample
from tonnage.model.errors import ApiError, ClusterError, ConfigError, HardwareError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.names import NVIDIA
from tonnage.ports.node import DeviceReader, KubeletDevices

if TYPE_CHECKING:
    from tonnage.documents.node.gpu_status import NodeGPUStatusBody

_LOG: Final = logging.getLogger(__name__)
_NOT_OFTENER_S: Final = 0.25
_LOOK_S: Final = 60.0
_TICK_S: Final = 4.5
"""On a beat of the other loops, so that the process wakes for all of them at once."""
_LOOKS: Final = 5
"""Looks between two writes of all that has not changed; in between a heartbeat says that it still holds."""
_HEARTBEAT_S: Final = _LOOK_S / 2
"""A write that is not older serves as the heartbeat of a look."""
_PLUGIN: Final = "device-plugin"
_MOST_LISTED: Final = 256
_LONGEST_NAMES: Final = 256


class StatusPublisher:
    """Keeps the object like the offer, and its heartbeat going.

    What somebody deleted comes back with the next heartbeat, what somebody changed in five minutes.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        backend: DeviceReader,
        kubelet: KubeletDevices | None = None,
    ) -> None:
        """`kubelet` is asked which devices it has, by an agent whose plugin waits for another's to leave."""
        self._board = board
        self._kubelet = kubelet
        self._backend = backend
        self._node = context.node
        self._api = context.api
        self._performer = context.performer
        self._clock = context.clock
        self._begun = context.started
        self._dirty = asyncio.Event()
        self._complaint = ""
        self._retries = Retries()
        self._due = context.clock.monotonic() + _LOOK_S
        """When to look again though nothing changed."""
        self._written: JsonObject | None = None
        """What the object says, but for the time; None where that is not known, or to be written again."""
        self._heartbeat_at = 0.0
        """When the object was last written, by the monotonic clock."""
        self._fabric_waits_since: str | None = None
        for topic in (board.offer, board.software, board.claims, board.parts_off):
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
                if (offer := self._board.offer.value) is not None and not await self._publish(offer):
                    self._dirty.set()
                    await next_beat(self._clock)
                else:
                    await self._clock.sleep(_NOT_OFTENER_S)

    async def _tick(self) -> None:
        """Memory in use is told by nobody, so it is looked at, and every look ends in a write."""
        look = 0
        while True:
            await next_beat(self._clock, _TICK_S)
            if self._clock.monotonic() < self._due:
                continue
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

    async def _listed(self) -> list[tuple[str, str]]:
        """The devices that kubelet has, of whichever plugin; nothing where none is waited for."""
        if self._kubelet is None:
            return []
        try:
            there = await self._kubelet.replicas()
        except ClusterError:
            return []
        devices = [
            (name, uuid)
            for name, uuid in sorted(there)
            if name.startswith(f"{NVIDIA}/") and len(name) + len(uuid) <= _LONGEST_NAMES
        ]
        return devices[:_MOST_LISTED]

    def _report(self, offer: NodeOffer, listed: list[tuple[str, str]]) -> NodeGPUStatusBody:
        """What is published. Devices say as what a plugin that waits would offer them."""
        from tonnage.agent.status.body import status_of  # its models take time to load: after registration

        board = self._board
        sources = board.samples.value, board.software.value, board.claims.value, listed
        fabric: dict[str, object] = {"fabric_waits_since": self._fabric_since(offer)}
        if self._kubelet is None or _PLUGIN not in board.parts_off.value:
            return status_of(offer, *sources, at="").model_copy(update=fabric)
        plan = plan_of(offer.inventory, offer.config, board.mps.value)
        would_be = offer_of(offer.inventory, offer.config, plan, board.holds.value, board.mps.value)
        return status_of(would_be, *sources, at="").model_copy(update={**fabric, "resources": []})

    async def _publish(self, offer: NodeOffer) -> bool:
        """Whether all is told; else kubelet does not have yet what the agent offers."""
        self._board.samples.publish(await self._sample())
        listed = await self._listed()
        report = self._report(offer, listed)
        body = report.to_json()
        is_whole = self._kubelet is None or _names(offer) <= {name for name, _ in listed}
        heartbeat_due = self._clock.monotonic() - self._heartbeat_at >= _HEARTBEAT_S
        if body == self._written and not heartbeat_due:
            return is_whole
        heartbeat: JsonObject = {"heartbeatAt": timestamp(self._clock.now() + self._server_ahead())}
        try:
            if body != self._written or not await self._patched(heartbeat):
                self._written = None
                at = timestamp(self._clock.now())
                await self._write({**report.to_merge_patch(), "updatedAt": at, **heartbeat})
        except ClusterError as error:
            self._due = self._clock.monotonic() + self._retries.after(error)
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("status not published: node=%s error=%s", self._node, error)
        else:
            self._written, self._complaint = body, ""
            self._retries.succeeded()
            self._heartbeat_at = self._clock.monotonic()
            self._due = self._heartbeat_at + _LOOK_S
        return is_whole

    def _fabric_since(self, offer: NodeOffer) -> str | None:
        """Since when GPUs wait for Fabric Manager, as far as this agent has seen; None: none does."""
        if all(device.fabric in ("", FABRIC_COMPLETE) for device in offer.inventory.devices):
            self._fabric_waits_since = None
        elif self._fabric_waits_since is None:
            self._fabric_waits_since = timestamp(self._clock.now())
        return self._fabric_waits_since

    def _server_ahead(self) -> timedelta:
        """Readers compare heartbeats with the API server's clock, since clocks of nodes may be wrong."""
        return timedelta(seconds=self._api.server_ahead_s if self._api is not None else 0.0)

    async def _write(self, status: JsonObject) -> None:
        if not await self._patched(status):
            await self._performer.perform(CreateNodeGpuStatus(self._node))
            await self._performer.perform(PatchNodeGpuStatus(self._node, {"status": status}))

    async def _patched(self, status: JsonObject) -> bool:
        """Whether the object is there, which then has this."""
        try:
            await self._performer.perform(PatchNodeGpuStatus(self._node, {"status": status}))
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True


def _names(offer: NodeOffer) -> set[str]:
    """Resources of which there is a healthy device."""
    return {str(shown.resource) for shown in offer.advertised if any(slot.healthy for slot in shown.slots)}
