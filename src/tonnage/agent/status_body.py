"""What a node's NodeGPUStatus says, as it follows from what the node offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.agent.device_plugin import Offer
from tonnage.documents.node_gpu_status import (
    ConfigStatus,
    DeviceStatus,
    Holder,
    NodeGPUStatusBody,
    ResourceStatus,
)
from tonnage.model.devices import Device, Sample
from tonnage.model.names import parse_device_id
from tonnage.model.sharing import Hold, PlannedResource, Slot

_MOST_HOLDERS: Final = 2048
_MOST_IDS: Final = 64
"""On a node, divided among its devices, and ids for each. So it stays below what etcd takes (1.5 MiB)."""
_LONGEST_TEXT: Final = 2048
_MOST_PROBLEMS: Final = 64


def status_of(offer: Offer, samples: Iterable[Sample] = (), *, at: str) -> NodeGPUStatusBody:
    """The status as it follows from what the node offers and its devices read; long lists are cut."""
    used = {sample.uuid: sample.memory_used_mib for sample in samples}
    shown = {
        slot.part_of or slot.uuid: slot
        for resource in reversed(offer.advertised)
        for slot in reversed(resource.slots)
    }
    resources = {
        slot.part_of or slot.uuid: resource
        for resource in reversed(offer.plan.resources)
        for slot in resource.slots
    }
    most = _MOST_HOLDERS // max(1, len(offer.inventory.devices))
    holders = _holders(offer.holds, offer.plan.whole_of, most=most)
    devices = [
        _device(
            device,
            shown.get(device.uuid),
            resources.get(device.uuid),
            holders.get(device.uuid, []),
            used.get(device.uuid),
        )
        for device in offer.inventory.devices
    ]
    choice = offer.config.choice
    return NodeGPUStatusBody.model_construct(
        updated_at=at,
        driver_version=offer.inventory.driver_version,
        cuda_version=offer.inventory.cuda_version,
        device_count=len(devices),
        healthy_count=sum(device.health == "Healthy" for device in devices),
        config=ConfigStatus.model_construct(
            source=choice.source, key=choice.key, error=offer.config.error[:_LONGEST_TEXT]
        ),
        resources=_resources(offer),
        devices=devices,
        problems=_cut([*offer.inventory.problems, *offer.plan.problems], _MOST_PROBLEMS),
    )


def _device(
    device: Device,
    shown: Slot | None,
    resource: PlannedResource | None,
    holders: list[Holder],
    used_mib: int | None,
) -> DeviceStatus:
    return DeviceStatus.model_construct(
        uuid=device.uuid,
        index=device.index,
        product=device.product,
        memory_mib=device.memory_mib,
        memory_used_mib=used_mib,
        compute_capability=device.compute_capability,
        pci_bus_id=device.pci_bus_id,
        numa_node=device.numa_node,
        health="Healthy" if device.healthy else "Unhealthy",
        reason=device.reason or (shown.reason if shown else ""),
        resource=resource.name if resource else "",
        replicas=resource.replicas if resource else 1,
        holders=holders,
    )


def _holders(holds: Iterable[Hold], whole_of: Mapping[str, str], *, most: int) -> dict[str, list[Holder]]:
    """By physical device, each hold with the ids of that device and of its parts."""
    result: dict[str, list[Holder]] = {}
    for hold in holds:
        by_device: dict[str, list[str]] = {}
        for slot in hold.ids:
            uuid = parse_device_id(slot).uuid
            by_device.setdefault(whole_of.get(uuid, uuid), []).append(slot)
        for uuid, ids in by_device.items():
            listed = result.setdefault(uuid, [])
            if len(listed) < most:
                listed.append(
                    Holder.model_construct(
                        resource=hold.resource,
                        ids=_cut(ids, _MOST_IDS),
                        namespace=hold.namespace,
                        pod=hold.pod,
                        container=hold.container,
                    )
                )
    return result


def _cut(texts: list[str], most: int) -> list[str]:
    if len(texts) <= most:
        return texts
    return [*texts[: most - 1], f"and {len(texts) - most + 1} more"]


def _resources(offer: Offer) -> list[ResourceStatus]:
    return [
        ResourceStatus.model_construct(
            name=resource.name,
            devices=len({slot.uuid for slot in resource.slots}),
            replicas=resource.replicas,
            capacity=len(shown.slots),
            allocatable=sum(slot.healthy for slot in shown.slots),
            allocated=sum(len(hold.ids) for hold in offer.holds if hold.resource == resource.name),
            fail_requests_greater_than_one=resource.single_request,
        )
        for resource, shown in zip(offer.plan.resources, offer.advertised, strict=True)
    ]
