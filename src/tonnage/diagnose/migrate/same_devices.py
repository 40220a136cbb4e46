"""Whether a claim can have just the devices that a pod could be given before, on the nodes there are.

Nodes that offer claims already are judged by their slices; of the others, the report of the node's agent
says what its slices would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.decide.kubernetes.matching import node_is_selected
from tonnage.decide.node.claims.published import published_devices
from tonnage.diagnose.cluster_view import Ground
from tonnage.diagnose.migrate.claim_migration import ClaimMigration
from tonnage.diagnose.migrate.claimable_resources import GPU
from tonnage.model.devices.claims import DRIVER, PublishedDevice
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import ALL, PluginConfig
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.kubernetes.resource_claims import Attribute, Capacity, SemanticVersion, SliceDevice
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus

_ALL_CLAIMED: Final = PluginConfig(claimed=(ALL,))
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DeviceComparison:
    """Devices by `node/device`: those that match both ways, only by labels, only by the claim.

    `unknown` are nodes whose devices nobody describes, `failures` what selectors say where they fail.
    """

    same: tuple[str, ...] = ()
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether the same devices match, and some do."""
        others = self.only_before or self.only_after or self.unknown or self.failures
        return bool(self.same) and not others

    def lines(self) -> Iterator[str]:
        """What was found, a sentence each."""
        if self.same:
            nodes = dict.fromkeys(name.partition("/")[0] for name in self.same)
            verb = "device matches" if len(self.same) == 1 else "devices match"
            yield f"the same {len(self.same)} {verb}, on {listed(nodes)}"
        elif not self.unknown:
            yield "no device of the cluster matches, before or after"
        if self.only_before:
            yield f"not matched by the claim any more: {listed(self.only_before)}"
        if self.only_after:
            yield f"matched by the claim, and not before: {listed(self.only_after)}"
        yield from (f"a selector fails: {failure}" for failure in self.failures)
        if self.unknown:
            yield f"not known: the devices of {listed(self.unknown)}, which no slice or agent describes"

    def to_json(self) -> JsonObject:
        """Every key always present."""
        return {
            "proven": self.proven,
            "same": [*self.same],
            "only_before": [*self.only_before],
            "only_after": [*self.only_after],
            "unknown_nodes": [*self.unknown],
            "failures": [*self.failures],
        }


@dataclass(slots=True)
class _Sides:
    """Devices as they are sorted, nodes without any, and failures; each once, in their order."""

    same: dict[str, None] = field(default_factory=dict)
    before: dict[str, None] = field(default_factory=dict)
    after: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)
    failures: dict[str, None] = field(default_factory=dict)


def compared_devices(migration: ClaimMigration, before: Pod, after: Pod, ground: Ground) -> DeviceComparison:
    """The comparison for every kind of device that is asked for: whole GPUs, and MIG devices by profile."""
    sides = _Sides()
    for request in {request.profile: request for request in migration.requests}.values():
        own = ground.view.supply.classes.get(request.device_class)
        selectors = migration.class_selectors or (own.selectors if own is not None else ())
        _compare(request.profile, (*selectors, *request.selectors), before, after, ground, sides)
    return DeviceComparison(
        *map(tuple, (sides.same, sides.before, sides.after, sides.unknown, sides.failures))
    )


def _compare(
    profile: str, selectors: Sequence[str], before: Pod, after: Pod, ground: Ground, sides: _Sides
) -> None:
    """Put every device of the cluster on the side of the pods that could have it: before, after, or both."""
    supply, snapshot = ground.view.supply, ground.view.snapshot
    for view in ground.view.nodes.values():
        node = view.node
        was, would = node_is_selected(before, node), node_is_selected(after, node)
        devices = list(_devices(node, snapshot.gpu.get(node.name), supply, profile))
        if not devices and (was or would) and node.capacity.get(_resource(profile), 0):
            sides.unknown[node.name] = None
        for device in devices:
            fits = would and _selected(selectors, device, supply, sides.failures)
            side = (sides.same if fits else sides.before) if was else sides.after if fits else None
            if side is not None:
                side[f"{node.name}/{device.name}"] = None


def _selected(
    selectors: Sequence[str], device: SliceDevice, supply: Supply, failures: dict[str, None]
) -> bool:
    try:
        return all(supply.selects(text, DRIVER, device) for text in selectors)
    except (CelError, CelUnsupportedError) as error:
        failures[f"{device.name}: {error}"] = None
        return False


def _resource(profile: str) -> str:
    return f"nvidia.com/mig-{profile.replace('+', '.')}" if profile else GPU


def _devices(node: Node, report: GpuStatus | None, supply: Supply, profile: str) -> Iterator[SliceDevice]:
    """The node's GPUs, or its MIG devices of a profile: as published, else as they would be."""
    kind = "mig" if profile else "gpu"
    published: set[str] = set()
    for part in supply.by_node.get(node.name, ()):
        for device in part.devices if part.driver == DRIVER else ():
            facts = device.attributes
            # What is made for a claim has no uuid: its GPU's slices name every device that there can be.
            published.add(str(facts.get("uuid") or facts.get("parentUUID", "")))
            if facts.get("type") == kind and profile in ("", facts.get("profile")):
                yield device
    if report is None:
        return
    gpus = [gpu for gpu in report.devices if gpu.uuid not in published]
    if profile:
        yield from (
            _mig_device(report, gpu, part.uuid, part.memory_mib, profile)
            for gpu in gpus
            for part in gpu.parts
            if part.profile == profile and part.uuid not in published
        )
        return
    whole = tuple(_device_of(gpu, place) for place, gpu in enumerate(gpus) if not gpu.in_mig_mode)
    inventory = Inventory(whole, report.driver, report.cuda)
    yield from map(_slice_device, published_devices(inventory, _ALL_CLAIMED))


def _device_of(gpu: GpuDevice, place: int) -> Device:
    """Its minor number is not in the report; names of devices play no part in what is selected."""
    index = gpu.index if gpu.index is not None else place
    return Device(
        gpu.uuid,
        index,
        gpu.product,
        gpu.memory_mib,
        gpu.compute_capability,
        gpu.pci_bus_id,
        minor=index,
        numa_node=gpu.numa_node,
    )


def _slice_device(device: PublishedDevice) -> SliceDevice:
    attributes: dict[str, Attribute] = {**device.texts, **device.numbers}
    attributes |= {key: SemanticVersion(text) for key, text in device.versions.items()}
    capacity = {key: Capacity(parse_quantity(amount)) for key, amount in device.capacity.items()}
    return SliceDevice(device.name, attributes, capacity)


def _mig_device(report: GpuStatus, gpu: GpuDevice, uuid: str, memory_mib: int, profile: str) -> SliceDevice:
    (parent,) = published_devices(Inventory((_device_of(gpu, 0),), report.driver, report.cuda), _ALL_CLAIMED)
    whole = _slice_device(parent)
    attributes = {
        **whole.attributes, "type": "mig", "uuid": uuid, "parentUUID": gpu.uuid, "profile": profile,
    }  # fmt: skip
    return SliceDevice(
        f"{whole.name}-mig-{profile}", attributes, {"memory": Capacity(Fraction(memory_mib * _MIB))}
    )
