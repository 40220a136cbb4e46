"""The labels that say what GPUs a node has: NVIDIA's names, correct on nodes with several models.

Source: NVIDIA/k8s-device-plugin v0.20, GPU feature discovery. Where it depends on chance or makes labels that
are not valid, this does not: see docs/reference/labels.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.decide.node.labels.machine import mode_label, vgpu_labels
from tonnage.decide.node.labels.syntax import joined, sanitised, shortened
from tonnage.decide.node.resource_units import DeviceUnit, units_of
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import NodePlan, PlannedResource, PluginConfig
from tonnage.model.names import NVIDIA
from tonnage.model.node.machine import Machine
from tonnage.model.node.plugin_settings import MigStrategy, SharingKind

OWN: Final = "tonnage.dev/gpu."
"""Before a model in labels that NVIDIA does not have."""
_WORDS: Final = {SharingKind.TIME_SLICING: "time-slicing", SharingKind.MPS: "mps"}
_FAMILIES: Final = {
    1: "tesla",
    2: "fermi",
    3: "kepler",
    5: "maxwell",
    6: "pascal",
    9: "hopper",
    10: "blackwell",
    12: "blackwell",
    13: "rubin",
}
_TURING: Final = 5
"""From this minor number on, compute capability 7 is no longer Volta."""
_ADA: Final = 9
"""From this one on, 8 is no longer Ampere."""
FAMILIES: Final = frozenset({*_FAMILIES.values(), "volta", "turing", "ampere", "ada-lovelace", "undefined"})
"""Every architecture that the label may have."""


@dataclass(frozen=True, slots=True)
class _Sharing:
    """How things of one kind are offered; zero replicas are not offered at all."""

    replicas: int = 0
    renamed: bool = False
    strategy: str = "none"

    @property
    def ending(self) -> str:
        """After the product's name: whoever asks by the old name gets a share, and should be able to tell."""
        return "SHARED" if self.replicas > 1 and not self.renamed else ""


def gpu_labels(
    inventory: Inventory,
    config: PluginConfig,
    plan: NodePlan,
    machine: Machine,
    *,
    started: datetime | None = None,
) -> dict[str, str]:
    """Every label about GPUs, by key; none without a device. `started` is for the timestamp, None for none.

    `gpu.*` is about one model on a node with several: the one of most devices, the first by name of equals;
    `gpu.count` counts it alone. Each model has its own count as `tonnage.dev/gpu.<product>.count`.
    """
    devices = inventory.devices
    if not devices:
        return {}
    sources = _LabelSources(inventory, config, plan)
    labels = _versions(inventory) | sources.whole()
    # After the whole devices, whose labels MIG devices take over under `single`.
    if config.mig_strategy is MigStrategy.SINGLE:
        labels |= sources.single()
    elif config.mig_strategy is MigStrategy.MIXED:
        labels |= sources.mixed()
    if config.mig_strategy is not MigStrategy.NONE:
        labels["mig.strategy"] = config.mig_strategy.value
    uses_mps = bool(config.shared) and config.sharing_kind is SharingKind.MPS
    divided = any(device.mig_enabled for device in devices)
    labels |= {
        "gpu.present": "true",
        "gpu.machine": shortened(sanitised(machine.product)) or "unknown",
        "gpu.mode": mode_label(machine.pci),
        "mig.capable": _boolean(any(device.mig_enabled is not None for device in devices)),
        "mps.capable": _boolean(uses_mps and not divided),
    }
    labels |= vgpu_labels(machine.pci) | _clique(devices)
    if started is not None:
        labels["gfd.timestamp"] = str(int(started.timestamp()))
    return {f"{NVIDIA}/{key}": value for key, value in labels.items()} | _counts(devices)


class _LabelSources:
    """What is said of devices and their parts under a configuration; keys without `nvidia.com/`."""

    def __init__(self, inventory: Inventory, config: PluginConfig, plan: NodePlan) -> None:
        self._devices = inventory.devices
        self._config = config
        self._units = units_of(inventory, config)[0]
        self._parts = [(unit, unit.mig) for unit in self._units if unit.mig is not None]
        self._resource_of = {slot.uuid: resource for resource in plan.resources for slot in resource.slots}

    def whole(self) -> dict[str, str]:
        """Of whole devices, divided or not."""
        product = _main(device.product for device in self._devices)
        devices = [device for device in self._devices if device.product == product]
        undivided = [device.uuid for device in devices if not device.mig_enabled]
        shared = self._sharing(undivided)
        return {
            **_offered("gpu", joined(product, shared.ending), len(devices), shared),
            **_positive("gpu.memory", devices[0].memory_mib),
            **_architecture(devices[0].compute_capability),
        }

    def single(self) -> dict[str, str]:
        """Of MIG devices under the name of whole ones, in the place of what is said of those."""
        if not any(device.mig_enabled for device in self._devices):
            return {}
        if not self._units:
            product = _main(device.product for device in self._devices if device.mig_enabled)
            nothing = {"gpu.count": "0", "gpu.replicas": "0", "gpu.sharing-strategy": "", "gpu.memory": "0"}
            return {**nothing, "gpu.product": joined(product, "MIG", "INVALID")}
        if not self._parts:
            return {}
        of_main = self._of_main(self._parts)
        return self._part("gpu", of_main) | _architecture(of_main[0][0].device.compute_capability)

    def mixed(self) -> dict[str, str]:
        """Of the MIG devices of each profile."""
        labels: dict[str, str] = {}
        for profile in sorted({mig.profile for _, mig in self._parts}):
            same = [(unit, mig) for unit, mig in self._parts if mig.profile == profile]
            labels |= self._part(f"mig-{sanitised(profile.replace('+', '.'))}", self._of_main(same))
        return labels

    def _of_main(self, parts: Sequence[tuple[DeviceUnit, MigDevice]]) -> list[tuple[DeviceUnit, MigDevice]]:
        product = _main(unit.device.product for unit, _ in parts)
        return [(unit, mig) for unit, mig in parts if unit.device.product == product]

    def _part(self, key: str, parts: Sequence[tuple[DeviceUnit, MigDevice]]) -> dict[str, str]:
        shared = self._sharing([mig.uuid for _, mig in parts])
        unit, mig = parts[0]
        product = joined(unit.device.product, "MIG", mig.profile, shared.ending)
        sizes = {
            "multiprocessors": mig.multiprocessors,
            "slices.gi": mig.gpu_slices,
            "slices.ci": mig.compute_slices,
            "engines.copy": mig.copy_engines,
            "engines.decoder": mig.decoders,
            "engines.encoder": mig.encoders,
            "engines.jpeg": mig.jpeg_engines,
            "engines.ofa": mig.optical_flow_engines,
        }
        return {
            **_offered(key, product, len(parts), shared),
            **_positive(_key(key, "memory"), mig.memory_mib),
            **{_key(key, name): str(size) for name, size in sizes.items()},
        }

    def _sharing(self, uuids: Iterable[str]) -> _Sharing:
        """As most of them are offered, with more replicas where two ways are equal."""
        ways = Counter(self._way(self._resource_of[uuid]) for uuid in uuids if uuid in self._resource_of)
        if not ways:
            return _Sharing()
        return max(ways, key=lambda way: (ways[way], way.replicas, way.renamed))

    def _way(self, resource: PlannedResource) -> _Sharing:
        if not resource.shared:
            return _Sharing(1)
        entries = [shared for shared in self._config.shared if shared.offered_as == resource.name]
        renamed = any(shared.name != shared.offered_as for shared in entries)
        return _Sharing(resource.replicas, renamed, _WORDS[self._config.sharing_kind])


def _offered(key: str, product: str, count: int, shared: _Sharing) -> dict[str, str]:
    return {
        _key(key, "product"): product,
        _key(key, "count"): str(count),
        _key(key, "replicas"): str(shared.replicas),
        _key(key, "sharing-strategy"): shared.strategy,
    }


def _key(head: str, tail: str) -> str:
    """A key's name of at most 63 characters.

    >>> _key("mig-1g.5gb", "count")
    'mig-1g.5gb.count'
    """
    return f"{shortened(head, 63 - len(tail) - 1)}.{tail}"


def _main(products: Iterable[str]) -> str:
    """The most frequent, of equals the first by name.

    >>> _main(["b", "a", "c", "c", "a"])
    'a'
    """
    counts = Counter(products)
    return min(counts, key=lambda product: (-counts[product], product))


def _counts(devices: Sequence[Device]) -> dict[str, str]:
    counts = Counter(joined(device.product) for device in devices)
    return {
        OWN + _key(f"gpu.{product}", "count").removeprefix("gpu."): str(counts[product])
        for product in sorted(counts)
    }


def _clique(devices: Sequence[Device]) -> dict[str, str]:
    """The clique of the node, where those of its devices that are in one are in the same."""
    cliques = {device.clique for device in devices if device.clique}
    return {"gpu.clique": shortened(sanitised(cliques.pop()))} if len(cliques) == 1 else {}


def _versions(inventory: Inventory) -> dict[str, str]:
    """Of driver and CUDA, also under deprecated names; nothing of what is no version."""
    labels: dict[str, str] = {}
    driver = _numbers(inventory.driver_version, 2, 3)
    if driver:
        major, minor, revision = (*driver, "")[:3]
        labels |= {
            "cuda.driver-version.full": inventory.driver_version,
            **_with_parts("cuda.driver-version", major=major, minor=minor, revision=revision),
            **_with_parts("cuda.driver", major=major, minor=minor, rev=revision),
        }
    runtime = _numbers(inventory.cuda_version, 2, 2)
    if runtime:
        major, minor = runtime
        labels |= {
            "cuda.runtime-version.full": inventory.cuda_version,
            **_with_parts("cuda.runtime-version", major=major, minor=minor),
            **_with_parts("cuda.runtime", major=major, minor=minor),
        }
    return labels


def _numbers(version: str, fewest: int, most: int) -> list[str]:
    """Its parts; none if it is not that many numbers.

    >>> _numbers("550.163.01", 2, 3), _numbers("r550", 2, 3)
    (['550', '163', '01'], [])
    """
    parts = version.split(".")
    sound = fewest <= len(parts) <= most and all(
        part.isascii() and part.isdigit() and len(part) < 10 for part in parts
    )
    return parts if sound else []


def _with_parts(key: str, **parts: str) -> Mapping[str, str]:
    return {f"{key}.{name}": part for name, part in parts.items()}


def _architecture(capability: str) -> dict[str, str]:
    parts = _numbers(capability, 2, 2)
    if not parts:
        return {}
    major, minor = int(parts[0]), int(parts[1])
    return {
        "gpu.family": family_of(major, minor),
        "gpu.compute.major": str(major),
        "gpu.compute.minor": str(minor),
    }


def family_of(major: int, minor: int) -> str:
    """The architecture of a compute capability.

    >>> family_of(8, 0), family_of(8, 9), family_of(7, 5), family_of(4, 2)
    ('ampere', 'ada-lovelace', 'turing', 'undefined')
    """
    if major == 7:
        return "volta" if minor < _TURING else "turing"
    if major == 8:
        return "ampere" if minor < _ADA else "ada-lovelace"
    return _FAMILIES.get(major, "undefined")


def _positive(key: str, number: int) -> dict[str, str]:
    return {key: str(number)} if number > 0 else {}


def _boolean(holds: bool) -> str:
    return "true" if holds else "false"
