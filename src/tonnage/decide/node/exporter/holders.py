"""Whose each device is, in the order of kubelet's list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tonnage.decide.node.exporter.device_ids import DeviceReference, device_reference
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.node.telemetry import DeviceEntity, HoldingContainer, InstanceEntity, LinkEntity

_GPU: Final = "nvidia.com/gpu"
_MIG: Final = "nvidia.com/mig-"

DeviceKey = tuple[str, int | None]
"""A GPU's UUID, and the number of the GPU instance; None for the whole."""
Holders = Mapping[DeviceKey, Sequence[HoldingContainer]]


def device_key(entity: DeviceEntity | LinkEntity) -> DeviceKey:
    """What holders of the entity stand under."""
    if isinstance(entity, InstanceEntity):
        return entity.gpu.uuid, entity.gpu_instance
    return (entity.gpu if isinstance(entity, LinkEntity) else entity).uuid, None


def holders_of(
    holds: Iterable[Hold], entities: Iterable[DeviceEntity], resources: Collection[str] = ()
) -> Holders:
    """Every holder of each device (dcgm-exporter: PodMapper); ids of devices that are not there are left out.

    Counted are `nvidia.com/gpu`, `nvidia.com/mig-*`, what claims have, and `resources`. A container that
    kubelet lists twice for a device, as it does for each NUMA node, holds it once.
    """
    holders: dict[DeviceKey, dict[HoldingContainer, None]] = {}
    for held in held_devices((hold for hold in holds if _counts(hold, resources)), entities):
        hold = held.hold
        holder = HoldingContainer(hold.namespace, hold.pod, hold.container, held.device.replica)
        holders.setdefault(held.key, {})[holder] = None
    return {key: tuple(containers) for key, containers in holders.items()}


def _counts(hold: Hold, resources: Collection[str]) -> bool:
    by_claim = hold.kind is HoldKind.CLAIM
    return by_claim or hold.resource == _GPU or hold.resource.startswith(_MIG) or hold.resource in resources


class HeldDevice(NamedTuple):
    """A hold of one id: the device that the id means, and what that stands under."""

    hold: Hold
    device: DeviceReference
    key: DeviceKey


def held_devices(holds: Iterable[Hold], entities: Iterable[DeviceEntity]) -> Iterator[HeldDevice]:
    """Each id of the holds; ids of devices that are not there are left out."""
    keys = _keys_by_name(entities)
    for hold in holds:
        for device_id in hold.ids:
            reference = device_reference(device_id)
            key = _key_of(reference, keys)
            if key is not None:
                yield HeldDevice(hold, reference, key)


def _keys_by_name(entities: Iterable[DeviceEntity]) -> Mapping[str, DeviceKey]:
    """UUIDs of GPUs and of compute instances, and device names of GPUs -> the key."""
    keys: dict[str, DeviceKey] = {}
    for entity in entities:
        gpu = entity.gpu if isinstance(entity, InstanceEntity) else entity
        for name in (gpu.uuid, gpu.device_name):
            keys.setdefault(name, (gpu.uuid, None))
        if isinstance(entity, InstanceEntity):
            keys.update(dict.fromkeys(entity.uuids, device_key(entity)))
    return keys


def _key_of(reference: DeviceReference, keys: Mapping[str, DeviceKey]) -> DeviceKey | None:
    key = keys.get(reference.name)
    if key is None or reference.gpu_instance is None:
        return key
    return key[0], reference.gpu_instance


def only_holder(holders: Sequence[HoldingContainer]) -> HoldingContainer | None:
    """The holder where one pod alone holds the device; None where pods share it, since a row has one pod.

    Of a pod that holds it in several containers the container is left out. dcgm-exporter takes the last of
    the list in both cases.
    """
    if len({(holder.namespace, holder.pod) for holder in holders}) != 1:
        return None
    last = holders[-1]
    one_container = len({holder.container for holder in holders}) == 1
    return HoldingContainer(last.namespace, last.pod, last.container if one_container else "")
