"""What a CDI spec is made from, and what one that was made says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject
from tonnage.model.names import CDI_GPU_KIND, CDI_MANAGEMENT_KIND, CDI_NVIDIA_KIND
from tonnage.model.node.plugin_settings import ExtraDevice

DRIVER_ROOTS: Final = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia", "/usr/local/nvidia")
"""Where a driver is installed: on the host, by NVIDIA's driver container, by clouds' nodes."""


LATER_HOOKS: Final = ("enable-cuda-compat", "disable-device-node-modification", "update-application-profile")
"""Hooks that older programs for them do not know, which then let no container start.

Source: NVIDIA/nvidia-container-toolkit: v1.17.8 has the first alone, v1.20 all three.
"""


class NameStrategy(StrEnum):
    """How devices are named, as NVIDIA's toolkit has it: `0` and `1:0`, by uuid, `gpu0` and `mig1:0`."""

    INDEX = "index"
    UUID = "uuid"
    TYPE_INDEX = "type-index"


class CdiMode(StrEnum):
    """What a spec is of, in the words of NVIDIA's toolkit. NVML: devices by name; else `all` there is."""

    NVML = "nvml"
    MANAGEMENT = "management"
    IMEX = "imex"
    GDS = "gds"
    MOFED = "mofed"
    GDRCOPY = "gdrcopy"
    NVSWITCH = "nvswitch"

    @property
    def kind(self) -> str:
        """The kind that NVIDIA's programs ask for."""
        kinds = {
            "nvml": CDI_NVIDIA_KIND,
            "management": CDI_MANAGEMENT_KIND,
            "imex": "nvidia.com/imex-channel",
        }
        return kinds.get(self, f"nvidia.com/{self}")


@dataclass(frozen=True, slots=True)
class DriverFile:
    """A file of the driver. `path` is where a container has it, `real` where it lies below the driver's root.

    `names` are further paths, links beside it, that lead to it.
    """

    path: str
    real: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """What was found below a driver's root, each in the order of paths.

    `cuda_folder` has CUDA's library, empty when it was not found. `render` are paths of graphics nodes by PCI
    address (`0000:17:00.0`), `by_path` the links that lead to them by address, by node. `extras` are nodes of
    devices beside GPUs. `hook` is the hooks' program on the host, empty where there is none, and `hooks` what
    it knows of LATER_HOOKS. `version` is the driver's, empty where nothing tells. `problems` say what a
    container goes without.
    """

    libraries: tuple[DriverFile, ...] = ()
    programs: tuple[DriverFile, ...] = ()
    data_files: tuple[DriverFile, ...] = ()
    sockets: tuple[DriverFile, ...] = ()
    cuda_folder: str = ""
    render: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extras: Mapping[ExtraDevice, tuple[str, ...]] = field(default_factory=dict)
    hook: str = ""
    hooks: frozenset[str] = frozenset()
    by_path: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CdiOptions:
    """How a spec is made. `driver_root` and `dev_root` are the host's paths; see PluginConfig.

    `divided`: devices with MIG enabled are named as a whole, too, which reaches all of their parts.
    `sockets`: containers get those of the driver's daemons. `names` are the ways in which devices are named;
    `only`, unless empty, names those that are wanted, in any of these ways. `together`: there is `all`, too.
    `ldconfig` is that program on the host, empty for the usual one.
    """

    kind: str = CDI_GPU_KIND
    driver_root: str = "/"
    dev_root: str = "/"
    disabled_hooks: tuple[str, ...] = ()
    divided: bool = False
    sockets: bool = True
    names: frozenset[NameStrategy] = frozenset(NameStrategy)
    only: frozenset[str] = frozenset()
    together: bool = True
    ldconfig: str = ""


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """A spec and the unqualified names of its devices; `document` is None when it would have no device.

    `left_out` are devices that are not in it, each with the reason.
    """

    kind: str
    document: JsonObject | None
    names: frozenset[str] = frozenset()
    left_out: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class SpecFile:
    """What lies at `path`, which should be a CDI spec. `content` is None where it cannot be read: `problems`.

    `named`: a person asks for this file, not for its folder. A folder with more than is looked at is one of
    these, too, with the number of entries that are `left_out`. `leads_to` is the end of a link out of the
    folders of specs.
    """

    path: str
    folder: str
    content: bytes | None = None
    problems: tuple[Problem, ...] = ()
    named: bool = False
    left_out: int = 0
    leads_to: str = ""


@dataclass(frozen=True, slots=True)
class SpecVerdict:
    """Why runtimes refuse a spec; `remarks` are what they take, and a person should look at.

    `unreadable`: somebody named it, and nobody could look.
    """

    path: str
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    unreadable: bool = False
