"""CDI specs: what a container runtime adds to a container for a device that the agent names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tonnage.decide.node.access import CDI, capabilities_of
from tonnage.decide.node.cdi_rules import device_problems, minimum_version
from tonnage.decide.node.units import index_of, parts_of
from tonnage.model.cdi import CdiOptions, CdiSpec, DriverFile, DriverFiles
from tonnage.model.device_nodes import (
    CAPABILITY_FOLDER,
    CONTROL_NODES,
    EXTRA_NODES,
    IMEX_FOLDER,
    DeviceNodes,
)
from tonnage.model.devices import Device, Inventory, MigDevice
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import CDI_IMEX_KIND, CDI_VENDOR, cdi_device
from tonnage.model.plugin_settings import NO_SOCKETS, ExtraDevice, MigStrategy
from tonnage.model.sharing import PluginConfig

ALL: Final = "all"
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_HIDDEN: Final = "NVIDIA_VISIBLE_DEVICES=void"
"""Keeps NVIDIA's own runtime, where it is the default one, from adding what the image asks for."""


def cdi_specs(inventory: Inventory, files: DriverFiles, config: PluginConfig) -> tuple[CdiSpec, ...]:
    """A spec for each kind that the agent's answers may name, also those that have no device now."""
    options = CdiOptions(
        driver_root=config.driver_root,
        dev_root=config.dev_root,
        disabled_hooks=config.cdi.disabled_hooks,
        divided=config.mig_strategy is MigStrategy.NONE,
        sockets=NO_SOCKETS not in config.cdi.feature_flags,
    )
    folder, nodes = IMEX_FOLDER, inventory.nodes
    channels = {str(number): (f"{folder}/channel{number}",) for number in config.imex.channels}
    there = {name: paths for name, paths in channels.items() if _host_path(paths[0], nodes, options)}
    extras = [_extra_spec(extra, files.extras.get(extra, ()), nodes, options) for extra in config.extras]
    return (gpu_spec(inventory, files, options), _plain_spec(CDI_IMEX_KIND, there, nodes, options), *extras)


def wants_cdi(config: PluginConfig) -> bool:
    """Whether containers are told devices by CDI names, alone or among other things."""
    return bool(CDI.intersection(config.device_list))


def gpu_spec(inventory: Inventory, files: DriverFiles, options: CdiOptions) -> CdiSpec:
    """A spec of whole devices and MIG devices by uuid, index (`0`, `1:0`) and type-index (`gpu0`, `mig1:0`).

    `all` is every one together. A device is left out, and the others are not, when one of its nodes is not
    there or a runtime would refuse it. The version is the oldest that has what is used. Where nobody looked
    for nodes (pretended devices) they count as there.
    """
    nodes, made, left_out = inventory.nodes, list[JsonObject](), list[Problem]()
    everything: list[str] = []
    for device, mig, names in _named(inventory, options):
        if not names:
            left_out.append(
                Problem(f"device {device.index} is left out of the CDI spec", "", "its names are another's")
            )
            continue
        paths, missing = _paths(device, mig, nodes, files, options)
        if missing:
            why = f"{missing} is not there"
            left_out.append(Problem(f"{names[0]} is left out of the CDI spec", "", why, "see tonnage doctor"))
            continue
        edits = _device_edits(paths, nodes, options)
        entries: list[JsonObject] = [{"name": name, "containerEdits": edits} for name in names]
        wrong = [problem for entry in entries for problem in device_problems(entry, names[0][:100])]
        if wrong:
            left_out.append(Problem(f"{names[0][:100]} is left out of the CDI spec", "", wrong[0].what))
            continue
        made += entries
        everything += paths
    if made:
        edits = _device_edits(tuple(dict.fromkeys(everything)), nodes, options)
        made.append({"name": ALL, "containerEdits": edits})
    made.sort(key=lambda entry: str(entry["name"]))
    return _spec(options.kind, made, _common_edits(files, nodes, options), tuple(left_out))


def spec_bytes(document: JsonObject) -> bytes:
    """The file's content; the same for the same document."""
    return json.dumps(document, indent=1, ensure_ascii=True).encode() + b"\n"


def spec_file(kind: str) -> str:
    """The name of a kind's file.

    >>> spec_file("k8s.device-plugin.nvidia.com/gpu")
    'k8s.device-plugin.nvidia.com-gpu.json'
    """
    return f"{kind.replace('/', '-')}.json"


def _named(
    inventory: Inventory, options: CdiOptions
) -> Iterator[tuple[Device, MigDevice | None, tuple[str, ...]]]:
    """What can be named, with its names, the uuid first; names that were given before are not given again."""
    given = {ALL}
    units: list[tuple[Device, MigDevice | None]] = [
        (device, None) for device in inventory.devices if options.divided or not device.mig_enabled
    ]
    for device, mig in (*units, *parts_of(inventory)):
        index = index_of(device, mig)
        uuid = mig.uuid if mig else device.uuid
        names = [name for name in (uuid, index, f"{'mig' if mig else 'gpu'}{index}") if name not in given]
        given.update(names)
        yield device, mig, tuple(dict.fromkeys(names))


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
            if number is None and _seen(nodes):
                return (), f"the capability {name}"
            if number is not None:
                paths.append(f"{CAPABILITY_FOLDER}/nvidia-cap{number}")
    missing = next((path for path in paths if not _host_path(path, nodes, options)), "")
    if mig is None:
        paths += files.render.get(_address(device.pci_bus_id), ())
    return tuple(dict.fromkeys(paths)), missing


def _seen(nodes: DeviceNodes) -> bool:
    """Whether somebody looked for nodes."""
    return bool(nodes.own or nodes.driver)


def _host_path(path: str, nodes: DeviceNodes, options: CdiOptions) -> str:
    """Where a node lies on the host, empty when nowhere: the driver's own, if its /dev is another."""
    if options.dev_root != "/" and path in nodes.driver:
        return options.dev_root.rstrip("/") + path
    there = path in nodes.own or (options.dev_root == "/" and path in nodes.driver) or not _seen(nodes)
    return path if there or not path.startswith("/dev/nvidia") else ""


def _device_edits(paths: Iterable[str], nodes: DeviceNodes, options: CdiOptions) -> JsonObject:
    return {"deviceNodes": [_node(path, nodes, options) for path in paths]}


def _node(path: str, nodes: DeviceNodes, options: CdiOptions) -> JsonObject:
    host = _host_path(path, nodes, options)
    return {"path": path} if host in ("", path) else {"path": path, "hostPath": host}


def _common_edits(files: DriverFiles, nodes: DeviceNodes, options: CdiOptions) -> JsonObject:
    """What every container gets. Without hooks a variable leads to the libraries, under all their names."""
    folders = sorted({file.path.rpartition("/")[0] for file in files.libraries})
    hooks = list(_hooks(files, folders, options))
    env = [f"NVIDIA_CTK_LIBCUDA_DIR={files.cuda_folder}"] if files.cuda_folder else []
    if folders and not hooks:
        env.append(f"LD_LIBRARY_PATH={':'.join(folders)}")
    mounts = [
        _mount(file.path, file, _READ_ONLY, options)
        for file in (*files.libraries, *files.programs, *files.data)
    ]
    if not hooks:
        mounts += [_mount(name, file, _READ_ONLY, options) for file in files.libraries for name in file.names]
    if options.sockets:
        mounts += [_mount(file.path, file, (*_READ_ONLY, "noexec"), options) for file in files.sockets]
    once = {str(mount["containerPath"]): mount for mount in reversed(mounts)}
    control = [path for path in CONTROL_NODES if path in nodes.own or path in nodes.driver]
    edits: JsonObject = {
        "env": [*env, _HIDDEN],
        "deviceNodes": [_node(path, nodes, options) for path in control],
        "mounts": [once[path] for path in sorted(once)],
        "hooks": [*hooks],
    }
    return {key: value for key, value in edits.items() if value}


def _mount(path: str, file: DriverFile, how: Sequence[str], options: CdiOptions) -> JsonObject:
    return {"hostPath": options.driver_root.rstrip("/") + file.real, "containerPath": path, "options": [*how]}


def _hooks(files: DriverFiles, folders: Sequence[str], options: CdiOptions) -> Iterator[JsonObject]:
    """Links beside the libraries and the loader's cache, by what every version of the program knows."""
    links = [
        argument
        for file in files.libraries
        for name in file.names
        for argument in ("--link", f"{file.path.rpartition('/')[2]}::{name}")
    ]
    caches = [argument for folder in folders for argument in ("--folder", folder)]
    if not files.hook or ALL in options.disabled_hooks:
        return
    program = files.hook.rpartition("/")[2]
    words = [program, "hook"] if program == "nvidia-ctk" else [program]
    for hook, arguments in (("create-symlinks", links), ("update-ldcache", caches)):
        if arguments and hook not in options.disabled_hooks:
            args: list[JsonValue] = [*words, hook, *arguments]
            yield {"hookName": "createContainer", "path": files.hook, "args": args}


def _extra_spec(
    extra: ExtraDevice, paths: tuple[str, ...], nodes: DeviceNodes, options: CdiOptions
) -> CdiSpec:
    """A spec of what containers get beside their GPUs. Asked for and not there, none of them gets a GPU."""
    kind = f"{CDI_VENDOR}/{extra.value}"
    if paths:
        return _plain_spec(kind, {ALL: paths}, nodes, options)
    why = f"{extra.value}Enabled is true and there is no {' or '.join(EXTRA_NODES[extra])}"
    remedy = f"load its kernel module, or set flags.{extra.value}Enabled: false for this node"
    return _spec(kind, [], {}, (Problem(f"{cdi_device(ALL, kind)} is nothing", "", why, remedy),))


def _plain_spec(
    kind: str, nodes_of: Mapping[str, tuple[str, ...]], nodes: DeviceNodes, options: CdiOptions
) -> CdiSpec:
    """A spec of devices that are nothing but nodes; those without any are not in it."""
    devices: list[JsonObject] = [
        {"name": name, "containerEdits": _device_edits(paths, nodes, options)}
        for name, paths in sorted(nodes_of.items())
        if paths
    ]
    return _spec(kind, devices, {"env": [_HIDDEN]}, ())


def _spec(kind: str, devices: list[JsonObject], edits: JsonObject, left_out: tuple[Problem, ...]) -> CdiSpec:
    if not devices:
        return CdiSpec(kind, None, left_out=left_out)
    document: JsonObject = {"cdiVersion": "", "kind": kind, "devices": [*devices], "containerEdits": edits}
    document["cdiVersion"] = minimum_version(document)
    return CdiSpec(kind, document, frozenset(str(device["name"]) for device in devices), left_out)


def _address(pci_bus_id: str) -> str:
    """A PCI address as the kernel writes it.

    >>> _address("00000000:8A:00.0")
    '0000:8a:00.0'
    """
    domain, _, rest = pci_bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"
