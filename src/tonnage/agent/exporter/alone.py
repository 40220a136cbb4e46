"""What the exporter knows of its node where it is a process of its own: devices, who holds them, and pods.

It advertises no device, decides about none, and changes nothing but its own files.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.node_pods import NodePods
from tonnage.decide.node.claims.claim_holders import claim_names, named_holds
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.exporter.shares import Replicas
from tonnage.loop.informer import Informer
from tonnage.loop.ticks import next_beat
from tonnage.model.devices.health import SeenXid
from tonnage.model.devices.inventory import RawEvent, RawEventKind
from tonnage.model.devices.sharing import Hold
from tonnage.model.errors import ClusterError, ConfigError, HardwareError
from tonnage.ports.node import DeviceReader, KubeletDevices
from tonnage.wire.kinds import NODE

_LOG: Final = logging.getLogger(__name__)
_SCAN_S: Final = 10.0
_LIST_S: Final = 10.0
_CALM_S: Final = 2.0
_PATIENCE_S: Final = 20.0
"""For so long kubelet is not asked while it admits pods with devices."""
_SILENT_S: Final = 60.0
_MOST_XIDS: Final = 1000


class LoneExporter:
    """Publishes on the board what the agent's loops publish there, as far as the exporter reads it."""

    def __init__(
        self, context: AgentContext, board: NodeBoard, backend: DeviceReader, kubelet: KubeletDevices
    ) -> None:
        self._node = context.node
        self._api = context.api
        self._clock = context.clock
        self._board = board
        self._backend = backend
        self._kubelet = kubelet
        self._scan_soon = asyncio.Event()
        self._pods = NodePods(context, on_change=self._pods_changed, on_census=lambda: None)
        self._holds: tuple[Hold, ...] = ()
        self._claims: tuple[Hold, ...] = ()
        self._replicas: Replicas = {}
        self._listed_s: float | None = None
        self._begun_s = context.clock.monotonic()
        self._changed_s = self._begun_s - _CALM_S
        self._complaints: dict[str, str] = {}

    def replicas(self) -> Replicas:
        """Into how many replicas each device is divided, as kubelet has them."""
        return self._replicas

    async def run(self) -> None:
        """Look at devices, holders and pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            for run in (self._scan_often, self._listen, self._pods.run, self._list_often, self.follow_node):
                group.create_task(run())

    async def follow_node(self) -> None:
        """The Node, which says how many devices it has; without the right to it that is not shown."""
        if self._api is None:
            return

        def changed(_: object) -> None:
            self._board.node.publish(nodes.get(self._node))

        nodes = Informer(
            *(self._api, NODE, self._clock),
            field_selector=f"metadata.name={self._node}",
            on_change=changed,
        )
        await nodes.run()

    async def _scan_often(self) -> None:
        while True:
            self._scan_soon.clear()
            await self.scan()
            waits = [
                asyncio.ensure_future(self._scan_soon.wait()),
                asyncio.ensure_future(self._clock.sleep(_SCAN_S)),
            ]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            await next_beat(self._clock)

    async def scan(self) -> None:
        """The devices as they are; without a driver there are none until it comes."""
        try:
            inventory = await self._backend.scan()
        except (HardwareError, ConfigError) as error:
            self._complain("devices not readable", error)
            return
        self._complain("devices not readable")
        self._board.inventory.publish(inventory)

    async def _listen(self) -> None:
        async for event in self._backend.events():
            if event.kind is RawEventKind.XID:
                self._note(event)
            self._scan_soon.set()

    def _note(self, event: RawEvent) -> None:
        xid = SeenXid(event.uuid, event.code, self._clock.monotonic(), event.gpu_instance)
        self._board.xids.publish((*self._board.xids.value, xid)[-_MOST_XIDS:])

    def _pods_changed(self) -> None:
        self._changed_s = self._clock.monotonic()
        self._board.pods.publish(self._pods.identities())
        self._board.requested.publish(self._pods.requested())
        self._publish()

    async def _list_often(self) -> None:
        while True:
            await next_beat(self._clock)
            await self.list_holders()

    async def list_holders(self) -> None:
        """Ask kubelet when something changed or a while has passed, but not while it admits pods.

        To list, kubelet counts anew what pods that ended gave back, and may take a device that it is just
        allocating for free.
        """
        now = self._clock.monotonic()
        since_s = now - (self._begun_s if self._listed_s is None else self._listed_s)
        due = self._listed_s is None or since_s >= _LIST_S or self._listed_s < self._changed_s
        quiet = now - self._changed_s >= _CALM_S and not self._pods.admits
        if not due or not (quiet or since_s >= _PATIENCE_S):
            return
        try:
            shown = await self._kubelet.shown()
            self._replicas = await self._kubelet.replicas()
        except ClusterError as error:
            self._complain("kubelet not asked", error)
            if self._listed_s is None or now - self._listed_s >= _SILENT_S:
                self._holds = self._claims = ()
                self._publish(settled=False)
            return
        self._complain("kubelet not asked")
        self._listed_s = now
        self._holds, self._claims = shown.holds, shown.claims
        self._publish()

    def _publish(self, *, settled: bool = True) -> None:
        """Without pods that are over, which an older kubelet lists, too."""
        pods = self._board.pods.value
        inventory = self._board.inventory.value
        names = claim_names(inventory) if inventory is not None and self._claims else {}
        every = (*self._holds, *named_holds(self._claims, names))
        holds = tuple(hold for hold in every if not pods or f"{hold.namespace}/{hold.pod}" in pods)
        self._board.holds.publish(DeviceHolds.of(holds, settled=settled and self._listed_s is not None))

    def _complain(self, failure: str, error: Exception | None = None) -> None:
        """Log what fails once, until it is well again."""
        text = str(error) if error is not None else ""
        if text and text != self._complaints.get(failure):
            _LOG.warning("%s, will retry: node=%s error=%s", failure, self._node, text)
        self._complaints[failure] = text
