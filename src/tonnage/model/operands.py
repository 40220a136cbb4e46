"""NVIDIA's operands by the names that people type, and the part of the agent that does the work of each.

Source: NVIDIA/gpu-operator, assets/state-*/0*_daemonset.yaml (v26.7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tonnage.model.json import JsonObject, JsonValue

OPERAND_LABEL: Final = "tonnage.dev/operand"
"""On DaemonSets and pods that follow a part of the agent: the part."""
NODE_POD: Final = "workload"
"""Of pods that the controller runs once at nodes."""
APPLIED_HASH: Final = "tonnage.dev/applied-hash"
"""Annotation: what the object was made of, so that nothing is written that stands already."""
DEPLOY: Final = "nvidia.com/gpu.deploy."
"""Before the name of an operand: the label of nodes on which NVIDIA's operator runs it."""
PARTS_OFF: Final = "tonnage.dev/parts-off"
"""Annotation of a Node: parts that a ClusterPolicy or a label switched off there, with commas."""
ADOPTED: Final = "tonnage.dev/adopted"
"""Label of a Node: `true` where agents that wait for it have taken over from NVIDIA's operands."""
SWITCHED: Final = ("device-plugin", "gpu-feature-discovery", "mig-manager", "dcgm-exporter")
"""Parts that an agent stops when they are switched off."""
OPERAND_LOGS: Final = "/run/tonnage/operands"
"""On the host, the folder of each part: its `log`, and `ready` as long as it is."""
LOG_FILE: Final = "log"
READY_FILE: Final = "ready"
VALIDATIONS: Final = "/run/nvidia/validations"
"""On the host, the status files that NVIDIA's operands and users' init containers wait for."""


@dataclass(frozen=True, slots=True)
class SeenObject:
    """An object that is there: `part` is empty where it is another's, `digest` what ours was made of.

    `template` is that of a DaemonSet's pods, as somebody has written it last; empty: not known. `handler` is
    that of a RuntimeClass.
    """

    name: str
    uid: str
    part: str = ""
    digest: str = ""
    template: JsonObject = field(default_factory=dict, repr=False)
    handler: str = ""


@dataclass(frozen=True, slots=True)
class OperandImage:
    """What operands' pods run, and the Secrets of their namespace with which it is pulled."""

    path: str
    pull_secrets: tuple[str, ...] = ()

    def pull_fields(self) -> JsonObject:
        """The fields of a pod that say so."""
        secrets: list[JsonValue] = [{"name": name} for name in self.pull_secrets]
        return {"imagePullSecrets": secrets} if secrets else {}


@dataclass(frozen=True, slots=True)
class Operand:
    """`part` is the end of the label nvidia.com/gpu.deploy.*, `section` that of the ClusterPolicy.

    `daemon_set` is the value of the label `app`, too. `modules` are those below `tonnage` whose lines its log
    has, the part's own loop first.
    """

    part: str
    section: str
    daemon_set: str
    container: str
    modules: tuple[str, ...]


_ALL: Final = (
    Operand(
        "container-toolkit",
        "toolkit",
        "nvidia-container-toolkit-daemonset",
        "nvidia-container-toolkit-ctr",
        ("agent.cdi", "adapters.cdi"),
    ),
    Operand(
        "operator-validator",
        "validator",
        "nvidia-operator-validator",
        "nvidia-operator-validator",
        ("agent.operands",),
    ),
    Operand(
        "device-plugin",
        "devicePlugin",
        "nvidia-device-plugin-daemonset",
        "nvidia-device-plugin",
        ("agent.plugin", "agent.config", "agent.mps", "agent.devices", "adapters.kubelet"),
    ),
    Operand(
        "dcgm-exporter", "dcgmExporter", "nvidia-dcgm-exporter", "nvidia-dcgm-exporter", ("agent.exporter",)
    ),
    Operand(
        "gpu-feature-discovery", "gfd", "gpu-feature-discovery", "gpu-feature-discovery", ("agent.labels",)
    ),
    Operand("mig-manager", "migManager", "nvidia-mig-manager", "nvidia-mig-manager", ("agent.mig",)),
    Operand(
        "node-status-exporter",
        "nodeStatusExporter",
        "nvidia-node-status-exporter",
        "nvidia-node-status-exporter",
        ("agent.status",),
    ),
)
OPERANDS: Final[Mapping[str, Operand]] = MappingProxyType({operand.part: operand for operand in _ALL})
"""By part, in the order in which NVIDIA's operator makes them."""
DCGM: Final = Operand("dcgm", "dcgm", "nvidia-dcgm", "nvidia-dcgm-ctr", ())
"""Its pods run NVIDIA's own image, where a policy asks for it: no part of an agent is like it."""
