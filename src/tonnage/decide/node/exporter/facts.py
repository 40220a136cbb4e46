"""What no other exporter shows: what a node offers, who has it, how it is shared and divided, how it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tonnage.decide.node.offer import NodeOffer
from tonnage.decide.node.preference.device_sets import GpuTopology, best_set, board_of, joined
from tonnage.model.catalog.mig import mig_model
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import Hold, PlannedResource
from tonnage.model.metric_families import Metric, MetricKind
from tonnage.model.mig.geometry import Spot
from tonnage.model.mig.placements import placements
from tonnage.model.names import parse_device_id
from tonnage.model.node.plugin_settings import SharingKind

_NVIDIA: Final = "nvidia.com/"
_LONGEST_REASON: Final = 200
_GPU: Final = ("UUID", "gpu")
_PART: Final = (*_GPU, "GPU_I_ID", "GPU_I_PROFILE")
_MODES: Final = {SharingKind.TIME_SLICING: "time-slicing", SharingKind.MPS: "mps"}
_MIG_MODES: Final = {None: "", False: "disabled", True: "enabled"}

Rows = Iterable[tuple[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """Devices by resource: `capacity` and `allocatable` of the Node object, and `requested` by its pods.

    None: that is not known, as without an API server.
    """

    capacity: Mapping[str, int] | None = None
    allocatable: Mapping[str, int] | None = None
    requested: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class DeviceAge:
    """How old a device's newest reading is, None without any; and for how long it has owed an answer."""

    device: Device
    reading_s: float | None = None
    stall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PageCounts:
    """What the exporter counts: other series of its page, scrapes that failed, ages of the GPUs' readings."""

    series: int = 0
    errors: int = 0
    ages: tuple[DeviceAge, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeKnowledge:
    """What facts follow from. `offer` is None where nothing is offered: then nothing is said of sharing."""

    inventory: Inventory
    holds: tuple[Hold, ...] = ()
    offer: NodeOffer | None = None
    amounts: NodeAmounts = NodeAmounts()


def node_facts(node: NodeKnowledge) -> Iterator[Metric]:
    """Facts of the node's resources and devices, and of who holds them."""
    yield from _resources(node)
    inventory = node.inventory
    names = (*_PART, "state", "reason")
    yield _gauges("gpu_health", "1; whether the device may be used, and why not.", names, _health(inventory))
    names = (*_GPU, "product", "sharing", "mig_mode", "driver_version")
    text = "1; what the GPU is and how it is offered."
    yield Metric(MetricKind.INFO, "tonnage_gpu", text, names, tuple(_infos(node)))
    names = (*_PART, "resource", "mode")
    yield _gauges(
        "gpu_sharing_replicas", "Containers that can have the device at once.", names, _replicas(node)
    )
    parts = tuple(_mig_devices(inventory))
    yield _gauges("gpu_mig_devices", "MIG devices of the GPU, by profile.", (*_GPU, "profile"), parts)
    text = "MIG devices of the profile that the GPU has room for beside those that it has."
    yield _gauges("gpu_mig_placements_free", text, (*_GPU, "profile"), _free(inventory))
    text = "Bandwidth among the container's GPUs, as a share of that of the node's best set of the same size."
    yield _gauges("gpu_holder_topology_ratio", text, ("namespace", "pod", "container"), _qualities(node))


def exporter_facts(counts: PageCounts) -> Iterator[Metric]:
    """What the exporter says of itself, and how old its readings are."""
    read = [(_gpu(age.device), age.reading_s) for age in counts.ages if age.reading_s is not None]
    yield _gauges(
        "gpu_driver_stall_seconds",
        "Seconds since the GPU last answered, once the driver owes an answer; 0 while it answers.",
        _GPU,
        ((_gpu(age.device), age.stall_s) for age in counts.ages),
    )
    yield _gauges("exporter_reading_age_seconds", "Seconds since the GPU was last read.", _GPU, read)
    series = counts.series + len(counts.ages) + len(read) + 2
    yield _gauges("exporter_series", "Series on this page.", (), [((), series)])
    text = "Scrapes that failed."
    yield Metric(MetricKind.COUNTER, "tonnage_exporter_scrape_errors", text, (), (((), counts.errors),))


def _gauges(name: str, text: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    return Metric(MetricKind.GAUGE, f"tonnage_{name}", text, labels, tuple(rows))


def _resources(node: NodeKnowledge) -> Iterator[Metric]:
    """Of the offer's resources, and of NVIDIA's others that the Node has or a pod holds."""
    amounts, held = node.amounts, dict[str, int]()
    for hold in node.holds:
        held[hold.resource] = held.get(hold.resource, 0) + len(hold.ids)
    own = {resource.name: None for resource in node.offer.plan.resources} if node.offer else {}
    texts = {
        "capacity": ("Devices of the resource, as the Node object says.", amounts.capacity),
        "allocatable": ("Devices that pods can get, as the Node object says.", amounts.allocatable),
        "allocated": ("Devices that pods on the node ask for.", amounts.requested),
        "held": ("Devices that containers have, by the agent's ledger.", held),
    }
    others = {name for _, by_name in texts.values() for name in by_name or () if name.startswith(_NVIDIA)}
    names = (*own, *sorted(others - own.keys()))
    for amount, (text, by_name) in texts.items():
        rows = [((name,), by_name.get(name, 0)) for name in names] if by_name is not None else []
        yield _gauges(f"gpu_resource_{amount}", text, ("resource",), rows)


def _gpu(device: Device) -> tuple[str, str]:
    return device.uuid, str(device.index)


def _part(device: Device, part: MigDevice | None) -> tuple[str, ...]:
    if part is None:
        return (*_gpu(device), "", "")
    return (*_gpu(device), str(part.gpu_instance), part.profile)


def _devices(inventory: Inventory) -> Iterator[tuple[Device, MigDevice | None]]:
    """Every GPU, and after it its MIG devices."""
    for device in inventory.devices:
        yield device, None
        yield from ((device, part) for part in device.migs)


def _health(inventory: Inventory) -> Rows:
    for device, part in _devices(inventory):
        healthy = device.healthy and (part is None or part.healthy)
        reason = "" if healthy else (part.reason if part else "") or device.reason
        state = "healthy" if healthy else "unhealthy"
        yield (*_part(device, part), state, reason[:_LONGEST_REASON]), 1


def _offered(offer: NodeOffer | None) -> Mapping[str, tuple[PlannedResource, str]]:
    """By uuid, under which resource a device or MIG device is offered, and how that is shared."""
    if offer is None:
        return {}
    mode = _MODES[offer.config.config.sharing_kind]
    return {
        slot.uuid: (resource, mode if resource.shared else "none")
        for resource in offer.plan.resources
        for slot in resource.first_slots
    }


def _infos(node: NodeKnowledge) -> Rows:
    offered = _offered(node.offer)
    unshared = "none" if node.offer is not None else ""
    for device in node.inventory.devices:
        uuids = (device.uuid, *(part.uuid for part in device.migs))
        modes = {offered[uuid][1] for uuid in uuids if uuid in offered}
        sharing = max(modes, key=lambda mode: mode != "none", default=unshared)
        mig = _MIG_MODES[device.mig_enabled]
        yield (*_gpu(device), device.product, sharing, mig, node.inventory.driver_version), 1


def _replicas(node: NodeKnowledge) -> Rows:
    offered = _offered(node.offer)
    for device, part in _devices(node.inventory):
        entry = offered.get(device.uuid if part is None else part.uuid)
        if entry is not None:
            resource, mode = entry
            yield (*_part(device, part), resource.name, mode), resource.replicas


def _mig_devices(inventory: Inventory) -> Rows:
    for device in inventory.devices:
        profiles = [part.profile for part in device.migs]
        for profile in dict.fromkeys(profiles):
            yield (*_gpu(device), profile), profiles.count(profile)


def _free(inventory: Inventory) -> Rows:
    """Of GPUs in MIG mode whose driver says where each instance lies."""
    for device in inventory.devices:
        spots = {part.gpu_instance: _spot(part) for part in device.migs}
        if not device.mig_enabled or None in spots.values():
            continue
        placed = tuple(sorted(spot for spot in spots.values() if spot is not None))
        for profile, count in _room(device.product, placed):
            yield (*_gpu(device), profile), count


def _spot(part: MigDevice) -> Spot | None:
    return None if part.placement is None else (part.profile.rpartition("c.")[2], part.placement[0])


@lru_cache(maxsize=64)
def _room(product: str, placed: tuple[Spot, ...]) -> tuple[tuple[str, int], ...]:
    """How many of each profile fit beside those that lie there; nothing of a GPU that is not catalogued."""
    there = [name for name, _ in placed]
    model = mig_model(product, there)
    if model is None or any(name not in model.profiles for name in there):
        return ()
    return tuple(
        (
            name,
            next(
                (
                    count
                    for count in range(profile.most - there.count(name), 0, -1)
                    if placements(model, {name: count}, beside=placed) is not None
                ),
                0,
            ),
        )
        for name, profile in model.profiles.items()
    )


def _qualities(node: NodeKnowledge) -> Rows:
    """Of containers that have several whole GPUs."""
    indices = {device.uuid: device.index for device in node.inventory.devices}
    sets: dict[tuple[str, str, str], set[int]] = {}
    for hold in node.holds:
        sets.setdefault((hold.namespace, hold.pod, hold.container), set()).update(_held(hold, indices))
    several = {key: tuple(sorted(chosen)) for key, chosen in sets.items() if len(chosen) > 1}
    if several:
        topology = board_of(node.inventory.devices, node.inventory.links)
        for key, chosen in several.items():
            yield key, _quality(topology, chosen)


def _held(hold: Hold, indices: Mapping[str, int]) -> Iterator[int]:
    uuids = (parse_device_id(text).uuid for text in hold.ids)
    return (indices[uuid] for uuid in uuids if uuid in indices)


def _quality(topology: GpuTopology, chosen: tuple[int, ...]) -> float:
    """The lesser of two shares: of the slowest pair's bandwidth, and of the sum over all pairs."""
    ours, best = joined(topology, chosen), best_set(topology, len(chosen))
    pairs = ((ours.slowest, best.slowest), (ours.total, best.total))
    return round(min((1.0, *(has / most for has, most in pairs if most))), 4)
