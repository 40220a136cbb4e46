"""Who uses what a change of the MIG layout would destroy or reset: pods, and processes of nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.change import GpuShape, MigChange, pods_with, surplus
from tonnage.model.mig.layouts import DividedGpu
from tonnage.model.reasons.facts import MigUser


def in_the_way(change: MigChange, gpus: Iterable[DividedGpu], held: DeviceHolds) -> tuple[MigUser, ...]:
    """Who uses what the change would destroy, or a GPU that it would turn: pods, and processes of nobody."""
    gpu_by_uuid = {gpu.uuid: gpu for gpu in gpus}
    turned = {
        shape.uuid
        for shape in change.goal
        if shape.uuid in gpu_by_uuid and gpu_by_uuid[shape.uuid].enabled != shape.enabled
    }
    turned |= {neighbour for uuid in turned for neighbour in change.resets.get(uuid, ())}
    users: dict[MigUser, None] = {}
    for shape in change.goal:
        if (gpu := gpu_by_uuid.get(shape.uuid)) is not None:
            users |= dict.fromkeys(_in_the_way(shape, gpu, held, turned=shape.uuid in turned))
    return tuple(users)


def _in_the_way(shape: GpuShape, gpu: DividedGpu, held: DeviceHolds, *, turned: bool) -> Iterator[MigUser]:
    touched = gpu.instances if turned else tuple(surplus(shape, gpu))
    for instance in touched:
        name = instance.computes[0].uuid if instance.computes else f"{instance.profile} of {gpu.uuid}"
        uuids = {compute.uuid for compute in instance.computes}
        yield from _users(name, pods_with(held, uuids), [pid for gi, pid in gpu.users if gi == instance.id])
    if turned or touched:
        pids = [pid for gi, pid in gpu.users if gi is None]
        yield from _users(gpu.uuid, pods_with(held, {gpu.uuid}), pids)


def _users(device: str, pods: tuple[tuple[str, str], ...], pids: Iterable[int]) -> Iterator[MigUser]:
    """Processes count only where no pod is known that they may be of."""
    yield from (MigUser(device, pod) for pod in pods)
    if not pods:
        yield from (MigUser(device, pid=pid) for pid in pids)
