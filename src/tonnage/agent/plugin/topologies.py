"""How the devices of each resource are joined, worked out beside everything else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.node.preference.links import link_matrix
from tonnage.decide.node.preference.whole_devices import DeviceTopology, slowest_pair, topology_of, worked_out
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.links import Link
from tonnage.model.devices.sharing import NodePlan
from tonnage.model.names import ResourceName

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 8
"""Devices of which everything is worked out in 2 ms."""


@dataclass(slots=True)
class _Entry:
    """`facts` is all that the topology follows from, `work` what there is still to do."""

    facts: tuple[tuple[Device, ...], tuple[Link, ...]]
    topology: DeviceTopology
    work: Iterator[None] = field(default_factory=lambda: iter(()))


class Topologies:
    """What is known of the links of every resource of whole devices; built anew only when links change."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._entries: dict[ResourceName, _Entry] = {}
        self._changed = asyncio.Event()

    def of(self, resource: ResourceName) -> DeviceTopology | None:
        """The resource's topology as far as it is known; None for shared devices and parts of devices."""
        entry = self._entries.get(resource)
        return entry.topology if entry is not None else None

    def explain(self, resource: ResourceName, chosen: Sequence[str], *, of: int) -> None:
        """Log how well devices are joined that were chosen together, of so many that were free."""
        topology = self.of(resource)
        pace = None if topology is None else slowest_pair(topology, chosen)
        if topology is not None and pace is not None:
            _LOG.info(
                "devices preferred: node=%s resource=%s ids=%s of=%d slowest_pair_gb_s=%.1f exact=%s",
                *(self._node, resource, ",".join(chosen), of, pace / 10, topology.tables is not None),
            )

    def follow(self, plan: NodePlan, inventory: Inventory) -> None:
        """Take up the devices of a new plan. Those that are joined as before keep what was worked out."""
        devices = {device.uuid: _lasting(device) for device in inventory.devices}
        before, self._entries = self._entries, {}
        for resource in plan.resources:
            if resource.shared or any(slot.part_of for slot in resource.slots):
                continue
            own = tuple(devices[slot.uuid] for slot in resource.slots if slot.uuid in devices)
            entry = before.get(resource.name)
            if entry is None or entry.facts != (own, inventory.links):
                entry = _Entry((own, inventory.links), topology_of(link_matrix(own, inventory.links)))
                entry.work = self._work(resource.name, entry)
                if len(own) <= _AT_ONCE:
                    _finish(entry.work)
            self._entries[resource.name] = entry
        self._changed.set()

    async def run(self) -> None:
        """Work out what is not yet, in steps of a millisecond, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for name, entry in tuple(self._entries.items()):
                for _ in entry.work:
                    await asyncio.sleep(0)
                    if self._entries.get(name) is not entry:
                        break

    def _work(self, name: ResourceName, entry: _Entry) -> Iterator[None]:
        entry.topology = yield from worked_out(entry.topology)
        _LOG.info(
            "links known: node=%s resource=%s devices=%d kinds=%d exact=%s",
            self._node,
            name,
            len(entry.topology.pairs),
            len(entry.topology.kinds),
            entry.topology.tables is not None,
        )


def _finish(work: Iterator[None]) -> None:
    for _ in work:
        pass


def _lasting(device: Device) -> Device:
    """What links follow from: not health, nor anything else that may change from one scan to the next."""
    capability, numa_node = device.compute_capability, device.numa_node
    return Device(device.uuid, device.index, "", 0, capability, numa_node=numa_node)
