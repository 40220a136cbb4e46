"""What a node's GPUs shall be divided into, by the layout that its label names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tonnage.decide.node.mig.change import gpu_of
from tonnage.decide.node.mig.goal import GpuGoal, MigGpu, goals_by_entries, goals_by_layout
from tonnage.decide.node.mig.layouts import DISABLED, NoLayout
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import Hold
from tonnage.model.mig.hooks import HostWork
from tonnage.model.mig.layouts import DividedGpu, MigConfigs, MigEntry


@dataclass(frozen=True, slots=True)
class MigWish:
    """The layout `config`: what the configuration of that name says, else (None) what its name says.

    `refusal`: why neither can be used. `host`: what the node's host does around the change.
    """

    config: str
    entries: tuple[MigEntry, ...] | None = None
    refusal: str = ""
    host: HostWork = field(default_factory=HostWork)


def wish_for(label: str, configs: Mapping[str, object] | None, where: str, error: str = "") -> MigWish:
    """The wish of a label. `configs` are what `where` has (None: it is not there), unless it has an `error`.

    A configuration that cannot be read is not passed over: it might say something else than the name.
    """
    if error:
        return MigWish(label, refusal=error)
    known: MigConfigs = configs or {}  # type: ignore[assignment]
    if label in known:
        return MigWish(label, known[label])
    if label.startswith("all-"):
        return MigWish(label)
    there = f"it has {', '.join(sorted(known)[:20])}" if known else "there is none"
    return MigWish(label, refusal=f"no MIG configuration {label[:60]!r} in {where}: {there}")


def goals_of(
    wish: MigWish, inventory: Inventory, divided: Iterable[DividedGpu], holds: Sequence[Hold]
) -> tuple[GpuGoal, ...] | NoLayout:
    """What becomes of every GPU; all that is wrong, if anything is.

    A layout by name is for the GPUs that can be divided, if there are any.
    """
    if wish.refusal:
        return NoLayout(wish.refusal)
    there = {gpu.uuid: gpu for gpu in divided}
    gpus = [
        gpu_of(there[device.uuid], holds)
        if device.uuid in there
        else MigGpu(device.index, device.product, device.uuid, enabled=bool(device.mig_enabled))
        for device in inventory.devices
    ]
    if wish.entries is not None:
        goals = goals_by_entries(gpus, wish.entries)
    else:
        able = [gpu for gpu in gpus if gpu.uuid in there]
        if not able and wish.config == DISABLED:
            return ()
        goals = goals_by_layout(able or gpus, wish.config)
    wrong: dict[str, list[str]] = {}
    for goal in goals:
        if why := _wrong(goal, there):
            wrong.setdefault(why, []).append(str(goal.gpu.index))
    if wrong:
        return NoLayout("; ".join(f"GPU {', '.join(each)}: {why}" for why, each in wrong.items()))
    return goals


def remark_on(wish: MigWish, goals: Sequence[GpuGoal]) -> str:
    """What is odd about a layout that is made: nothing of it is for these GPUs, most often by its filters."""
    unmeant = all(goal.plan is None and goal.refusal is None for goal in goals)
    return "none of its entries is for a GPU of this node" if wish.entries is not None and unmeant else ""


def _wrong(goal: GpuGoal, there: Mapping[str, DividedGpu]) -> str:
    if goal.refusal is not None:
        return _words(goal.refusal)
    if goal.plan is None:
        return ""
    if goal.gpu.uuid not in there and (goal.mode or not goal.plan.nothing):
        return "its driver does not let it be divided now"
    return ""


def _words(refusal: NoLayout) -> str:
    """In a few words, with what could be had instead."""
    instead = "; ".join(refusal.instead[:4])
    return f"{refusal.why} (instead: {instead})" if instead else refusal.why
