"""The node's labels, kept like its hardware, driver and configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.labels.sinks import LabelSink, NodeLabels
from tonnage.agent.retries import Retries
from tonnage.decide.node.choose_config import ConfigInForce
from tonnage.loop.ticks import next_beat
from tonnage.model.devices.inventory import Inventory
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.model.node.plugin_settings import FeatureSettings
from tonnage.ports.node import MachineFacts

if TYPE_CHECKING:
    from tonnage.decide.node.labels.node_labels import PublishedLabels

_LOG: Final = logging.getLogger(__name__)
_PART: Final = "gpu-feature-discovery"
_NOT_OFTENER_S: Final = 1.0


class NodeFeatures:
    """Publishes after every change, and again at the configuration's interval: others may write them.

    While the devices cannot be read, or this part is switched off, the labels stay as they are; they go with
    the hardware, not with the driver, and not with the agent. `sink_for` is None where nothing is published.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        machine: MachineFacts,
        sink_for: Callable[[FeatureSettings], LabelSink] | None,
    ) -> None:
        self._node = context.node
        self._clock = context.clock
        self._begun = context.started
        self._board = board
        self._machine = machine
        self._sink_for = sink_for
        self._started = context.clock.now()
        self._dirty = asyncio.Event()
        self._due: float | None = 0.0
        """When to look again though nothing changed; None for never."""
        self._used: LabelSink | None = None
        self._done: tuple[Inventory, ConfigInForce, str] | None = None
        """What the labels were made of that are published."""
        self._restarted = ""
        self._complaint = ""
        self._retries = Retries()
        for topic in (board.inventory, board.devices_error, board.configuration, board.parts_off):
            topic.subscribe(self._dirty.set)
        board.restarts.subscribe(self._restart)

    def _restart(self) -> None:
        """Publish all labels again, whether they changed or not."""
        if (pod := self._board.restarts.value.get(_PART, "")) == self._restarted:
            return
        self._restarted, self._done, self._due = pod, None, 0.0
        self._dirty.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        if self._sink_for is None:
            return
        await self._begun.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                await self._look(self._sink_for)
                await self._clock.sleep(_NOT_OFTENER_S)

    async def _tick(self) -> None:
        while True:
            await next_beat(self._clock)
            if self._due is not None and self._clock.monotonic() >= self._due:
                self._dirty.set()

    async def _look(self, sink_for: Callable[[FeatureSettings], LabelSink]) -> None:
        inventory, config = self._board.inventory.value, self._board.configuration.value
        if inventory is None or config is None or _PART in self._board.parts_off.value:
            return
        now = inventory, config, self._board.devices_error.value
        settings = config.config.features
        once = settings.oneshot or settings.interval_s is None
        if self._done is not None and once and self._done[1].config == config.config:
            return
        due = self._due is None or self._clock.monotonic() >= self._due
        if not due and (self._complaint or self._done == now):
            return
        sink = sink_for(settings)
        try:
            published = await self._labels(inventory, config, direct=isinstance(sink, NodeLabels))
            if published is not None:
                if self._used is not None and self._used != sink:
                    await self._used.show({})
                await sink.show(published.labels)
                self._used = sink
                self._board.labels.publish(published)
        except (ClusterError, HardwareError) as error:
            self._complain(error)
            return
        if published is not None and (self._complaint or self._done is None):
            _LOG.info("labels published: node=%s count=%d", self._node, len(published.labels))
        self._complaint, self._done = "", now
        self._retries.succeeded()
        wait_s = settings.interval_s
        self._due = None if once or wait_s is None else self._clock.monotonic() + wait_s

    async def _labels(
        self, inventory: Inventory, config: ConfigInForce, *, direct: bool
    ) -> PublishedLabels | None:
        """The labels to have; None to leave them as they are."""
        from tonnage.decide.node.labels.node_labels import (  # loaded once kubelet knows the devices
            PublishedLabels,
            node_labels,
        )

        machine = await self._machine.read(config.config.features.machine_type_file)
        self._board.machine.publish(machine)
        readable = not self._board.devices_error.value
        labels = node_labels(
            *(inventory, config.config, machine), readable=readable, direct=direct, started=self._started
        )
        return None if labels is None else PublishedLabels(labels, direct, self._started)

    def _complain(self, error: ClusterError | HardwareError) -> None:
        self._due = self._clock.monotonic() + self._retries.after(error)
        if str(error) != self._complaint:
            self._complaint = str(error)
            _LOG.warning("labels not published: node=%s error=%s", self._node, error)
