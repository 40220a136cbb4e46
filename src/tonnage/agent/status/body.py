"""What a node's NodeGPUStatus says, as it follows from what the node offers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.agent.status.device import cut, devices_of
from tonnage.decide.node.claims.offer import ClaimOffer
from tonnage.decide.node.mps.daemons import most_clients
from tonnage.decide.node.offer import NodeOffer
from tonnage.documents.node.gpu_status import (
    ClaimDeviceStatus,
    ClaimsStatus,
    ConfigStatus,
    HostStatus,
    KubeletDevicesStatus,
    KubeletStatus,
    MpsDeviceStatus,
    MpsStatus,
    NodeGPUStatusBody,
    ResourceStatus,
    RuntimeStatus,
)
from tonnage.model.devices.claims import DRIVER, PublishedDevice
from tonnage.model.devices.inventory import Sample
from tonnage.model.devices.mps import MpsState
from tonnage.model.drivers.node import HostSystem
from tonnage.model.node.plugin_settings import SharingKind
from tonnage.model.node.software import NodeSoftware, RuntimeInventory

_LONGEST_TEXT: Final = 2048
_MOST_PROBLEMS: Final = 64
_SHARING: Final = {SharingKind.TIME_SLICING: "time-slicing", SharingKind.MPS: "mps"}
"""As the labels of nodes have it."""
_NOTHING_SEEN: Final = NodeSoftware()


def status_of(
    offer: NodeOffer,
    samples: Iterable[Sample] = (),
    software: NodeSoftware = _NOTHING_SEEN,
    claims: ClaimOffer | None = None,
    listed: Iterable[tuple[str, str]] = (),
    *,
    at: str,
) -> NodeGPUStatusBody:
    """The status as it follows from what the node offers and runs and devices read; long lists are cut.

    `listed`: resource and UUID of each device that kubelet has, of whichever plugin.
    """
    devices = devices_of(offer, samples)
    choice = offer.config.choice
    return NodeGPUStatusBody.model_construct(
        updated_at=at,
        driver_version=offer.inventory.driver_version,
        cuda_version=offer.inventory.cuda_version,
        device_count=len(devices),
        healthy_count=sum(device.health == "Healthy" for device in devices),
        config=ConfigStatus.model_construct(
            source=choice.source,
            key=choice.key,
            error=offer.config.error[:_LONGEST_TEXT],
            mig_strategy=offer.config.config.mig_strategy.value,
            device_list=offer.config.device_list[:_LONGEST_TEXT],
        ),
        resources=_resources(offer),
        devices=devices,
        claims=_claims(claims) if claims is not None and claims.devices else None,
        runtime=_runtime(software.runtime),
        kubelet=_kubelet(software),
        host=None if software.host is None else _host(software.host),
        kubelet_devices=_of_kubelet(listed) or None,
        problems=cut(
            [*offer.inventory.problems, *(refusal.message for refusal in offer.plan.refusals)], _MOST_PROBLEMS
        ),
    )


def _of_kubelet(devices: Iterable[tuple[str, str]]) -> list[KubeletDevicesStatus]:
    by_resource: dict[str, list[str]] = {}
    for resource, uuid in sorted(devices):
        by_resource.setdefault(resource, []).append(uuid)
    return [
        KubeletDevicesStatus.model_construct(resource=resource, uuids=uuids)
        for resource, uuids in by_resource.items()
    ]


def _host(host: HostSystem) -> HostStatus:
    return HostStatus.model_construct(
        system_id=host.system_id,
        system_version=host.system_version,
        kernel=host.kernel,
        kernel_headers=host.headers,
        gpus_on_bus=host.gpus_on_bus,
        nouveau_bound=host.nouveau_bound,
        secure_boot=host.secure_boot,
        module_version=host.module,
        driver_owner=host.driver_owner,
        driver_version=host.driver_version,
    )


def _resources(offer: NodeOffer) -> list[ResourceStatus]:
    config = offer.config.config
    return [
        ResourceStatus.model_construct(
            name=resource.name,
            devices=len({slot.uuid for slot in resource.slots}),
            replicas=resource.replicas,
            capacity=len(shown.slots),
            allocatable=sum(slot.healthy for slot in shown.slots),
            allocated=sum(len(hold.ids) for hold in offer.holds if hold.resource == resource.name),
            sharing=_SHARING[config.sharing_kind] if resource.shared else "none",
            policy=config.shared_policy.value if resource.shared else "",
            fail_requests_greater_than_one=resource.single_request,
            mps=_mps(offer, offer.mps[resource.name]) if resource.name in offer.mps else None,
        )
        for resource, shown in zip(offer.plan.resources, offer.advertised, strict=True)
    ]


def _claims(offer: ClaimOffer) -> ClaimsStatus:
    return ClaimsStatus.model_construct(
        driver=DRIVER,
        reason="" if offer.refusal is None else offer.refusal.message[:_LONGEST_TEXT],
        devices=[
            ClaimDeviceStatus.model_construct(
                name=device.name,
                uuid=device.uuid,
                reason=_why_not(device, offer)[:_LONGEST_TEXT],
            )
            for device in offer.devices
        ],
    )


def _why_not(device: PublishedDevice, offer: ClaimOffer) -> str:
    """Why no claim can have the device; empty: one can."""
    if device.unfit or not device.healthy:
        return device.unfit or device.reason or "unhealthy"
    return offer.unpublished if device.counters is not None else ""


def _runtime(runtime: RuntimeInventory) -> RuntimeStatus:
    return RuntimeStatus.model_construct(
        name=runtime.name,
        version=runtime.version,
        cdi=runtime.cdi.value,
        cdi_reason=runtime.cdi_reason[:_LONGEST_TEXT],
        nri=runtime.nri.value,
        nri_reason=runtime.nri_reason[:_LONGEST_TEXT],
    )


def _kubelet(software: NodeSoftware) -> KubeletStatus:
    policies = software.policies
    return KubeletStatus.model_construct(
        version=software.kubelet_version,
        topology_manager_policy=policies.topology_manager,
        topology_manager_scope=policies.topology_scope,
        cpu_manager_policy=policies.cpu_manager,
        memory_manager_policy=policies.memory_manager,
        sources=list(policies.sources),
        reason=policies.reason[:_LONGEST_TEXT],
    )


def _mps(offer: NodeOffer, state: MpsState) -> MpsStatus:
    """The daemon as it stands, whatever was configured since."""
    capability = {device.uuid: device.compute_capability for device in offer.inventory.devices}
    return MpsStatus.model_construct(
        ready=not state.why,
        reason=state.why[:_LONGEST_TEXT],
        active_thread_percentage=state.daemon.threads_percent,
        restarts=state.restarts,
        devices=[
            MpsDeviceStatus.model_construct(
                uuid=device.uuid,
                pinned_memory_mib=device.limit_mib,
                most_clients=most_clients(capability.get(device.uuid, "")),
            )
            for device in state.daemon.devices
        ],
    )
