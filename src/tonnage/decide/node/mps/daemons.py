"""Sharing through MPS: which control daemons a node needs, who may use them now, what its containers get.

Source: NVIDIA/k8s-device-plugin v0.20, cmd/mps-control-daemon; NVIDIA's documentation of MPS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tonnage.decide.node.resource_units import DeviceUnit
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.mps import (
    MOST_MPS_CLIENTS,
    MPS_IN_CONTAINER,
    PIPE_VARIABLE,
    SHM_IN_CONTAINER,
    MpsDaemon,
    MpsDevice,
    MpsState,
    mps_folder,
)
from tonnage.model.devices.sharing import DeviceSlot, Mount, NodePlan, PlannedResource, PluginConfig
from tonnage.model.names import ResourceName
from tonnage.model.node.plugin_settings import SharingKind
from tonnage.model.reasons.gpu.offers import MpsClientsTooMany, MpsNotForMig, OfferReason

_FEWER_CLIENTS: Final = 16
_MORE_FROM: Final = (7, 5)
"""The compute capability from which on it is the larger number."""


def uses_mps(config: PluginConfig) -> bool:
    """Whether devices are shared through MPS."""
    return bool(config.shared) and config.sharing_kind is SharingKind.MPS


def most_clients(compute_capability: str) -> int:
    """How many clients a device serves at a time; the fewest where its capability is not known.

    >>> most_clients("7.5"), most_clients("10.0"), most_clients("7.0"), most_clients("")
    (48, 48, 16, 16)
    """
    parts = compute_capability.split(".")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        return _FEWER_CLIENTS
    return MOST_MPS_CLIENTS if (int(parts[0]), int(parts[1])) >= _MORE_FROM else _FEWER_CLIENTS


def too_many_replicas(replicas: int, most: int) -> str:
    """What to say of more replicas than clients."""
    head = "invalid MPS configuration: invalid device maximum allowed replicas exceeded"
    return f"{head}: {replicas} > {most}"


def unshareable(unit: DeviceUnit, replicas: int) -> OfferReason | None:
    """Why MPS cannot share a device among so many; None when it can."""
    subject, called = f"Device {unit.uuid}", f"device {unit.index} ({unit.uuid}) is withheld"
    if unit.mig is not None or unit.device.mig_enabled:
        remedy = "use timeSlicing, or disable MIG there"
        message = f"{called}: sharing using MPS is not supported for MIG devices; {remedy}"
        return MpsNotForMig(subject=subject, message=message, remedy=remedy, uuid=unit.uuid)
    most = most_clients(unit.device.compute_capability)
    if replicas <= most:
        return None
    capability = unit.device.compute_capability or "not known"
    why = f"its compute capability is {capability}; ask for at most {most}"
    message = f"{called}: {too_many_replicas(replicas, most)}; {why}"
    return MpsClientsTooMany(subject=subject, message=message, uuid=unit.uuid, replicas=replicas, most=most)


def daemons_of(plan: NodePlan, inventory: Inventory, config: PluginConfig) -> tuple[MpsDaemon, ...]:
    """A daemon for each resource that is shared through MPS.

    A client gets its share of each device: memory and threads divided by the replicas, rounded down. Healthy
    devices come first: CUDA sees none that follows one that is not there.
    """
    if not uses_mps(config):
        return ()
    memory = {device.uuid: device.memory_mib for device in inventory.devices}
    return tuple(
        MpsDaemon(
            resource.name,
            config.mps_root,
            100 // resource.replicas,
            tuple(
                MpsDevice(uuid, memory.get(uuid, 0) // resource.replicas) for uuid in _healthy_first(resource)
            ),
        )
        for resource in plan.resources
        if resource.shared
    )


def gated(plan: NodePlan, daemons: Iterable[MpsDaemon], states: Mapping[ResourceName, MpsState]) -> NodePlan:
    """The plan with devices unhealthy that no daemon serves now with the limits that they should have."""
    by_resource = {daemon.resource: daemon for daemon in daemons}
    if not by_resource:
        return plan
    return replace(
        plan,
        resources=tuple(
            _gated(resource, by_resource[resource.name], states.get(resource.name))
            if resource.name in by_resource
            else resource
            for resource in plan.resources
        ),
    )


def mps_edits(resource: str, config: PluginConfig) -> tuple[Mapping[str, str], tuple[Mount, ...]]:
    """(variables, mounts) that a container needs to be a client of the resource's daemon, if it has one.

    The same whatever way the container is told its devices: a daemon is the node's, no device's.
    """
    if not uses_mps(config) or all(shared.offered_as != resource for shared in config.shared):
        return {}, ()
    return client_edits(resource, config.mps_root)


def client_edits(resource: str, root: str) -> tuple[Mapping[str, str], tuple[Mount, ...]]:
    """(variables, mounts) of a client of that resource's daemon."""
    pipe = f"{MPS_IN_CONTAINER}/{resource}/pipe"
    mounts = (
        Mount(f"{mps_folder(root, resource)}/pipe", pipe),
        Mount(mps_folder(root, "shm"), SHM_IN_CONTAINER),
    )
    return {PIPE_VARIABLE: pipe}, mounts


def _healthy_first(resource: PlannedResource) -> Iterator[str]:
    health = {slot.uuid: slot.healthy for slot in resource.slots}
    yield from (uuid for uuid, healthy in health.items() if healthy)
    yield from (uuid for uuid, healthy in health.items() if not healthy)


def _gated(resource: PlannedResource, daemon: MpsDaemon, state: MpsState | None) -> PlannedResource:
    served = () if state is None or state.why else _served(state.daemon, daemon)
    if state is None:
        why = "the MPS control daemon has not started yet"
    elif state.why:
        why = f"the MPS control daemon does not serve: {state.why}"
    else:
        why = "the MPS control daemon serves it once the pods with the former limits have ended"
    slots = tuple(slot if slot.uuid in served else _without(slot, why) for slot in resource.slots)
    return replace(resource, slots=slots)


def _served(standing: MpsDaemon, target: MpsDaemon) -> frozenset[str]:
    """Devices that are served as they should be."""
    if (standing.root, standing.threads_percent) != (target.root, target.threads_percent):
        return frozenset()
    return frozenset(device.uuid for device in standing.devices if device in target.devices)


def _without(slot: DeviceSlot, why: str) -> DeviceSlot:
    return replace(slot, healthy=False, reason=slot.reason or why)
