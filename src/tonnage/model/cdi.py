"""What a CDI spec is made from, and what one that was made says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject
from tonnage.model.names import CDI_GPU_KIND, CDI_MANAGEMENT_KIND, CDI_NVIDIA_KIND
from tonnage.model.plugin_settings import ExtraDevice

DRIVER_ROOTS: Final = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia", "/usr/local/nvidia")
"""Where a driver is installed: on the host, by NVIDIA's driver container, by clouds' nodes."""


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
    address (`0000:17:00.0`), `extras` those of devices beside GPUs. `hook` is the hooks' program on the host,
    empty where there is none. `problems` say what a container goes without.
    """

    libraries: tuple[DriverFile, ...] = ()
    programs: tuple[DriverFile, ...] = ()
    data: tuple[DriverFile, ...] = ()
    sockets: tuple[DriverFile, ...] = ()
    cuda_folder: str = ""
    render: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extras: Mapping[ExtraDevice, tuple[str, ...]] = field(default_factory=dict)
    hook: str = ""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CdiOptions:
    """How a spec is made. `driver_root` and `dev_root` are the host's paths; see PluginConfig.

    `divided`: devices with MIG enabled are named as a whole, too, which reaches all of their parts.
    `sockets`: containers get those of the driver's daemons.
    """

    kind: str = CDI_GPU_KIND
    driver_root: str = "/"
    dev_root: str = "/"
    disabled_hooks: tuple[str, ...] = ()
    divided: bool = False
    sockets: bool = True


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """A spec and the unqualified names of its devices; `document` is None when it would have no device.

    `left_out` are devices that are not in it, each with the reason.
    """

    kind: str
    document: JsonObject | None
    names: frozenset[str] = frozenset()
    left_out: tuple[Problem, ...] = ()
