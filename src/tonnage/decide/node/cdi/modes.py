"""CDI specs of what is on a node, whatever NVML says of it: for management, IMEX channels, other modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.decide.node.cdi.edits import ALL, common_edits, device_edits, plain_spec, spec_of
from tonnage.decide.node.cdi.hooks import NO_NODES
from tonnage.model.devices.cdi import CdiMode, CdiOptions, CdiSpec, DriverFiles
from tonnage.model.devices.device_nodes import EXTRA_NODES, IMEX_FOLDER, DeviceNodes
from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject
from tonnage.model.names import cdi_device
from tonnage.model.node.plugin_settings import ExtraDevice

_NOT_MANAGED: Final = ("/dev/nvidia-fs", "/dev/nvidia-nvswitch", "/dev/nvidia-nvlink")
_SWITCHES: Final = "/dev/nvidia-nvswitch"
_REMEDIES: Final[Mapping[CdiMode, str]] = {
    CdiMode.MANAGEMENT: "load the driver: nvidia-modprobe; then see tonnage doctor",
    CdiMode.IMEX: "create channels: nvidia-modprobe -i 0, or NVreg_CreateImexChannel0=1 for the module",
    CdiMode.NVSWITCH: "this is for machines with NVSwitch whose fabric manager runs in a container",
}


def mode_spec(mode: CdiMode, nodes: DeviceNodes, files: DriverFiles, options: CdiOptions) -> CdiSpec:
    """The spec of a mode other than NVML: `all` is every node of that sort, IMEX channels have numbers, too.

    For management it brings the driver's files as well: it is for programs that look after the driver.
    """
    there = sorted(nodes.own | nodes.driver)
    paths_by_name: dict[str, tuple[str, ...]] = {}
    match mode:
        case CdiMode.MANAGEMENT:
            paths_by_name[ALL] = tuple(path for path in there if not path.startswith(_NOT_MANAGED))
        case CdiMode.IMEX:
            paths_by_name = _channels(there)
        case CdiMode.NVSWITCH:
            paths_by_name[ALL] = tuple(path for path in there if path.startswith(_SWITCHES))
        case _:
            paths_by_name[ALL] = files.extras.get(ExtraDevice(mode), ())
    if not any(paths_by_name.values()):
        return spec_of(options.kind, [], {}, (_nothing(mode, options),))
    if mode is not CdiMode.MANAGEMENT:
        return plain_spec(options.kind, paths_by_name, nodes, options)
    device: JsonObject = {"name": ALL, "containerEdits": device_edits(paths_by_name[ALL], nodes, options)}
    disabled = (*options.disabled_hooks, NO_NODES)  # who looks after the driver may make nodes
    common = common_edits(files, nodes, replace(options, disabled_hooks=disabled))
    common.pop("deviceNodes", None)  # they are among all
    return spec_of(options.kind, [device], common, ())


def _channels(there: list[str]) -> dict[str, tuple[str, ...]]:
    """IMEX channels by number, and all of them."""
    before = f"{IMEX_FOLDER}/channel"
    numbers = [path.removeprefix(before) for path in there if path.startswith(before)]
    by_number = {number: (before + number,) for number in numbers if number.isdecimal()}
    return {**by_number, ALL: tuple(path for paths in by_number.values() for path in paths)}


def _nothing(mode: CdiMode, options: CdiOptions) -> Problem:
    patterns = {
        CdiMode.MANAGEMENT: ("/dev/nvidia*",),
        CdiMode.IMEX: (f"{IMEX_FOLDER}/channel*",),
        CdiMode.NVSWITCH: (f"{_SWITCHES}*",),
    }
    pattern = patterns.get(mode) or EXTRA_NODES[ExtraDevice(mode)]
    remedy = _REMEDIES.get(mode, "load its kernel module")
    return Problem(
        f"{cdi_device(ALL, options.kind)} would be empty", "", f"{' or '.join(pattern)} is missing", remedy
    )
