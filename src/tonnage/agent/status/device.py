"""What a node's NodeGPUStatus says of each device: what it is, how it is joined, offered, and who has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.decide.node.offer import NodeOffer
from tonnage.documents.node.gpu_status import DeviceStatus, LinkStatus, MigPlacement, MigStatus, StatusHolder
from tonnage.model.devices.inventory import MEMORY_IN_USE, Device, MigDevice, Sample
from tonnage.model.devices.links import NVSWITCH, PCI_WORDS, Link, PciLevel
from tonnage.model.devices.sharing import DeviceSlot, Hold, PlannedResource
from tonnage.model.names import parse_device_id

_MOST_HOLDERS: Final = 2048
_MOST_IDS: Final = 64
"""On a node, divided among its devices, and ids for each. So it stays below what etcd takes (1.5 MiB)."""
_LONGEST_REASON: Final = 2048


def devices_of(offer: NodeOffer, samples: Iterable[Sample] = ()) -> list[DeviceStatus]:
    """Every device of the node in index order; long lists of holders are cut."""
    used_mib = {sample.uuid: sample.whole(MEMORY_IN_USE) for sample in samples}
    slots = {
        slot.uuid: (resource, slot)
        for resource, shown in zip(reversed(offer.plan.resources), reversed(offer.advertised), strict=True)
        for slot in reversed(shown.slots)
    }
    most = _MOST_HOLDERS // max(1, len(offer.inventory.devices))
    holders = _holders(offer.holds, offer.plan.whole_of, most=most)
    links = links_of(offer.inventory.devices, offer.inventory.links)
    return [
        _device(device, used_mib.get(device.uuid), slots, holders.get(device.uuid, []), links[device.uuid])
        for device in offer.inventory.devices
    ]


def _device(
    device: Device,
    used_mib: int | None,
    slots: Mapping[str, tuple[PlannedResource, DeviceSlot]],
    holders: list[StatusHolder],
    links: list[LinkStatus],
) -> DeviceStatus:
    uuids = (device.uuid, *(mig.uuid for mig in device.migs))
    resource, slot = next((slots[uuid] for uuid in uuids if uuid in slots), (None, None))
    return DeviceStatus.model_construct(
        uuid=device.uuid,
        index=device.index,
        product=device.product,
        memory_mib=device.memory_mib,
        memory_used_mib=used_mib,
        compute_capability=device.compute_capability,
        pci_bus_id=device.pci_bus_id,
        numa_node=device.numa_node,
        clique=device.clique,
        fabric=device.fabric,
        links=links,
        mig_enabled=device.mig_enabled,
        mig_devices=[_mig(mig, device, slots.get(mig.uuid)) for mig in device.migs],
        health="Healthy" if device.healthy else "Unhealthy",
        reason=(device.reason or (slot.reason if slot else ""))[:_LONGEST_REASON],
        resource=resource.name if resource else "",
        replicas=resource.replicas if resource else 1,
        holders=holders,
    )


def _mig(mig: MigDevice, device: Device, offered: tuple[PlannedResource, DeviceSlot] | None) -> MigStatus:
    """One on a device that is not healthy is not healthy either."""
    resource, slot = offered or (None, None)
    reason = device.reason if not device.healthy else mig.reason or (slot.reason if slot else "")
    return MigStatus.model_construct(
        uuid=mig.uuid,
        index=mig.index,
        profile=mig.profile,
        gpu_instance=mig.gpu_instance,
        compute_instance=mig.compute_instance,
        memory_mib=mig.memory_mib,
        placement=mig.placement
        and MigPlacement.model_construct(start=mig.placement[0], size=mig.placement[1]),
        health="Healthy" if device.healthy and mig.healthy else "Unhealthy",
        reason=reason[:_LONGEST_REASON],
        resource=resource.name if resource else "",
    )


def links_of(devices: Iterable[Device], links: Iterable[Link]) -> dict[str, list[LinkStatus]]:
    """By uuid of each device, its links as it states them: peers that are alike together, nearest first.

    Links to what is none of `devices` are left out.
    """
    indices = {device.uuid: device.index for device in devices}
    groups: dict[str, dict[tuple[bool, int, PciLevel | None], list[int]]] = {uuid: {} for uuid in indices}
    for link in links:
        switches = link.target == NVSWITCH
        if link.source in indices and (switches or link.target in indices):
            peers = groups[link.source].setdefault((switches, link.nvlinks, link.level), [])
            peers += [] if switches else [indices[link.target]]
    return {
        uuid: [_link(kind, peers_by_kind[kind]) for kind in sorted(peers_by_kind, key=_nearest)]
        for uuid, peers_by_kind in groups.items()
    }


def _nearest(kind: tuple[bool, int, PciLevel | None]) -> tuple[bool, int, int]:
    switches, nvlinks, level = kind
    return not switches, -nvlinks, max(PciLevel) + 1 if level is None else level


def _link(kind: tuple[bool, int, PciLevel | None], peers: list[int]) -> LinkStatus:
    switches, nvlinks, level = kind
    path = "" if level is None else PCI_WORDS[level]
    return LinkStatus.model_construct(peers=sorted(peers), switches=switches, nvlinks=nvlinks, path=path)


def _holders(
    holds: Iterable[Hold], whole_of: Mapping[str, str], *, most: int
) -> dict[str, list[StatusHolder]]:
    """By physical device, each hold with the ids of that device and of its parts."""
    by_uuid: dict[str, list[StatusHolder]] = {}
    for hold in holds:
        by_device: dict[str, list[str]] = {}
        for slot in hold.ids:
            uuid = parse_device_id(slot).uuid
            by_device.setdefault(whole_of.get(uuid, uuid), []).append(slot)
        for uuid, ids in by_device.items():
            holders = by_uuid.setdefault(uuid, [])
            if len(holders) < most:
                holders.append(
                    StatusHolder.model_construct(
                        resource=hold.resource,
                        ids=cut(ids, _MOST_IDS),
                        namespace=hold.namespace,
                        pod=hold.pod,
                        container=hold.container,
                    )
                )
    return by_uuid


def cut(texts: list[str], most: int) -> list[str]:
    """At most so many; the last one says how many are left out."""
    if len(texts) <= most:
        return texts
    return [*texts[: most - 1], f"and {len(texts) - most + 1} more"]
