"""CDI specs: what a container runtime adds to a container for a device that the agent names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from tonnage.decide.node.access import CDI, capabilities_of
from tonnage.decide.node.cdi.edits import (
    ALL,
    common_edits,
    device_edits,
    host_path,
    nodes_scanned,
    plain_spec,
    spec_of,
)
from tonnage.decide.node.cdi.hooks import device_hooks
from tonnage.decide.node.cdi.modes import mode_spec
from tonnage.decide.node.cdi.rules import device_problems
from tonnage.decide.node.resource_units import index_of, parts_of
from tonnage.model.devices.cdi import CdiMode, CdiOptions, CdiSpec, DriverFiles, NameStrategy
from tonnage.model.devices.device_nodes import (
    CAPABILITY_FOLDER,
    EXTRA_NODES,
    IMEX_FOLDER,
    DeviceNodes,
)
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject
from tonnage.model.names import CDI_IMEX_KIND, CDI_MANAGEMENT_KIND, CDI_VENDOR, cdi_device
from tonnage.model.node.plugin_settings import NO_SOCKETS, ExtraDevice, MigStrategy

_MOST_NAMES: Final = 20


def cdi_specs(inventory: Inventory, files: DriverFiles, config: PluginConfig) -> tuple[CdiSpec, ...]:
    """A spec for each kind that the agent's answers may name, also those that have no device now."""
    options = options_of(config)
    folder, nodes = IMEX_FOLDER, inventory.nodes
    channels = {str(number): (f"{folder}/channel{number}",) for number in config.imex.channels}
    there = {name: paths for name, paths in channels.items() if host_path(paths[0], nodes, options)}
    extras = [_extra_spec(extra, files.extras.get(extra, ()), nodes, options) for extra in config.extras]
    return (gpu_spec(inventory, files, options), plain_spec(CDI_IMEX_KIND, there, nodes, options), *extras)


def management_spec(inventory: Inventory, files: DriverFiles, config: PluginConfig) -> CdiSpec:
    """Of every node of the driver, for what looks after it; no answer of the agent's names it."""
    options = replace(options_of(config), kind=CDI_MANAGEMENT_KIND)
    return mode_spec(CdiMode.MANAGEMENT, inventory.nodes, files, options)


def options_of(config: PluginConfig) -> CdiOptions:
    """How specs are made under a configuration."""
    return CdiOptions(
        driver_root=config.driver_root,
        dev_root=config.dev_root,
        disabled_hooks=config.cdi.disabled_hooks,
        divided=config.mig_strategy is MigStrategy.NONE,
        sockets=NO_SOCKETS not in config.cdi.feature_flags,
    )


def wants_cdi(config: PluginConfig) -> bool:
    """Whether containers are told devices by CDI names, alone or among other things."""
    return bool(CDI.intersection(config.device_list))


def gpu_spec(inventory: Inventory, files: DriverFiles, options: CdiOptions) -> CdiSpec:
    """A spec of whole devices and MIG devices by uuid, index (`0`, `1:0`) and type-index (`gpu0`, `mig1:0`).

    The options may want fewer. `all` is every one together. A device is left out, and the others are not,
    when one of its nodes is not there or a runtime would refuse it. The version is the oldest that has what
    is used. Where nobody looked for nodes (pretended devices) they count as there.
    """
    nodes, made, left_out = inventory.nodes, list[JsonObject](), list[Problem]()
    everything: list[str] = []
    for device, mig, names in _selected_devices(inventory, options):
        if not names:
            left_out.append(
                Problem(
                    f"device {device.index} is left out of the CDI spec", "", "another device has its names"
                )
            )
            continue
        paths, missing = _paths(device, mig, nodes, files, options)
        if missing:
            why = f"{missing} is missing"
            left_out.append(Problem(f"{names[0]} is left out of the CDI spec", "", why, "see tonnage doctor"))
            continue
        edits = _edits(paths, files, nodes, options)
        entries: list[JsonObject] = [{"name": name, "containerEdits": edits} for name in names]
        wrong = [problem for entry in entries for problem in device_problems(entry, names[0][:100])]
        if wrong:
            left_out.append(Problem(f"{names[0][:100]} is left out of the CDI spec", "", wrong[0].what))
            continue
        made += entries
        everything += paths
    left_out += _unknown(inventory, options)
    if made and options.together:
        edits = _edits(tuple(dict.fromkeys(everything)), files, nodes, options)
        made.append({"name": ALL, "containerEdits": edits})
    made.sort(key=lambda entry: str(entry["name"]))
    return spec_of(options.kind, made, common_edits(files, nodes, options), tuple(left_out))


def spec_bytes(document: JsonObject) -> bytes:
    """The file's content; the same for the same document."""
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"


def spec_file(kind: str) -> str:
    """The name of a kind's file.

    >>> spec_file("k8s.device-plugin.nvidia.com/gpu")
    'k8s.device-plugin.nvidia.com-gpu.json'
    """
    return f"{kind.replace('/', '-')}.json"


def _selected_devices(
    inventory: Inventory, options: CdiOptions
) -> Iterator[tuple[Device, MigDevice | None, tuple[str, ...]]]:
    """What is wanted, with its names, the uuid first; names that were given before are not given again."""
    used = {ALL}
    for device, mig in _units(inventory, options):
        named = _names_of(device, mig)
        names = [name for way, name in named.items() if way in options.names and name not in used]
        if not options.only or options.only.intersection((ALL, *named.values())):
            used.update(names)
            yield device, mig, tuple(dict.fromkeys(names))


def _units(inventory: Inventory, options: CdiOptions) -> Iterator[tuple[Device, MigDevice | None]]:
    """What can be named: MIG devices, and devices that are not divided into some."""
    for device in inventory.devices:
        if options.divided or not device.mig_enabled:
            yield device, None
    yield from parts_of(inventory)


def _names_of(device: Device, mig: MigDevice | None) -> dict[NameStrategy, str]:
    index = index_of(device, mig)
    return {
        NameStrategy.UUID: mig.uuid if mig else device.uuid,
        NameStrategy.INDEX: index,
        NameStrategy.TYPE_INDEX: f"{'mig' if mig else 'gpu'}{index}",
    }


def _unknown(inventory: Inventory, options: CdiOptions) -> Iterator[Problem]:
    """What is asked for by a name that nothing has."""
    names = [name for unit in _units(inventory, options) for name in _names_of(*unit).values()]
    for unknown in sorted(options.only.difference(names, (ALL,))):
        near = get_close_matches(unknown[:100], names, n=1)
        remedy = f"use {near[0]} if you meant that" if near else f"there are {', '.join(names[:_MOST_NAMES])}"
        yield Problem(f"no device is named {unknown[:100]}", remedy=remedy if names else "")


def _edits(paths: tuple[str, ...], files: DriverFiles, nodes: DeviceNodes, options: CdiOptions) -> JsonObject:
    edits, hooks = device_edits(paths, nodes, options), device_hooks(paths, files, options)
    return {**edits, "hooks": [*hooks]} if hooks else edits


def _paths(
    device: Device, mig: MigDevice | None, nodes: DeviceNodes, files: DriverFiles, options: CdiOptions
) -> tuple[tuple[str, ...], str]:
    """(nodes of a device as a container has them, what is missing of them)."""
    if device.minor is None:
        return (), f"the minor number of {device.uuid[:100]}"
    paths = [f"/dev/nvidia{device.minor}"]
    parts = (mig,) if mig else device.migs if device.mig_enabled else ()
    for part in parts:
        for name in capabilities_of(device, part):
            number = nodes.capabilities.get(name)
            if number is None and nodes_scanned(nodes):
                return (), f"the capability {name}"
            if number is not None:
                paths.append(f"{CAPABILITY_FOLDER}/nvidia-cap{number}")
    missing = next((path for path in paths if not host_path(path, nodes, options)), "")
    if mig is None or "gfx" in mig.profile:
        paths += files.render.get(_address(device.pci_bus_id), ())
    return tuple(dict.fromkeys(paths)), missing


def _extra_spec(
    extra: ExtraDevice, paths: tuple[str, ...], nodes: DeviceNodes, options: CdiOptions
) -> CdiSpec:
    """A spec of what containers get beside their GPUs. Asked for and not there, none of them gets a GPU."""
    kind = f"{CDI_VENDOR}/{extra.value}"
    if paths:
        return plain_spec(kind, {ALL: paths}, nodes, options)
    why = f"{extra.value}Enabled is true, but the node lacks {' or '.join(EXTRA_NODES[extra])}"
    remedy = f"load its kernel module, or set flags.{extra.value}Enabled: false for this node"
    return spec_of(kind, [], {}, (Problem(f"{cdi_device(ALL, kind)} is nothing", "", why, remedy),))


def _address(pci_bus_id: str) -> str:
    """A PCI address as the kernel writes it.

    >>> _address("00000000:8A:00.0")
    '0000:8a:00.0'
    """
    domain, _, rest = pci_bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"
