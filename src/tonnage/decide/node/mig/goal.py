"""What each GPU of a node shall be divided into, by a configuration or a layout's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.node.mig.layouts import layout_of
from tonnage.decide.node.mig.plan import Instance, MigPlan, plan_gpu
from tonnage.model.catalog.mig import MigBoard, MigProfile, is_undivided, mig_board, told_board
from tonnage.model.mig.layouts import MigEntry
from tonnage.model.reasons.mig import (
    MigDeviceFilterUndecided,
    MigEntriesDiffer,
    MigGpuMissing,
    MigLayoutReason,
    MigNotSupported,
)

INSTEAD: Final[tuple[str, ...]] = ("time-slicing", "MPS", "an A100, A30, H100 or newer")
"""What there is for a product that cannot be divided."""


@dataclass(frozen=True, slots=True)
class MigGpu:
    """A GPU and its instances now; `enabled`: it is in MIG mode. `device`: its PCI device id, where known.

    `holders` are the pods that use it as a whole, as `namespace/name`. `profiles` are those that its driver
    told, if it did.
    """

    index: int
    product: str
    uuid: str = ""
    now: tuple[Instance, ...] = ()
    enabled: bool = False
    device: str = ""
    holders: tuple[str, ...] = ()
    profiles: tuple[MigProfile, ...] = ()

    def board(self, asked: Iterable[str] = ()) -> MigBoard | None:
        """What its driver told, filled up from the catalogue; None: neither knows what fits on it.

        What it is divided into tells boards of one product apart, else what is `asked` for.
        """
        told = [one.name for one in self.profiles] or [one.profile for one in self.now] or asked
        known = mig_board(self.product, told)
        placed = [one for one in self.profiles if one.starts]
        return told_board(self.product, known, placed) if placed else known


@dataclass(frozen=True, slots=True)
class GpuGoal:
    """What becomes of a GPU: a plan, or why there is none. Neither: nothing is said of it, it stays.

    `mode`: MIG is turned on or off for it, which resets it. `where`: places of the entries that ask for it.
    """

    gpu: MigGpu
    plan: MigPlan | None = None
    refusal: MigLayoutReason | None = None
    mode: bool = False
    where: tuple[str, ...] = ()

    @property
    def evicts(self) -> tuple[str, ...]:
        """Who must go before it can be done, sorted."""
        if self.plan is None:
            return ()
        return tuple(sorted({*self.plan.holders, *(self.gpu.holders if self.mode else ())}))


def goals_by_entries(gpus: Sequence[MigGpu], entries: Sequence[MigEntry]) -> tuple[GpuGoal, ...]:
    """What a configuration makes of a node's GPUs; one that two entries want differently is refused."""
    there = {gpu.index for gpu in gpus}
    strange = sorted({index for entry in entries for index in entry.devices or () if index not in there})
    goals = [_by_entries(gpu, entries) for gpu in gpus]
    for index in strange:
        asked = tuple(entry.where for entry in entries if index in (entry.devices or ()))
        missing = MigGpuMissing(subject=f"GPU {index}", message="the node has no such GPU", index=index)
        goals.append(GpuGoal(MigGpu(index, ""), refusal=missing, where=asked))
    return tuple(goals)


def goals_by_layout(gpus: Sequence[MigGpu], layout: str) -> tuple[GpuGoal, ...]:
    """What a layout by name, or of profiles with numbers, makes of every GPU that can be divided."""
    goals: list[GpuGoal] = []
    for gpu in gpus:
        board = gpu.board()
        if board is None:
            goals.append(GpuGoal(gpu, refusal=_indivisible(gpu)))
            continue
        found = layout_of(board, layout)
        if isinstance(found, MigLayoutReason):
            goals.append(GpuGoal(gpu, refusal=found))
        else:
            wanted: dict[str, int] = {}
            for profile, _ in found.placed:
                wanted[profile.name] = wanted.get(profile.name, 0) + 1
            goals.append(_planned(gpu, board, wanted, enabled=not found.whole))
    return tuple(goals)


def _by_entries(gpu: MigGpu, entries: Sequence[MigEntry]) -> GpuGoal:
    board = gpu.board()
    meant = [entry for entry in entries if _is_for(entry, gpu, board)]
    if not meant:
        return GpuGoal(gpu)
    first = meant[0]
    where = tuple(entry.where for entry in meant)
    board = gpu.board(first.wanted)
    if (unsure := _narrower(meant, gpu) or _unidentified(meant, gpu, board)) is not None:
        return GpuGoal(gpu, refusal=unsure, where=where)
    if any((entry.enabled, entry.wanted) != (first.enabled, first.wanted) for entry in meant):
        message = "two entries want it divided differently"
        differ = MigEntriesDiffer(subject=f"GPU {gpu.index}", message=message, entries=where)
        return GpuGoal(gpu, refusal=differ, where=where)
    if board is None:
        named = any(entry.enabled and entry.devices is not None for entry in meant)
        return GpuGoal(gpu, refusal=_indivisible(gpu) if named else None, where=where)
    return replace(_planned(gpu, board, first.wanted, enabled=first.enabled), where=where)


def _is_for(entry: MigEntry, gpu: MigGpu, board: MigBoard | None) -> bool:
    if entry.devices is not None and gpu.index not in entry.devices:
        return False
    known = (gpu.device,) if gpu.device else board.devices if board is not None else ()
    return not entry.filters or any(one.partition(":")[0] in known for one in entry.filters)


def _narrower(entries: Sequence[MigEntry], gpu: MigGpu) -> MigLayoutReason | None:
    """A filter by the subsystem of a board: nobody here knows those, so neither yes nor no would be right."""
    strange = next((one for entry in entries for one in entry.filters if ":" in one), "")
    instead = ("a filter by the device alone", "its index")
    return _undecided(gpu, (strange,), "subsystem", instead) if strange else None


def _unidentified(entries: Sequence[MigEntry], gpu: MigGpu, board: MigBoard | None) -> MigLayoutReason | None:
    """Filters that tell products of a board apart, where nobody told which of them this is."""
    named = {one for entry in entries for one in entry.filters}
    if gpu.device or board is None or not named:
        return None
    alike = all((one.enabled, one.wanted) == (entries[0].enabled, entries[0].wanted) for one in entries)
    if alike and (named >= {*board.devices} or not all(entry.filters for entry in entries)):
        return None
    return _undecided(gpu, tuple(sorted(named)), "PCI device id", ("its index",))


def _undecided(
    gpu: MigGpu, filters: tuple[str, ...], unknown: str, instead: tuple[str, ...]
) -> MigDeviceFilterUndecided:
    named = ", ".join(filters[:10])
    return MigDeviceFilterUndecided(
        subject=f"GPU {gpu.index}",
        message=f"whether the device filter {named} means it is not known: of its {unknown} nothing is told",
        instead=instead,
        filters=filters,
    )


def _planned(gpu: MigGpu, board: MigBoard, wanted: Mapping[str, int], *, enabled: bool) -> GpuGoal:
    plan = plan_gpu(board, gpu.now, wanted)
    mode = enabled != (gpu.enabled or bool(gpu.now))
    if isinstance(plan, MigLayoutReason):
        return GpuGoal(gpu, refusal=plan)
    return GpuGoal(gpu, plan, mode=mode)


def _indivisible(gpu: MigGpu) -> MigLayoutReason:
    """MIG-5."""
    if is_undivided(gpu.product):
        message, instead = f"{gpu.product} has no MIG", INSTEAD
    else:
        message = f"what fits on {gpu.product or 'this GPU'} is not known here"
        instead = ("its driver tells it once MIG is on: nvidia-smi -mig 1",) if gpu.profiles else ()
    return MigNotSupported(subject=f"GPU {gpu.index}", message=message, instead=instead, product=gpu.product)
