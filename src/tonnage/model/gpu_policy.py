"""NVIDIA's ClusterPolicy (nvidia.com/v1) as the controller reads it: what is honoured, and its status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from tonnage.model.json import JsonObject
from tonnage.model.node.gpu_status import GpuStatus


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
class SeenConfigMap:
    """A ConfigMap: its contents, and of what it is a copy; empty: of nothing."""

    namespace: str
    name: str
    contents: Mapping[str, str]
    source: str = ""

    @property
    def path(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class FieldWithoutEffect:
    """A field that the policy sets and that changes nothing here, by its path with dots, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandSettings:
    """What DaemonSets are to be: which `parts` have one, and what `daemonsets` says of all of them.

    `dcgm` is the section of that name as far as it counts; None: it is not asked for.
    """

    parts: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[JsonObject, ...] = ()
    priority_class: str = "system-node-critical"
    update_strategy: JsonObject = field(default_factory=dict)
    dcgm: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class GpuPolicy:
    """A policy: when it was made decides which of several counts. `status` is what stands there now."""

    name: str
    uid: str = ""
    generation: int = 0
    created: datetime | None = None
    sandboxes: bool = False
    default_workload: str = "container"
    sandbox_mode: str = "kubevirt"
    plugin_config: ConfigMapChoice = ConfigMapChoice()
    mig_strategy: str = ""
    mig_config: ConfigMapChoice = ConfigMapChoice()
    counters: ConfigMapChoice = ConfigMapChoice()
    """Of device metrics."""
    runtime_classes: tuple[str, ...] = ()
    operands: OperandSettings = OperandSettings()
    without_effect: tuple[FieldWithoutEffect, ...] = ()
    status: JsonObject = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class GpuClusterPolicy:
    """A GPUCluster: NVIDIA's policy for claims. `status` is what stands there now."""

    name: str
    generation: int = 0
    without_effect: tuple[FieldWithoutEffect, ...] = ()
    status: JsonObject = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class OperatedNode:
    """A node as the controller sees it: its labels, what it has to give, and its agent's report."""

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    report: GpuStatus | None = None
    boot: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def devices(self) -> int | None:
        """How many devices its agent reports; None: it has not."""
        return None if self.report is None else len(self.report.devices)


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A pod that failed; `devices` are the amounts of extended resources that it asks for."""

    namespace: str
    name: str
    node: str
    reason: str
    message: str
    devices: Mapping[str, int]
    controller: str = ""
    """The kind of what made it; empty: somebody by hand."""
    leaving: bool = False
