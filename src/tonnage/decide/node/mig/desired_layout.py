"""What a node's GPUs shall be divided into, by the layout that its label names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.change import gpu_of
from tonnage.decide.node.mig.goal import GpuGoal, MigGpu, goals_by_entries, goals_by_layout
from tonnage.decide.node.mig.layouts import DISABLED
from tonnage.model.devices.inventory import Inventory
from tonnage.model.mig.hooks import HostWork
from tonnage.model.mig.layouts import DividedGpu, MigConfigs, MigEntry
from tonnage.model.reasons.gpu.mig import (
    MigConfigurationMissing,
    MigConfigurationReason,
    MigConfigurationUnusable,
    MigHostWorkForbidden,
    MigLayoutReason,
    MigLayoutRefused,
    MigNotSupported,
)


@dataclass(frozen=True, slots=True)
class MigWish:
    """The layout `config`: what the configuration of that name says, else (None) what its name says.

    `refusal`: why neither can be used. `host`: what the node's host does around the change.
    """

    config: str
    entries: tuple[MigEntry, ...] | None = None
    refusal: MigConfigurationReason | None = None
    host: HostWork = field(default_factory=HostWork)


def wish_for(label: str, configs: MigConfigs | None, where: str) -> MigWish:
    """The wish of a label. `configs` are what `where` has; None: it is not there."""
    by_name = configs or {}
    if label in by_name:
        return MigWish(label, by_name[label])
    if label.startswith("all-"):
        return MigWish(label)
    others = tuple(sorted(by_name))
    listing = f"it has {', '.join(others[:20])}" if others else "it has none"
    reason = MigConfigurationMissing(
        subject=where,
        message=f"no MIG configuration {label[:60]!r} in {where}: {listing}",
        config=label,
        others=others,
    )
    return MigWish(label, refusal=reason)


def unusable(label: str, where: str, message: str) -> MigWish:
    """The wish of a label while nobody can use what `where` has, which may say other than the name."""
    return MigWish(label, refusal=MigConfigurationUnusable(subject=where, message=message, config=label))


def host_work_forbidden(label: str, where: str) -> MigWish:
    """The wish of a label where `where` has work for a host on which the agent may run nothing."""
    reason = MigHostWorkForbidden(
        subject=where,
        message=f"{where} has hooks or clients, but this agent may not run programs of its host:"
        " give it --mig-host-root (migManager.hostPrograms), or remove them",
        config=label,
    )
    return MigWish(label, refusal=reason)


def goals_of(
    wish: MigWish, inventory: Inventory, divided: Iterable[DividedGpu], held: DeviceHolds
) -> tuple[GpuGoal, ...] | MigConfigurationReason | MigLayoutRefused:
    """What becomes of every GPU; all that is wrong, if anything is.

    A layout by name is for the GPUs that can be divided, if there are any.
    """
    if wish.refusal is not None:
        return wish.refusal
    gpu_by_uuid = {gpu.uuid: gpu for gpu in divided}
    gpus = [
        gpu_of(gpu_by_uuid[device.uuid], held)
        if device.uuid in gpu_by_uuid
        else MigGpu(device.index, device.product, device.uuid, enabled=bool(device.mig_enabled))
        for device in inventory.devices
    ]
    if wish.entries is not None:
        goals = goals_by_entries(gpus, wish.entries)
    else:
        divisible = [gpu for gpu in gpus if gpu.uuid in gpu_by_uuid]
        if not divisible and wish.config == DISABLED:
            return ()
        goals = goals_by_layout(divisible or gpus, wish.config)
    refusals = [
        (str(goal.gpu.index), why) for goal in goals if (why := _refusal_of(goal, gpu_by_uuid)) is not None
    ]
    return _refused(wish, refusals) if refusals else goals


def remark_on(wish: MigWish, goals: Sequence[GpuGoal]) -> str:
    """What is odd about a layout that is made: nothing of it is for these GPUs, most often by its filters."""
    untouched = all(goal.plan is None and goal.refusal is None for goal in goals)
    return "no entry of it matches a GPU of this node" if wish.entries is not None and untouched else ""


def _refused(wish: MigWish, refusals: Sequence[tuple[str, MigLayoutReason]]) -> MigLayoutRefused:
    """All of them as one; GPUs that are refused alike are named together."""
    alike: dict[str, list[str]] = {}
    for index, why in refusals:
        alike.setdefault(why.in_short, []).append(index)
    return MigLayoutRefused(
        subject=f"MIG layout {wish.config}",
        message="; ".join(f"GPU {', '.join(indices)}: {why}" for why, indices in alike.items()),
        gpus={index: why.message for index, why in refusals},
    )


def _refusal_of(goal: GpuGoal, gpu_by_uuid: Mapping[str, DividedGpu]) -> MigLayoutReason | None:
    plan = goal.plan
    if goal.refusal is not None or plan is None:
        return goal.refusal
    if goal.gpu.uuid in gpu_by_uuid or (plan.nothing and not goal.mode):
        return None
    return MigNotSupported(
        subject=f"GPU {goal.gpu.index}",
        message="its driver refuses to divide it now",
        product=goal.gpu.product,
    )
