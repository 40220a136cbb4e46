"""What the fields of a device-plugin configuration must not say together, and what no node can do yet."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.documents.device_plugin.paths import path_problems
from tonnage.documents.device_plugin.schema import (
    DevicePluginConfig,
    PluginFlagsSection,
    ReplicatedResource,
    ReplicatedResources,
)
from tonnage.documents.yaml.reader import MarkedDocument, Path
from tonnage.model.devices.mps import MOST_MPS_CLIENTS
from tonnage.model.errors import Problem
from tonnage.model.names import GPU, MIG_PREFIX, SHARED_SUFFIX, ResourceName, parse_resource_name
from tonnage.model.node.plugin_settings import DRIVER_ROOT_IN_CONTAINER, MigStrategy, SharingKind

MPS_ROOT_MISSING = "using MPS requires --mps-root to be specified"
"""Both charts can give the folder by a flag instead, so a text alone cannot tell whether it is missing."""
_LATER = "not supported by this version of Tonnage"


def chosen_block(document: DevicePluginConfig) -> tuple[SharingKind, ReplicatedResources | None]:
    """How devices are shared; with both given, the one that NVIDIA's plugin would take."""
    sharing = document.sharing
    if sharing.mps is not None:
        return SharingKind.MPS, sharing.mps
    return SharingKind.TIME_SLICING, sharing.time_slicing


def offered_name(entry: ReplicatedResource, block: ReplicatedResources) -> ResourceName:
    """What the entry's replicas are called. Raises ValueError when the suffix makes it too long."""
    if entry.rename:
        return ResourceName(entry.rename)
    return (
        parse_resource_name(entry.name + SHARED_SUFFIX)
        if block.rename_by_default
        else ResourceName(entry.name)
    )


def problems_of(document: DevicePluginConfig, located: MarkedDocument, *, lenient: bool) -> Iterator[Problem]:
    """Every contradiction, and every setting that is understood and cannot be followed."""
    yield from _unsupported(document.flags, located)
    yield from path_problems(document.flags, located)
    sharing, flags = document.sharing, document.flags
    kind, block = chosen_block(document)
    at: Path = ("sharing", kind.value)
    if sharing.mps is not None and sharing.time_slicing is not None and not lenient:
        yield Problem("timeSlicing and mps cannot be combined", located.where(at), remedy="keep one of them")
    if block is None:
        return
    if kind is SharingKind.MPS:
        yield from _mps_problems(flags, block, located)
    if not block.resources:
        remedy = "name a resource, or leave sharing out for exclusive use"
        yield Problem("no resources specified", located.where((*at, "resources")), remedy=remedy)
    yield from _EntryRules(document, block, located, (*at, "resources")).problems()


def _unsupported(flags: PluginFlagsSection, located: MarkedDocument) -> Iterator[Problem]:
    """A setting that is known but would have no effect is refused rather than ignored."""
    if flags.device_discovery_strategy not in ("auto", "nvml"):
        where = located.where(("flags", "deviceDiscoveryStrategy"))
        problem = f"Tonnage finds no devices by {flags.device_discovery_strategy}"
        remedy = "use auto, and leave such nodes to NVIDIA's own programs"
        yield Problem(
            problem, where, "Tonnage offers the GPUs that NVML shows, each with its device node", remedy
        )
    root: Path = ("flags", "plugin", "containerDriverRoot")
    if flags.plugin.container_driver_root != DRIVER_ROOT_IN_CONTAINER and root not in located.elsewhere:
        why = "the agent reads the driver's root at its start only"
        remedy = "leave it out, and give the agent --driver-root-ctr-path"
        yield Problem(
            "the driver root of a running agent cannot be changed", located.where(root), why, remedy
        )


def _mps_problems(
    flags: PluginFlagsSection, block: ReplicatedResources, located: MarkedDocument
) -> Iterator[Problem]:
    """What MPS cannot do on any node; what depends on the devices is found where they are shared."""
    at: Path = ("sharing", "mps")
    if flags.mig_strategy == MigStrategy.MIXED:
        yield Problem(
            "using --mig-strategy=mixed is not supported with MPS",
            located.where(("flags", "migStrategy")),
            remedy="use timeSlicing, or migStrategy: none",
        )
    if not flags.mps_root:
        yield Problem(
            MPS_ROOT_MISSING,
            located.where(at),
            remedy="set flags.mpsRoot, such as /run/nvidia/mps, or mps.root of the chart (--mps-root)",
        )
    for index, entry in enumerate(block.resources):
        where: Path = (*at, "resources", index)
        if entry.replicas > MOST_MPS_CLIENTS:
            problem = "invalid MPS configuration: invalid device maximum allowed replicas exceeded"
            yield Problem(
                f"{problem}: {entry.replicas} > {MOST_MPS_CLIENTS}",
                located.where((*where, "replicas")),
                "an MPS server has 48 clients at most, 16 on devices of compute capability below 7.5",
                f"ask for at most {MOST_MPS_CLIENTS}, or use timeSlicing",
            )
        for device in entry.devices if isinstance(entry.devices, list) else []:
            if ":" in str(device) or str(device).startswith("MIG-"):
                yield Problem(
                    f"sharing using MPS is not supported for MIG devices: {str(device)[:100]}",
                    located.where((*where, "devices")),
                    remedy="select whole devices, or use timeSlicing",
                )


class _EntryRules:
    """The rules for the entries of a sharing section, which depend on one another and on devices' names."""

    def __init__(
        self, document: DevicePluginConfig, block: ReplicatedResources, located: MarkedDocument, base: Path
    ) -> None:
        self._block = block
        self._located = located
        self._base = base
        self._strategy = MigStrategy(document.flags.mig_strategy)
        self._names = self._names_of(document)
        self._offered: dict[str, int] = {}
        self._exhausted: dict[str, int] = {}

    def problems(self) -> Iterator[Problem]:
        for index, entry in enumerate(self._block.resources):
            yield from self._entry(entry, (*self._base, index), index)

    def _names_of(self, document: DevicePluginConfig) -> set[str]:
        """Names that devices have before they are shared, apart from those of MIG profiles."""
        gpu_names, mig = document.resources.gpus, document.resources.mig
        names = {rule.name for rule in gpu_names}
        if not any(rule.pattern == "*" for rule in gpu_names):
            names.add(GPU)
        if self._strategy is not MigStrategy.NONE:
            names |= {rule.name for rule in mig}
        if self._strategy is MigStrategy.SINGLE and not any(rule.pattern == "*" for rule in mig):
            names.add(GPU)
        return names

    def _is_resource(self, name: str) -> bool:
        mixed = self._strategy is MigStrategy.MIXED and name.startswith(MIG_PREFIX)
        return mixed or name in self._names

    def _entry(self, entry: ReplicatedResource, path: Path, index: int) -> Iterator[Problem]:
        where = self._located.where
        try:
            offered = offered_name(entry, self._block)
        except ValueError as error:
            yield Problem(str(error), where((*path, "name")), remedy="give it a shorter rename")
            return
        if not self._is_resource(entry.name):
            yield Problem(
                f"{entry.name} is no resource of this node", where((*path, "name")), *self._others(entry)
            )
            return
        if entry.name in self._exhausted:
            why = f"entry {self._exhausted[entry.name]} takes every device of {entry.name}"
            yield Problem(
                "no device is left for this entry",
                where(path),
                why,
                "select some of the devices in that entry",
            )
        if entry.devices == "all":
            self._exhausted.setdefault(entry.name, index)
        if offered in self._offered:
            at = where((*path, "rename" if entry.rename else "name"))
            why = f"entry {self._offered[offered]} offers it too"
            yield Problem(f"{offered} is offered twice", at, why, "give one of them a rename")
        self._offered.setdefault(offered, index)
        partly = entry.devices != "all" and offered == entry.name
        own = offered in (entry.name, entry.name + SHARED_SUFFIX)
        if partly or (self._is_resource(offered) and not own):
            yield Problem(
                f"shared and exclusive devices would both be named {offered}",
                where((*path, "devices" if partly else "rename")),
                "a pod could get either",
                "set rename, or renameByDefault: true" if partly else "choose another name",
            )

    def _others(self, entry: ReplicatedResource) -> tuple[str, str]:
        """(why a name is none of the node's, what to do)."""
        if entry.name.startswith(MIG_PREFIX) and self._strategy is not MigStrategy.MIXED:
            return f"flags.migStrategy is {self._strategy}", "set flags.migStrategy: mixed"
        return "", f"share {', '.join(sorted(self._names)[:10])}"
