"""What a node's NodeGPUStatus says, as it follows from what the node offers."""

from __future__ import annotations

from tonnage.agent.device_plugin import Offer
from tonnage.documents.node_gpu_status import (
    ConfigStatus,
    DeviceStatus,
    Holder,
    NodeGPUStatusBody,
    ResourceStatus,
)
from tonnage.model.devices import Device
from tonnage.model.names import parse_device_id
from tonnage.model.sharing import Hold


def status_of(offer: Offer, *, at: str) -> NodeGPUStatusBody:
    """The status as it follows from what the node offers."""
    devices = [_device(offer, device) for device in offer.inventory.devices]
    choice = offer.config.choice
    return NodeGPUStatusBody.model_construct(
        updated_at=at,
        driver_version=offer.inventory.driver_version,
        cuda_version=offer.inventory.cuda_version,
        device_count=len(devices),
        healthy_count=sum(device.health == "Healthy" for device in devices),
        config=ConfigStatus.model_construct(source=choice.source, key=choice.key, error=offer.config.error),
        resources=_resources(offer),
        devices=devices,
        problems=[*offer.inventory.problems, *offer.plan.problems],
    )


def _device(offer: Offer, device: Device) -> DeviceStatus:
    shown = next((s for ad in offer.advertised for s in ad.slots if s.uuid == device.uuid), None)
    resource = next((r for r in offer.plan.resources if any(s.uuid == device.uuid for s in r.slots)), None)
    return DeviceStatus.model_construct(
        uuid=device.uuid,
        index=device.index,
        product=device.product,
        memory_mib=device.memory_mib,
        compute_capability=device.compute_capability,
        pci_bus_id=device.pci_bus_id,
        numa_node=device.numa_node,
        health="Healthy" if device.healthy else "Unhealthy",
        reason=device.reason or (shown.reason if shown else ""),
        resource=resource.name if resource else "",
        replicas=resource.replicas if resource else 1,
        holders=[holder for hold in offer.holds for holder in _holders(hold, device.uuid)],
    )


def _holders(hold: Hold, uuid: str) -> list[Holder]:
    ids = [slot for slot in hold.ids if parse_device_id(slot).uuid == uuid]
    if not ids:
        return []
    return [
        Holder.model_construct(
            resource=hold.resource, ids=ids, namespace=hold.namespace, pod=hold.pod, container=hold.container
        )
    ]


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
