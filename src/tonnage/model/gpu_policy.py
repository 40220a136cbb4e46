"""NVIDIA's ClusterPolicy (nvidia.com/v1) as the controller reads it: what is honoured, and its status."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tonnage.model.json import JsonObject


class PolicyState(StrEnum):
    """`status.state`, in NVIDIA's words."""

    IGNORED = "ignored"
    READY = "ready"
    NOT_READY = "notReady"


@dataclass(frozen=True, slots=True)
class ConfigMapChoice:
    """A ConfigMap of the operator's namespace, and the key for nodes without a label; empty: none."""

    name: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True)
class FieldWithoutEffect:
    """A field that the policy sets and that changes nothing here, by its path with dots, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class GpuPolicy:
    """A policy: when it was made decides which of several counts. `status` is what stands there now."""

    name: str
    generation: int = 0
    created: datetime | None = None
    sandboxes: bool = False
    default_workload: str = "container"
    sandbox_mode: str = "kubevirt"
    plugin_config: ConfigMapChoice = ConfigMapChoice()
    without_effect: tuple[FieldWithoutEffect, ...] = ()
    status: JsonObject = field(default_factory=dict, repr=False)
