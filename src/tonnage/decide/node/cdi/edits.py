"""The parts of CDI specs: what a device adds to a container, and what all of them do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tonnage.decide.node.cdi.hooks import common_hooks, finds_libraries
from tonnage.decide.node.cdi.rules import minimum_version
from tonnage.model.devices.cdi import CdiOptions, CdiSpec, DriverFile, DriverFiles
from tonnage.model.devices.device_nodes import CONTROL_NODES, DeviceNodes
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject

ALL: Final = "all"
_READ_ONLY: Final = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_HIDDEN: Final = "NVIDIA_VISIBLE_DEVICES=void"
"""Keeps NVIDIA's own runtime, where it is the default one, from adding what the image asks for."""


def nodes_scanned(nodes: DeviceNodes) -> bool:
    """Whether somebody looked for nodes."""
    return bool(nodes.own or nodes.driver)


def host_path(path: str, nodes: DeviceNodes, options: CdiOptions) -> str:
    """Where a node lies on the host, empty when nowhere: the driver's own, if its /dev is another."""
    if options.dev_root != "/" and path in nodes.driver:
        return options.dev_root.rstrip("/") + path
    there = (
        path in nodes.own or (options.dev_root == "/" and path in nodes.driver) or not nodes_scanned(nodes)
    )
    return path if there or not path.startswith("/dev/nvidia") else ""


def device_edits(paths: Iterable[str], nodes: DeviceNodes, options: CdiOptions) -> JsonObject:
    return {"deviceNodes": [_node(path, nodes, options) for path in paths]}


def _node(path: str, nodes: DeviceNodes, options: CdiOptions) -> JsonObject:
    host = host_path(path, nodes, options)
    return {"path": path} if host in ("", path) else {"path": path, "hostPath": host}


def common_edits(files: DriverFiles, nodes: DeviceNodes, options: CdiOptions) -> JsonObject:
    """What every container gets. Without hooks a variable leads to the libraries, under all their names."""
    folders = sorted({file.path.rpartition("/")[0] for file in files.libraries})
    hooks = common_hooks(files, folders, options)
    ldconfig_hook = finds_libraries(hooks)
    env = [f"NVIDIA_CTK_LIBCUDA_DIR={files.cuda_folder}"] if files.cuda_folder else []
    if folders and not ldconfig_hook:
        env.append(f"LD_LIBRARY_PATH={':'.join(folders)}")
    mounts = [
        _mount(file.path, file, _READ_ONLY, options)
        for file in (*files.libraries, *files.programs, *files.data_files)
    ]
    if not ldconfig_hook:
        named = (*files.libraries, *files.data_files)
        mounts += [_mount(name, file, _READ_ONLY, options) for file in named for name in file.names]
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


def plain_spec(
    kind: str, nodes_of: Mapping[str, tuple[str, ...]], nodes: DeviceNodes, options: CdiOptions
) -> CdiSpec:
    """A spec of devices that are nothing but nodes; those without any are not in it."""
    devices: list[JsonObject] = [
        {"name": name, "containerEdits": device_edits(paths, nodes, options)}
        for name, paths in sorted(nodes_of.items())
        if paths
    ]
    return spec_of(kind, devices, {"env": [_HIDDEN]}, ())


def spec_of(
    kind: str, devices: list[JsonObject], edits: JsonObject, left_out: tuple[Problem, ...]
) -> CdiSpec:
    if not devices:
        return CdiSpec(kind, None, left_out=left_out)
    document: JsonObject = {"cdiVersion": "", "kind": kind, "devices": [*devices], "containerEdits": edits}
    document["cdiVersion"] = minimum_version(document)
    return CdiSpec(kind, document, frozenset(str(device["name"]) for device in devices), left_out)
