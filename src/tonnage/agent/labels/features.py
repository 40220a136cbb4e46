"""The node's labels, kept like its hardware, driver and configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tonnage.agent.config.selection import ConfigInForce, NodeConfig
from tonnage.agent.devices import NodeDevices
from tonnage.agent.labels.sinks import LabelSink, NodeLabels
from tonnage.agent.retries import Retries
from tonnage.agent.world import World
from tonnage.decide.node.share import share
from tonnage.loop.ticks import next_beat
from tonnage.model.devices.inventory import Inventory
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.model.node.plugin_settings import FeatureSettings
from tonnage.ports.node import MachineFacts

_LOG: Final = logging.getLogger(__name__)
_NOT_OFTENER_S: Final = 1.0


class NodeFeatures:
    """Publishes after every change, and again at the configuration's interval: others may write them.

    While the devices cannot be read the labels stay as they are; they go with the hardware, not with the
    driver, and not with the agent. `sink_for` is None where nothing is published.
    """

    def __init__(
        self,
        world: World,
        machine: MachineFacts,
        devices: NodeDevices,
        config: NodeConfig,
        sink_for: Callable[[FeatureSettings], LabelSink] | None,
    ) -> None:
        self._node = world.node
        self._clock = world.clock
        self._begun = world.started
        self._machine = machine
        self._devices = devices
        self._config = config
        self._sink_for = sink_for
        self._started = world.clock.now()
        self._dirty = asyncio.Event()
        self._due: float | None = 0.0
        """When to look again though nothing changed; None for never."""
        self._used: LabelSink | None = None
        self._done: tuple[Inventory, ConfigInForce, str] | None = None
        """What the labels were made of that are published."""
        self._complaint = ""
        self._retries = Retries()

    def look(self) -> None:
        """Devices or configuration may be others now."""
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
        inventory, config = self._devices.inventory, self._config.current
        if inventory is None or config is None:
            return
        now = inventory, config, self._devices.error
        settings = config.config.features
        once = settings.oneshot or settings.interval_s is None
        if self._done is not None and once and self._done[1].config == config.config:
            return
        due = self._due is None or self._clock.monotonic() >= self._due
        if not due and (self._complaint or self._done == now):
            return
        sink = sink_for(settings)
        try:
            labels = await self._labels(inventory, config, direct=isinstance(sink, NodeLabels))
            if labels is not None:
                if self._used is not None and self._used != sink:
                    await self._used.show({})
                await sink.show(labels)
                self._used = sink
        except (ClusterError, HardwareError) as error:
            self._complain(error)
            return
        if labels is not None and (self._complaint or self._done is None):
            _LOG.info("labels published: node=%s count=%d", self._node, len(labels))
        self._complaint, self._done = "", now
        self._retries.succeeded()
        wait_s = settings.interval_s
        self._due = None if once or wait_s is None else self._clock.monotonic() + wait_s

    async def _labels(
        self, inventory: Inventory, config: ConfigInForce, *, direct: bool
    ) -> dict[str, str] | None:
        """The labels to have; None to leave them as they are.

        Where node feature discovery runs it speaks of the machine itself.
        """
        from tonnage.decide.node.labels.gpu import gpu_labels  # loaded once kubelet knows the devices
        from tonnage.decide.node.labels.machine import gpus_on_the_bus, machine_labels

        features = config.config.features
        machine = await self._machine.read(features.machine_type_file)
        if self._devices.error:
            if machine.pci is None or gpus_on_the_bus(machine.pci):
                return None
            inventory = Inventory()
        started = self._started if features.timestamp else None
        plan = share(inventory, config.config)
        labels = gpu_labels(inventory, config.config, plan, machine, started=started)
        return machine_labels(machine) | labels if direct else labels

    def _complain(self, error: ClusterError | HardwareError) -> None:
        self._due = self._clock.monotonic() + self._retries.after(error)
        if str(error) != self._complaint:
            self._complaint = str(error)
            _LOG.warning("labels not published: node=%s error=%s", self._node, error)
