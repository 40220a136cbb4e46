"""What a node runs below the GPUs' agent: its kubelet and its container runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tonnage.model.drivers.node import HostSystem

UNKNOWN: Final = "unknown"
"""Of a version or a policy that nobody tells; the reason stands beside it."""


class Switch(StrEnum):
    """Whether something is switched on."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RuntimeInventory:
    """The container runtime; `cdi_reason` and `nri_reason` say why, or what is missing to tell."""

    name: str = UNKNOWN
    version: str = UNKNOWN
    cdi: Switch = Switch.UNKNOWN
    cdi_reason: str = ""
    nri: Switch = Switch.UNKNOWN
    nri_reason: str = ""


@dataclass(frozen=True, slots=True)
class KubeletPolicies:
    """How kubelet places containers, in its own words (`single-numa-node`, `Static`), else `UNKNOWN`.

    `sources` are the files that say so; `reason` is why one is unknown or not what its configuration says.
    """

    topology_manager: str = UNKNOWN
    topology_scope: str = UNKNOWN
    cpu_manager: str = UNKNOWN
    memory_manager: str = UNKNOWN
    sources: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeSoftware:
    """Both together."""

    runtime: RuntimeInventory = field(default_factory=RuntimeInventory)
    kubelet_version: str = UNKNOWN
    policies: KubeletPolicies = field(default_factory=KubeletPolicies)
    host: HostSystem | None = None
    """None: nobody has looked yet."""
