"""Which GPUs a plan may reset beside the one that it turns, and who would lose what there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tonnage.decide.node.mig.goal import GpuGoal, MigGpu
from tonnage.decide.node.mig.reset_groups import resets_of
from tonnage.model.catalog.mig import mig_model
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.links import NVSWITCH, Link
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus

Resets = Mapping[int, tuple[MigGpu, ...]]
"""The others that may be reset with a GPU, by its index. GPUs that turn without a reset are not in it."""
_AMPERE: Final = re.compile(r"\bA(?:100|800|30)\b")
_HOPPER: Final = "9.0"
"""Or newer: of those without a node that is all that counts."""
_NEWER: Final = "needs no reset, but no process may use the GPU meanwhile"


def resets_among(gpus: Sequence[MigGpu], status: GpuStatus | None = None) -> Resets:
    """Of a node's GPUs, by how they are joined; without a node all are on a board as their product comes."""
    by_uuid = {device.uuid: device for device in status.devices} if status is not None else {}
    devices = [_device(gpu, by_uuid.get(gpu.uuid)) for gpu in gpus]
    names = {device.uuid: gpu for device, gpu in zip(devices, gpus, strict=True)}
    uuids = {gpu.index: uuid for uuid, gpu in names.items()}
    links = [link for uuid in names if (described := by_uuid.get(uuid)) for link in _links(described, uuids)]
    boards = resets_of(Inventory(tuple(devices), links=tuple(links)))
    return {
        names[uuid].index: tuple(names[other] for other in board if other != uuid)
        for uuid, board in boards.items()
    }


def reset_lines(goal: GpuGoal, resets: Resets, turned: frozenset[int]) -> Iterator[str]:
    """What turning MIG on or off does to the GPU and to others; `turned`: those that are turned, too."""
    turn = f"MIG is turned {'off' if goal.gpu.enabled or goal.gpu.now else 'on'}"
    others = resets.get(goal.gpu.index)
    yield f"  mode     {turn}: {_NEWER if others is None else 'resets the GPU'}"
    if not others:
        return
    beside = [gpu for gpu in others if gpu.index not in turned]
    unless = ", unless the driver turns one alone; their MIG devices are created again" if beside else ""
    yield f"  reset    with {_gpu_numbers(others)} of its board{unless}"
    if lost := [f"{pod} loses {device}" for gpu in beside for pod, device in _held(gpu)]:
        yield f"  then     {', '.join(lost)}"


def reset_json(goal: GpuGoal, resets: Resets) -> JsonObject:
    """The same for scripts; nothing where no reset is needed."""
    others = resets.get(goal.gpu.index)
    if not goal.mode or others is None:
        return {}
    items: list[JsonValue] = [
        {
            "index": gpu.index,
            "uuid": gpu.uuid,
            "holders": [{"pod": pod, "device": device} for pod, device in _held(gpu)],
        }
        for gpu in others
    ]
    return {"resetWith": items}


def _device(gpu: MigGpu, described: GpuDevice | None) -> Device:
    """As far as resets ask."""
    capability = "8.0" if _AMPERE.search(gpu.product) else _HOPPER
    if described is not None and described.compute_capability:
        capability = described.compute_capability
    able = mig_model(gpu.product, (instance.profile for instance in gpu.now)) is not None
    mode = (gpu.enabled or bool(gpu.now)) if able else None
    return Device(gpu.uuid or f"#{gpu.index}", gpu.index, gpu.product, 0, capability, mig_enabled=mode)


def _links(described: GpuDevice, uuids: Mapping[int, str]) -> Iterator[Link]:
    for link in described.links:
        if link.switches:
            yield Link(described.uuid, NVSWITCH, link.nvlinks, link.level)
        yield from (
            Link(described.uuid, uuids[peer], link.nvlinks, link.level)
            for peer in link.peers
            if peer in uuids
        )


def _held(gpu: MigGpu) -> Iterator[tuple[str, str]]:
    """Pods and what each holds of it."""
    yield from ((pod, f"GPU {gpu.index}") for pod in gpu.holders)
    for instance in gpu.now:
        yield from ((pod, f"{instance.profile} of GPU {gpu.index}") for pod in instance.holders)


def _gpu_numbers(gpus: Sequence[MigGpu]) -> str:
    return f"GPU {', '.join(str(gpu.index) for gpu in gpus)}"
