"""What it takes to divide the GPUs of a node anew, and what a demand for memory takes; MIG-2 to MIG-6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tonnage.decide.node.mig.goal import GpuGoal, MigGpu
from tonnage.decide.node.mig.packing import Packing, pack
from tonnage.decide.node.mig.plan import Instance
from tonnage.diagnose.mig.products import Product, model_of, product_named
from tonnage.diagnose.mig.resets import Resets, reset_json, reset_lines
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.mig import usable_mib
from tonnage.model.json import JsonObject
from tonnage.model.mig.compute import Split
from tonnage.model.mig.placements import written
from tonnage.model.mig.profile_names import parse_profile
from tonnage.model.names import parse_device_id
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus
from tonnage.model.reasons.gpu.mig import MigGpuUnhealthy, MigMemoryShort

_NOWHERE = -1
"""The start of an instance of which nobody tells it: it cannot be kept."""


@dataclass(frozen=True, slots=True)
class MigDemand:
    """What a demand takes on GPUs of a product. `measured`: the memory of its profiles is not an estimate."""

    product: Product
    services: Mapping[int, int]
    memory_mib: Mapping[str, int]
    packing: Packing | MigMemoryShort
    measured: bool


def gpus_of(status: GpuStatus) -> tuple[MigGpu, ...]:
    """A node's GPUs, their instances and who uses those."""
    return tuple(_gpu(place, device) for place, device in enumerate(status.devices))


def healthy_goals(goals: Sequence[GpuGoal], status: GpuStatus | None) -> tuple[GpuGoal, ...]:
    """The goals, with a refusal for each GPU that the node's agent calls unhealthy."""
    ill = {d.uuid: d for d in status.devices if not d.healthy} if status is not None else {}
    return tuple(
        replace(goal, plan=None, mode=False, refusal=_unhealthy(goal, ill[goal.gpu.uuid]))
        if goal.gpu.uuid in ill and (goal.plan is not None or goal.refusal is not None)
        else goal
        for goal in goals
    )


def _unhealthy(goal: GpuGoal, device: GpuDevice) -> MigGpuUnhealthy:
    why = device.reason or "its agent does not say why"
    message = f"it is unhealthy ({why}), so it is left out; repair or replace it first"
    return MigGpuUnhealthy(subject=f"GPU {goal.gpu.index}", message=message, index=goal.gpu.index, why=why)


def pretended_gpus(product: str, count: int) -> tuple[MigGpu, ...]:
    """Whole GPUs of a product. Raises ConfigError: nobody knows it."""
    family = product_named(product)
    return tuple(MigGpu(index, family.name, device=family.device) for index in range(count))


def demand_on(product: str, services: Mapping[int, int]) -> MigDemand:
    """The fewest GPUs of a product for services by the MiB that each needs.

    Raises:
        ConfigError: nobody knows the product, or it cannot be divided.
    """
    family = product_named(product)
    model = model_of(family)
    memory, measured = usable_mib(model, family.key, family.memory_mib)
    return MigDemand(family, services, memory, pack(model, memory, services), measured)


def goal_json(goal: GpuGoal, resets: Resets) -> JsonObject:
    """A GPU's part of an answer for scripts."""
    answer: JsonObject = {"index": goal.gpu.index, "uuid": goal.gpu.uuid, "product": goal.gpu.product}
    if goal.refusal is not None:
        refusal: JsonObject = {"error": goal.refusal.message, "instead": [*goal.refusal.instead]}
        return {**answer, **refusal, "askedAt": [*goal.where]}
    if goal.plan is None:
        return {**answer, "untouched": True}
    return {
        **answer,
        "modeChange": goal.mode,
        **reset_json(goal, resets),
        "keep": [_instance_json(instance) for instance in goal.plan.keep],
        "destroy": [_instance_json(instance) for instance in goal.plan.destroy],
        "create": [
            {"profile": name, "start": start, **_split_json(goal.plan.splits.get((name, start), ()))}
            for name, start in goal.plan.create
        ],
        "evict": [*goal.evicts],
    }


def goal_lines(goal: GpuGoal, resets: Resets, turned: frozenset[int]) -> Iterator[str]:
    """The same for a person; `turned`: the GPUs of the plan that take another mode."""
    name = f"GPU {goal.gpu.index}"
    if goal.refusal is not None:
        yield f"{name}: cannot be done: {goal.refusal.message}"
        if goal.refusal.instead:
            yield f"  instead: {'; '.join(goal.refusal.instead)}"
        if goal.where:
            yield f"  asked for at {'; '.join(goal.where)}"
        return
    if goal.plan is None:
        yield f"{name}: unchanged; no entry applies to it"
        return
    if goal.plan.nothing and not goal.mode:
        yield f"{name}: already as requested ({_spots(goal.plan.keep) or 'no devices'})"
        return
    yield f"{name}: {goal.gpu.product}"
    if goal.mode:
        yield from reset_lines(goal, resets, turned)
    for word, spots in (("keep", _spots(goal.plan.keep)), ("destroy", _spots(goal.plan.destroy))):
        if spots:
            yield f"  {word:<8} {spots}"
    if goal.plan.create:
        made = (f"{_split(spot[0], goal.plan.splits.get(spot, ()))}@{spot[1]}" for spot in goal.plan.create)
        yield f"  create   {', '.join(made)}"
    if goal.evicts:
        yield f"  evict    {', '.join(goal.evicts)}"


def demand_json(demand: MigDemand) -> JsonObject:
    """The answer for scripts."""
    answer: JsonObject = {
        "product": demand.product.name,
        "demand": [{"mib": mib, "count": count} for mib, count in sorted(demand.services.items())],
        "memoryMiB": dict(demand.memory_mib),
        "estimated": not demand.measured,
    }
    if isinstance(demand.packing, MigMemoryShort):
        return {**answer, "error": demand.packing.message, "instead": [*demand.packing.instead]}
    return {
        **answer,
        "gpus": demand.packing.count,
        "least": demand.packing.least,
        "serves": {str(mib): name for mib, name in demand.packing.serves.items()},
        "layouts": [{"gpus": number, "profiles": dict(layout)} for layout, number in demand.packing.gpus],
    }


def demand_lines(demand: MigDemand) -> Iterator[str]:
    """The same for a person."""
    packing = demand.packing
    if isinstance(packing, MigMemoryShort):
        yield f"cannot be done: {packing.message}"
        return
    proven = "the fewest possible" if packing.least else "possibly one more than needed"
    yield f"{packing.count} x {demand.product.name} ({proven})"
    for layout, number in packing.gpus:
        yield f"  {number} x {written(layout)}"
    for mib, name in packing.serves.items():
        has = demand.memory_mib[name]
        yield f"{demand.services[mib]} x {mib} MiB on {name}, which has {has} MiB" + _missed(demand, mib)
    if not demand.measured:
        yield "The memory of its profiles is estimated; read the exact sizes on a node."


def _missed(demand: MigDemand, mib: int) -> str:
    """MIG-6: the next smaller profile, where it is only just too small."""
    smaller = {name: has for name, has in demand.memory_mib.items() if mib * 0.9 <= has < mib}
    if not smaller:
        return ""
    name = max(smaller, key=lambda profile: smaller[profile])
    return f"; {name} has only {smaller[name]}"


def _gpu(place: int, device: GpuDevice) -> MigGpu:
    instances: dict[tuple[str, int], Instance] = {}
    for part in device.parts:
        start = part.start if part.start is not None else _NOWHERE
        profile, compute = _parts(part.profile)
        key = (profile, start) if start != _NOWHERE else (part.uuid, start)
        before = instances.get(key, Instance(profile, start, part.uuid))
        holders = tuple(sorted({*before.holders, *_holders(device, part.uuid)}))
        split = tuple(sorted((*before.split, *compute), reverse=True))
        instances[key] = replace(before, holders=holders, split=split)
    index = device.index if device.index is not None else place
    whole = tuple(sorted(set(_holders(device, device.uuid))))
    parts = tuple(instances.values())
    pci_devices = {model.product: model.pci_device for model in gpu_models().values()}
    pci = pci_devices.get(device.product, "")
    return MigGpu(index, device.product, device.uuid, parts, enabled=bool(parts), device=pci, holders=whole)


def _parts(profile: str) -> tuple[str, Split]:
    """A MIG device's GPU instance, and the compute slices that it has of it, unless all."""
    try:
        name = parse_profile(profile)
    except ValueError:
        return profile, ()
    return name.gpu_instance, () if name.compute is None else (name.compute,)


def _holders(device: GpuDevice, uuid: str) -> Iterator[str]:
    for holder in device.holders:
        if any(parse_device_id(device_id).uuid == uuid for device_id in holder.ids):
            yield f"{holder.namespace}/{holder.pod}"


def _instance_json(instance: Instance) -> JsonObject:
    answer: JsonObject = {"profile": instance.profile, "start": instance.start, "uuid": instance.uuid}
    return {**answer, "holders": [*instance.holders], **_split_json(instance.split)}


def _split_json(split: Split) -> JsonObject:
    return {"computeInstances": [*split]} if split else {}


def _split(profile: str, split: Split) -> str:
    """A GPU instance for a person: `3g.40gb of 2c+1c`."""
    return f"{profile} of {'+'.join(f'{size}c' for size in split)}" if split else profile


def _spots(instances: Sequence[Instance]) -> str:
    ordered = sorted(instances, key=lambda instance: instance.start)
    return ", ".join(
        f"{_split(instance.profile, instance.split)}@{instance.start if instance.start != _NOWHERE else '?'}"
        + (f" ({', '.join(instance.holders)})" if instance.holders else "")
        for instance in ordered
    )
