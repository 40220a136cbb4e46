"""What a device-plugin configuration may decide beside sharing, setting by setting."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tonnage.model.json import JsonValue
from tonnage.model.names import ResourceName

DRIVER_ROOT_IN_CONTAINER: Final = "/driver-root"
"""Where the driver's files are mounted for the agent, unless it is told otherwise."""


FALLBACKS: Final = ("named", "empty")
"""How a node without the label gets its configuration, in order: `named`, `single` or `empty`."""


class MigStrategy(StrEnum):
    """NONE: whole devices only. SINGLE: one kind of device for a node, under the name of whole ones.

    MIXED: each MIG profile is a resource of its own.
    """

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class SharingKind(StrEnum):
    """How containers share a device: in turns, or at the same time through a control daemon."""

    TIME_SLICING = "timeSlicing"
    MPS = "mps"


class ExtraDevice(StrEnum):
    """What a container may get beside its GPUs. The value is a CDI class, in capitals a variable's ending."""

    GDRCOPY = "gdrcopy"
    GDS = "gds"
    MOFED = "mofed"


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Devices whose product or MIG profile fits `pattern` (`*` for any text) are offered as `name`."""

    pattern: str
    name: ResourceName


@dataclass(frozen=True, slots=True)
class ImexSettings:
    """IMEX channels that every container gets. When `required`, no device is given without them."""

    channels: tuple[int, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class CdiSettings:
    """How CDI devices are named in annotations, and what their specs are made with."""

    annotation_prefix: str = "cdi.k8s.io/"
    hook_path: str = "/usr/bin/nvidia-ctk"
    feature_flags: tuple[str, ...] = ()
    disabled_hooks: tuple[str, ...] = ()


NO_SOCKETS: Final = "disable-ipc-discoverer"
CDI_FEATURES: Final = (
    NO_SOCKETS,
    "disable-nvsandboxutils",
    "disable-multiple-csv-devices",
    "no-additional-gids-for-device-nodes",
)
"""Features of CDI specs that may be asked for. All but the first forbid what Tonnage's specs never have."""
CDI_HOOKS: Final = (
    "all",
    "create-symlinks",
    "update-ldcache",
    "enable-cuda-compat",
    "disable-device-node-modification",
    "update-application-profile",
    "create-soname-symlinks",
    "chmod",
)
"""Hooks of CDI specs that may be left out. Tonnage's specs never have the last two.

Source: NVIDIA/nvidia-container-toolkit v1.20, internal/discover/hooks.go and pkg/nvcdi/api.go.
"""


class LabelPlace(StrEnum):
    """Where a node's labels are published: on its Node, or by node feature discovery (FILE, OBJECT)."""

    NONE = "none"
    DIRECT = "direct"
    FILE = "nfd-file"
    OBJECT = "nfd-object"


@dataclass(frozen=True, slots=True)
class FeatureSettings:
    """How the node's labels are kept. `interval_s` None: worked out once and never again.

    `output_file` empty: standard output. `use_api`: what the configuration says of NodeFeatures, if anything.
    """

    oneshot: bool = False
    timestamp: bool = True
    interval_s: float | None = 60.0
    output_file: str = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
    machine_type_file: str = "/sys/class/dmi/id/product_name"
    use_api: bool | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """A value that wins over the document's at `path`; `where` names the flag or variable it is from."""

    path: tuple[str, ...]
    value: JsonValue
    where: str
