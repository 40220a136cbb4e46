"""The GPUs of a node as its agent or its labels tell, and what it offers once they are set otherwise."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.node.labels.gpu import OWN, gpu_labels
from tonnage.decide.node.mig.layouts import Layout, layout_of
from tonnage.decide.node.share import share
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.mig import MigModel, device_mib, is_undivided, mig_model, mig_models
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig, SharedResource
from tonnage.model.errors import Problem
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.mig.profile_names import parse_profile
from tonnage.model.names import (
    GPU,
    MIG_PREFIX,
    NVIDIA,
    PRODUCT_LABEL,
    SHARED_SUFFIX,
    ResourceName,
    parse_resource_name,
)
from tonnage.model.node.device_counts import device_count
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.node.machine import Machine
from tonnage.model.node.plugin_settings import MigStrategy
from tonnage.model.reasons.gpu.mig import MigLayoutReason

MOST_GPUS: Final = 64
_COUNT: Final = f"{NVIDIA}/gpu.count"
_REPLICAS: Final = f"{NVIDIA}/gpu.replicas"
_MEMORY: Final = f"{NVIDIA}/gpu.memory"
_STRATEGY: Final = f"{NVIDIA}/mig.strategy"


_UNSURE: Final = Problem(
    "its GPUs are divided, but Tonnage does not know the layout of each",
    remedy="set the MIG layout of all of them first (--set-mig)",
)


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """GPUs of a node and how they are offered. `unsure`: they are divided, and which how is not known."""

    devices: tuple[Device, ...]
    config: PluginConfig
    unsure: bool = False

    @property
    def key(self) -> Hashable:
        """What equals it offers the same."""
        return self.devices, self.config.shared, self.config.mig_strategy


@dataclass(frozen=True, slots=True)
class OfferedResources:
    """What a node offers: (healthy, all) by resource, and the labels that say so."""

    amounts: dict[ResourceName, tuple[int, int]]
    labels: dict[str, str]


def gpus_of_node(node: Node, status: GpuStatus | None) -> NodeGpus | Problem:
    """The GPUs of a node, or what is missing to know them."""
    devices = _from_status(status) if status is not None and status.devices else _from_labels(node)
    if isinstance(devices, Problem):
        return devices
    divided = any(name.startswith(MIG_PREFIX) for name, amount in node.capacity.items() if amount)
    divided = divided or "-MIG-" in node.labels.get(PRODUCT_LABEL, "")
    label = node.labels.get(_STRATEGY, "")
    strategy = MigStrategy(label) if label in set(MigStrategy) else MigStrategy.NONE
    if divided and strategy is MigStrategy.NONE:
        strategy = MigStrategy.MIXED
    sharing = () if divided else _sharing(node, status)
    return NodeGpus(devices, PluginConfig(shared=sharing, mig_strategy=strategy), unsure=divided)


def gpu_identity(node: Node, status: GpuStatus | None) -> Hashable:
    """Everything that `gpus_of_node` looks at: nodes of which it is equal have equal GPUs."""
    labels = node.labels
    product = labels.get(PRODUCT_LABEL, "")
    own = labels.get(f"{OWN}{product.partition('-MIG-')[0]}.count", "") if "-MIG-" in product else ""
    amounts = tuple(
        sorted((r, n, node.allocatable.get(r, 0)) for r, n in node.capacity.items() if _is_gpu(r))
    )
    values = (labels.get(key, "") for key in (_COUNT, _REPLICAS, _MEMORY, _STRATEGY))
    labels_key = (product, *values, own)
    if status is None or not status.devices:
        return node.name if not product else "", labels_key, amounts
    devices = tuple((d.index, d.product, d.memory_mib, d.healthy) for d in status.devices[:MOST_GPUS])
    return labels_key, amounts, devices, tuple(sorted(status.replicas.items()))


def devices_of_product(product: str, count: int) -> tuple[Device, ...] | Problem:
    """Whole GPUs of a product of the catalogue."""
    models = gpu_models()
    key = next((key for key in models if key.casefold() == product.casefold()), None)
    if key is None:
        return Problem(f"{product[:60]} is not in the catalogue", remedy=f"known: {', '.join(models)}")
    model = models[key]
    return tuple(_device(n, model.product, model.memory_mib) for n in range(count))


def divided(gpus: NodeGpus, layout: str, devices: Sequence[int] | None, strategy: str) -> NodeGpus | Problem:
    """The GPUs, of which some (by index; None: all that can be) have another MIG layout."""
    chosen = [d for d in gpus.devices if devices is None or d.index in devices]
    if gpus.unsure and devices is not None:
        return _UNSURE
    missing = sorted(set(devices or ()) - {d.index for d in gpus.devices})
    if missing:
        there = ", ".join(str(d.index) for d in gpus.devices)
        return Problem(f"the node has no GPU {missing[0]}", remedy=f"it has {there}")
    geometries = [(d, geometry) for d in chosen if (geometry := mig_model(d.product)) is not None]
    if not geometries or (devices is not None and len(geometries) < len(chosen)):
        capable = [device for device, _ in geometries]
        return _indivisible(next(d for d in chosen if d not in capable) if chosen else None)
    changed: dict[int, Device] = {}
    for device, geometry in geometries:
        target = layout_of(geometry, layout)
        if isinstance(target, MigLayoutReason):
            instead = f"one of {'; '.join(target.instead)}" if target.instead else ""
            return Problem(target.message, why=f"{device.product}", remedy=instead)
        changed[device.index] = _with(device, geometry, target)
    config = gpus.config
    mig_strategy = MigStrategy(strategy) if strategy else config.mig_strategy
    if mig_strategy is MigStrategy.NONE and any(d.mig_enabled for d in changed.values()):
        mig_strategy = MigStrategy.MIXED
    return NodeGpus(
        tuple(changed.get(d.index, d) for d in gpus.devices), replace(config, mig_strategy=mig_strategy)
    )


def shared(gpus: NodeGpus, resource: str, replicas: int, *, rename: bool) -> NodeGpus | Problem:
    """The GPUs, with devices of a resource (empty: whole GPUs) offered so many times."""
    try:
        name = parse_resource_name(resource or GPU)
        offered = ResourceName(name + SHARED_SUFFIX) if rename else name
        parse_resource_name(offered)
    except ValueError as error:
        return Problem(str(error))
    if gpus.unsure:
        return _UNSURE
    others = tuple(sharing for sharing in gpus.config.shared if sharing.name != name)
    entry = (SharedResource(name, offered, replicas),) if replicas > 1 else ()
    return replace(gpus, config=replace(gpus.config, shared=(*others, *entry)))


def offer_of(gpus: NodeGpus) -> OfferedResources:
    """What their node offers, as its agent would."""
    inventory = Inventory(gpus.devices)
    plan = share(inventory, gpus.config)
    amounts = {
        resource.name: (sum(slot.healthy for slot in resource.slots), len(resource.slots))
        for resource in plan.resources
    }
    labels = gpu_labels(inventory, gpus.config, plan, Machine())
    labels.pop(f"{NVIDIA}/gpu.machine", None)
    labels.pop(f"{NVIDIA}/gpu.mode", None)
    return OfferedResources(amounts, labels)


def with_offer(node: Node, before: OfferedResources, after: OfferedResources) -> Node:
    """The node with what it offers after the change. A resource that it no longer offers stands at zero."""
    allocatable, capacity = dict(node.allocatable), dict(node.capacity)
    gone = {name for name in (*capacity, *allocatable) if _is_gpu(name)}
    for name in gone | set(before.amounts):
        allocatable[name] = capacity[name] = 0
    for name, (healthy, every) in after.amounts.items():
        allocatable[name], capacity[name] = healthy, every
    labels = node.labels
    if PRODUCT_LABEL in labels:
        former = before.labels
        remaining = {k: v for k, v in labels.items() if k not in former and not k.startswith(MIG_PREFIX)}
        labels = remaining | after.labels
    return replace(node, allocatable=allocatable, capacity=capacity, labels=labels)


def _is_gpu(resource: str) -> bool:
    return resource.startswith((GPU, MIG_PREFIX))


def _indivisible(device: Device | None) -> Problem:
    if device is None:
        return Problem("the node has no GPU")
    able = f"boards that can be divided: {'; '.join(model.name for model in mig_models() if model.words)}"
    if is_undivided(device.product):
        return Problem(
            f"{device.product} cannot be divided by MIG",
            remedy=f"share it by time-slicing (--set-sharing) or MPS instead, or use other GPUs; {able}",
        )
    return Problem(
        f"Tonnage does not know whether {device.product} can be divided by MIG",
        remedy=f"ask its driver: nvidia-smi mig -lgip; {able}",
    )


def _with(device: Device, model: MigModel, layout: Layout) -> Device:
    """The device in a layout; one that cannot work cannot work in parts either."""
    if layout.whole:
        return replace(device, mig_enabled=False, migs=())
    ordered = sorted(layout.placed, key=lambda placement: placement[1])
    key = next((model.key for model in gpu_models().values() if model.product == device.product), "")
    migs = tuple(
        MigDevice(
            f"MIG-{device.uuid}-{place}",
            place,
            profile.name,
            place + 1,
            0,
            device_mib(model, key, device.memory_mib, parse_profile(profile.name)),
            placement=(start, profile.memory),
            gpu_slices=profile.compute,
            compute_slices=profile.compute,
        )
        for place, (profile, start) in enumerate(ordered)
    )
    return replace(device, mig_enabled=True, migs=migs)


def _from_status(status: GpuStatus) -> tuple[Device, ...] | Problem:
    devices = sorted(status.devices[:MOST_GPUS], key=lambda d: (d.index is None, d.index, d.uuid))
    if any(not d.product for d in devices):
        return Problem("its agent does not report the product of its GPUs")
    return tuple(
        replace(_device(n if d.index is None else d.index, d.product, d.memory_mib), healthy=d.healthy)
        for n, d in enumerate(devices)
    )


def _from_labels(node: Node) -> tuple[Device, ...] | Problem:
    product = node.labels.get(PRODUCT_LABEL, "")
    for ending in ("-SHARED", "-MIG-"):
        product = product.partition(ending)[0]
    count = node.labels.get(_COUNT) or str(node.capacity.get(GPU, 0))
    if "-MIG-" in node.labels.get(PRODUCT_LABEL, ""):  # then that counts MIG devices
        count = node.labels.get(f"{OWN}{product}.count", "")
    if not product:
        return Problem(
            "Tonnage does not know which GPUs it has",
            "",
            "no agent reports them, and the node has no product label",
            f"label it: kubectl label node {node.name} {PRODUCT_LABEL}=… {_COUNT}=…",
        )
    if not (count.isascii() and count.isdigit() and 0 < int(count[:9]) <= MOST_GPUS):
        why = f"the label {_COUNT} is missing, and {GPU} is {node.capacity.get(GPU, 0)}"
        return Problem("Tonnage does not know how many GPUs it has", "", why, f"label it: {_COUNT}=N")
    memory = node.labels.get(_MEMORY, "")
    size = int(memory) if memory.isascii() and memory.isdigit() and len(memory) < 10 else 0
    lost = max(0, node.capacity.get(GPU, 0) - node.allocatable.get(GPU, 0))
    devices = [_device(n, _product_named(product), size) for n in range(int(count))]
    whole = node.capacity.get(GPU, 0) == len(devices)
    return tuple(
        replace(device, healthy=not (whole and device.index >= len(devices) - lost)) for device in devices
    )


def _product_named(label: str) -> str:
    """The driver's name of a product that a label spells with dashes, where the catalogue has it."""
    return next((m.product for m in gpu_models().values() if m.product.replace(" ", "-") == label), label)


def _device(index: int, product: str, memory_mib: int) -> Device:
    divisible = mig_model(product) is not None
    capability = next((m.compute_capability for m in gpu_models().values() if m.product == product), "")
    return Device(f"GPU-{index}", index, product, memory_mib, capability,
                  mig_enabled=False if divisible else None)  # fmt: skip


def _sharing(node: Node, status: GpuStatus | None) -> tuple[SharedResource, ...]:
    """How whole GPUs are shared now."""
    for name in (ResourceName(GPU + SHARED_SUFFIX), GPU):
        count = device_count(node, name, status)
        if count.amount and count.replicas is not None and count.shared:
            return (SharedResource(GPU, name, count.replicas),)
    return ()
