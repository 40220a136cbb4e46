"""What each GPU of a node shall be divided into, by a configuration or a layout's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.node.mig.layouts import layout_of
from tonnage.decide.node.mig.plan import Instance, MigPlan, plan_gpu
from tonnage.model.catalog.mig import MigModel, MigProfile, is_undivided, mig_model, reported_model
from tonnage.model.mig.layouts import MigEntry
from tonnage.model.reasons.gpu.mig import (
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

    def model(self, hints: Iterable[str] = ()) -> MigModel | None:
        """What its driver told, filled up from the catalogue; None: neither knows what fits on it.

        What it is divided into tells models of one product apart, else what is `hints` for.
        """
        names = (
            [profile.name for profile in self.profiles] or [profile.profile for profile in self.now] or hints
        )
        catalogued = mig_model(self.product, names)
        placed = [profile for profile in self.profiles if profile.starts]
        return reported_model(self.product, catalogued, placed) if placed else catalogued


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
    indices = {gpu.index for gpu in gpus}
    missing = sorted({index for entry in entries for index in entry.devices or () if index not in indices})
    goals = [_by_entries(gpu, entries) for gpu in gpus]
    for index in missing:
        places = tuple(entry.where for entry in entries if index in (entry.devices or ()))
        refusal = MigGpuMissing(subject=f"GPU {index}", message="the node has no such GPU", index=index)
        goals.append(GpuGoal(MigGpu(index, ""), refusal=refusal, where=places))
    return tuple(goals)


def goals_by_layout(gpus: Sequence[MigGpu], layout: str) -> tuple[GpuGoal, ...]:
    """What a layout by name, or of profiles with numbers, makes of every GPU that can be divided."""
    goals: list[GpuGoal] = []
    for gpu in gpus:
        model = gpu.model()
        if model is None:
            goals.append(GpuGoal(gpu, refusal=_indivisible(gpu)))
            continue
        target = layout_of(model, layout)
        if isinstance(target, MigLayoutReason):
            goals.append(GpuGoal(gpu, refusal=target))
        else:
            demand: dict[str, int] = {}
            for profile, _ in target.placed:
                demand[profile.name] = demand.get(profile.name, 0) + 1
            goals.append(_planned(gpu, model, demand, enabled=not target.whole))
    return tuple(goals)


def _by_entries(gpu: MigGpu, entries: Sequence[MigEntry]) -> GpuGoal:
    model = gpu.model()
    own = [entry for entry in entries if _is_for(entry, gpu, model)]
    if not own:
        return GpuGoal(gpu)
    first = own[0]
    where = tuple(entry.where for entry in own)
    model = gpu.model(first.counts)
    if (unsure := _narrower(own, gpu) or _unidentified(own, gpu, model)) is not None:
        return GpuGoal(gpu, refusal=unsure, where=where)
    if any((entry.enabled, entry.counts) != (first.enabled, first.counts) for entry in own):
        message = "two entries ask for different layouts"
        differ = MigEntriesDiffer(subject=f"GPU {gpu.index}", message=message, entries=where)
        return GpuGoal(gpu, refusal=differ, where=where)
    if model is None:
        by_index = any(entry.enabled and entry.devices is not None for entry in own)
        return GpuGoal(gpu, refusal=_indivisible(gpu) if by_index else None, where=where)
    return replace(_planned(gpu, model, first.counts, enabled=first.enabled), where=where)


def _is_for(entry: MigEntry, gpu: MigGpu, model: MigModel | None) -> bool:
    if entry.devices is not None and gpu.index not in entry.devices:
        return False
    device_ids = (gpu.device,) if gpu.device else model.devices if model is not None else ()
    return not entry.filters or any(
        device_filter.partition(":")[0] in device_ids for device_filter in entry.filters
    )


def _narrower(entries: Sequence[MigEntry], gpu: MigGpu) -> MigLayoutReason | None:
    """A filter by the subsystem of a board: nobody here knows those, so neither yes nor no would be right."""
    strange = next(
        (device_filter for entry in entries for device_filter in entry.filters if ":" in device_filter), ""
    )
    instead = ("a filter by the device alone", "its index")
    return _undecided(gpu, (strange,), "subsystem", instead) if strange else None


def _unidentified(entries: Sequence[MigEntry], gpu: MigGpu, model: MigModel | None) -> MigLayoutReason | None:
    """Filters that tell products of a model apart, where nobody told which of them this is."""
    filters = {device_filter for entry in entries for device_filter in entry.filters}
    if gpu.device or model is None or not filters:
        return None
    first = entries[0]
    alike = all((entry.enabled, entry.counts) == (first.enabled, first.counts) for entry in entries)
    if alike and (filters >= {*model.devices} or not all(entry.filters for entry in entries)):
        return None
    return _undecided(gpu, tuple(sorted(filters)), "PCI device id", ("its index",))


def _undecided(
    gpu: MigGpu, filters: tuple[str, ...], unknown: str, instead: tuple[str, ...]
) -> MigDeviceFilterUndecided:
    named = ", ".join(filters[:10])
    return MigDeviceFilterUndecided(
        subject=f"GPU {gpu.index}",
        message=f"Tonnage cannot tell whether the device filter {named} matches it: its {unknown} is unknown",
        instead=instead,
        filters=filters,
    )


def _planned(gpu: MigGpu, model: MigModel, demand: Mapping[str, int], *, enabled: bool) -> GpuGoal:
    plan = plan_gpu(model, gpu.now, demand)
    mode = enabled != (gpu.enabled or bool(gpu.now))
    if isinstance(plan, MigLayoutReason):
        return GpuGoal(gpu, refusal=plan)
    return GpuGoal(gpu, plan, mode=mode)


def _indivisible(gpu: MigGpu) -> MigLayoutReason:
    """MIG-5."""
    if is_undivided(gpu.product):
        message, instead = f"{gpu.product} does not support MIG", INSTEAD
    else:
        message = f"Tonnage does not know the MIG profiles of {gpu.product or 'this GPU'}"
        instead = (
            ("switch MIG on, so that its driver reports them: nvidia-smi -mig 1",) if gpu.profiles else ()
        )
    return MigNotSupported(subject=f"GPU {gpu.index}", message=message, instead=instead, product=gpu.product)
