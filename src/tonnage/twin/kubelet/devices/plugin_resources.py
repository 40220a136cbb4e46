"""What device plugins offer on a node: their devices, health, and what is left of lost plugins.

Source: Kubernetes 1.36, pkg/kubelet/cm/devicemanager/manager.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from tonnage.decide.kubernetes.kubelet.devices import NO_IDS, Ids
from tonnage.ports.clock import Clock
from tonnage.twin.kubelet.devices.plugins import PluginEndpoint
from tonnage.twin.kubelet.node_spec import GRACE_AFTER_PLUGIN_LOSS_S
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods


@dataclass(slots=True)
class PluginResource:
    """One extended resource: NUMA mask by device id, healthy ids, and the plugin while it is there."""

    numa: dict[str, int] = field(default_factory=dict)
    healthy: Ids = NO_IDS
    plugin: PluginEndpoint | None = None


class PluginResources:
    """All extended resources of a node.

    `on_change` is called whenever Capacity or Allocatable may have changed, `on_list` after every list.
    """

    def __init__(
        self, clock: Clock, on_change: Callable[[], None], on_list: Callable[[], Awaitable[None]]
    ) -> None:
        self._clock = clock
        self._on_change = on_change
        self._on_list = on_list
        self._resources: dict[str, PluginResource] = {}
        self._removed: set[str] = set()
        self._expiry: dict[str, asyncio.Task[None]] = {}

    def restore(self, names: Iterable[str]) -> None:
        """Resources that a checkpoint names: without devices until their plugins register again."""
        for name in names:
            self._resources.setdefault(name, PluginResource())
            self._start_expiry(name)

    async def stop(self) -> None:
        """Drop every connection and timer."""
        tasks = list(self._expiry.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for resource in self._resources.values():
            if resource.plugin is not None:
                await resource.plugin.stop()

    async def plugin_connected(self, plugin: PluginEndpoint) -> None:
        """A plugin serves its resource from now on; one that did before is let go."""
        resource = self._resources.setdefault(plugin.resource, PluginResource())
        before, resource.plugin = resource.plugin, plugin
        self._removed.discard(plugin.resource)
        expiry = self._expiry.pop(plugin.resource, None)
        if expiry is not None:
            expiry.cancel()
        if before is not None:
            await before.stop()

    async def devices_listed(self, plugin: PluginEndpoint, devices: list[wire.Device]) -> None:
        """The plugin's whole list, replacing what it said before."""
        resource = self._resources.get(plugin.resource)
        if resource is None or resource.plugin is not plugin:
            return
        resource.numa = {device.ID: _mask_of(device) for device in devices}
        resource.healthy = frozenset(device.ID for device in devices if device.health == methods.HEALTHY)
        self._on_change()
        await self._on_list()

    def plugin_lost(self, plugin: PluginEndpoint) -> None:
        """The plugin's stream broke: its devices are unhealthy now and forgotten after the grace period."""
        resource = self._resources.get(plugin.resource)
        if resource is None or resource.plugin is not plugin:
            return
        resource.plugin = None
        resource.healthy = NO_IDS
        self._start_expiry(plugin.resource)
        self._on_change()

    def get(self, name: str) -> PluginResource | None:
        """The resource, as long as it is known."""
        return self._resources.get(name)

    def capacity_and_allocatable(self) -> dict[str, tuple[int, int]]:
        """(all devices, healthy ones) by resource; a resource whose plugin has gone for good has (0, 0)."""
        present = {name: (len(r.numa), len(r.healthy)) for name, r in self._resources.items()}
        return {**dict.fromkeys(self._removed, (0, 0)), **present}

    def healthy(self) -> dict[str, dict[str, int]]:
        """Healthy devices with their NUMA masks, by resource."""
        return {
            name: {device: resource.numa[device] for device in sorted(resource.healthy)}
            for name, resource in self._resources.items()
        }

    def _start_expiry(self, name: str) -> None:
        self._expiry[name] = asyncio.create_task(self._expire(name), name=f"expire {name}")

    async def _expire(self, name: str) -> None:
        await self._clock.sleep(GRACE_AFTER_PLUGIN_LOSS_S)
        self._resources.pop(name, None)
        self._expiry.pop(name, None)
        self._removed.add(name)
        self._on_change()


def _mask_of(device: wire.Device) -> int:
    mask = 0
    for node in device.topology.nodes:
        if 0 <= node.ID < 64:
            mask |= 1 << node.ID
    return mask
