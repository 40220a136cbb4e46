"""Publishes what the agent sees as the node's NodeGPUStatus."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from tonnage.agent.device_plugin import Offer
from tonnage.agent.world import World
from tonnage.documents.node_gpu_status import (
    GROUP,
    KIND,
    VERSION,
    ConfigStatus,
    DeviceStatus,
    Holder,
    NodeGPUStatusBody,
    ResourceStatus,
)
from tonnage.model.devices import Device
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.names import parse_device_id
from tonnage.model.sharing import Hold
from tonnage.wire.kinds import NODE_GPU_STATUS

_LOG: Final = logging.getLogger(__name__)
_NOT_OFTENER_S: Final = 0.25
_AGAIN_S: Final = 60.0
_RETRY_S: Final = 5.0


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


class StatusPublisher:
    """Keeps the object like the offer; one that somebody deleted or changed comes back within a minute."""

    def __init__(self, world: World) -> None:
        self._node = world.node
        self._api = world.api
        self._clock = world.clock
        self._offer: Offer | None = None
        self._dirty = asyncio.Event()
        self._complaint = ""

    def show(self, offer: Offer) -> None:
        """The offer to publish from now on."""
        self._offer = offer
        self._dirty.set()

    async def run(self) -> None:
        """Publish after every change until cancelled; a refusal is logged once and tried again."""
        if self._api is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            while True:
                await self._dirty.wait()
                self._dirty.clear()
                if self._offer is not None:
                    await self._publish(self._offer)
                await self._clock.sleep(_NOT_OFTENER_S)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(_RETRY_S if self._complaint else _AGAIN_S)
            self._dirty.set()

    async def _publish(self, offer: Offer) -> None:
        assert self._api is not None
        at = self._clock.now().isoformat(timespec="seconds").replace("+00:00", "Z")
        patch: JsonObject = {"status": status_of(offer, at=at).to_json()}
        try:
            try:
                await self._api.patch(NODE_GPU_STATUS, self._node, patch, subresource="status")
            except ApiError as error:
                if error.code != 404:
                    raise
                metadata: JsonObject = {"name": self._node}
                body: JsonObject = {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": metadata}
                await self._api.create(NODE_GPU_STATUS, body)
                await self._api.patch(NODE_GPU_STATUS, self._node, patch, subresource="status")
        except ClusterError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("status not published: node=%s error=%s", self._node, error)
        else:
            self._complaint = ""
