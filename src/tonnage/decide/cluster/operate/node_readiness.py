"""Whether a GPU node is ready, and if not, which part is waited for and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from tonnage.decide.cluster.operate.claimed_devices import serves_claims
from tonnage.decide.cluster.operate.operand_labels import PRESENT, has_gpu
from tonnage.model.devices.inventory import FABRIC_COMPLETE
from tonnage.model.gpu_policy import OperatedNode
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.node.gpu_status import SILENT_AFTER, GpuStatus
from tonnage.model.validation import NodeStage, NodeValidation, Outcome

_DEVICES: Final = ("nvidia.com/gpu", "nvidia.com/mig-")
_MACHINE: Final = "kubernetes.io/arch"
_USUAL: Final = "amd64"


class NodePart(StrEnum):
    """The parts of a node in the order in which one needs the other."""

    AGENT = "agent"
    DRIVER = "driver"
    CONFIGURATION = "configuration"
    PLUGIN = "device plugin"
    WORKLOAD = "workload"


@dataclass(frozen=True, slots=True)
class NodeReadiness:
    """`waits_for` None: the node is ready. `why` is a sentence about the part, `remedy` what to do."""

    node: str
    waits_for: NodePart | None = None
    why: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.node}: {self.why}" if self.waits_for else f"{self.node}: ready"


def readiness(node: OperatedNode, now: datetime, *, validated: bool = True) -> NodeReadiness:
    """What the node waits for first; with `validated`, for the workload too where one is tried."""
    report = node.report
    if report is None:
        return _unreported(node)
    if report.heartbeat is not None and now - report.heartbeat > SILENT_AFTER:
        minutes = int((now - report.heartbeat).total_seconds() // 60)
        why = f"its agent has been silent for {minutes} minutes"
        return NodeReadiness(node.name, NodePart.AGENT, why, f"look at its pod: {_agent_pod(node.name)}")
    if not report.devices and has_gpu(node.labels, None) is False:
        why = f"its PCI bus shows no GPU, though its label {PRESENT}=true says so"
        remedy = f"where there is none: kubectl label node {node.name} {PRESENT}-"
        return NodeReadiness(node.name, NodePart.DRIVER, why, remedy)
    if not report.devices:
        why = report.problems[0] if report.problems else "its agent sees no device"
        return NodeReadiness(node.name, NodePart.DRIVER, why, f"run: kubectl gpu doctor --node {node.name}")
    if fabric := _unjoined(report):
        remedy = f"on {node.name}, in the driver's version: systemctl status nvidia-fabricmanager"
        return NodeReadiness(node.name, NodePart.DRIVER, fabric, remedy)
    refused = next((p for p in report.problems if p.startswith("configuration refused")), "")
    if refused:
        return NodeReadiness(node.name, NodePart.CONFIGURATION, refused, "correct the configuration")
    counted = any(count and name.startswith(_DEVICES) for name, count in node.allocatable.items())
    if not counted and not serves_claims(report):
        unhealthy = [device.reason for device in report.devices if not device.healthy]
        why = f"no device is healthy: {unhealthy[0]}" if unhealthy else "kubelet offers no device yet"
        if report.claims is not None and report.claims.why:
            why = f"its agent serves no claims: {report.claims.why}"
        return NodeReadiness(node.name, NodePart.PLUGIN, why, f"run: kubectl gpu explain node {node.name}")
    return _of_workload(node.name, report.validation) if validated else NodeReadiness(node.name)


def _unreported(node: OperatedNode) -> NodeReadiness:
    """Where the image may be built for other machines, that is said first: its pod cannot run at all then."""
    why, remedy = "no agent has reported yet", f"look at its pod: {_agent_pod(node.name)}"
    machine = node.labels.get(_MACHINE, _USUAL)
    if machine != _USUAL:
        why = f"{why}, and the node is {machine}"
        built = f"have image.repository serve an image built for {machine}, too"
        remedy = f"{built}, or keep agents off by the chart's nodeSelector; {remedy}"
    return NodeReadiness(node.name, NodePart.AGENT, why, remedy)


def _unjoined(report: GpuStatus) -> str:
    """Which GPUs Fabric Manager has not set up, and since when; MIG devices compute without it."""
    waiting = {
        device.index: device.fabric
        for device in report.devices
        if device.fabric not in ("", FABRIC_COMPLETE) and not device.parts
    }
    if not waiting:
        return ""
    indices = ", ".join(map(str, waiting))
    state = "failed" if "failed" in waiting.values() else next(iter(waiting.values()))
    since = f" since {timestamp(report.fabric_waits_since)}" if report.fabric_waits_since else ""
    return f"the NVLink fabric is not set up for GPUs {indices}: {state}{since}"


def _of_workload(node: str, validation: NodeValidation) -> NodeReadiness:
    workload = validation.of(NodeStage.WORKLOAD)
    if not validation.stages or workload.outcome in (Outcome.PASSED, Outcome.SKIPPED):
        return NodeReadiness(node)
    why = workload.message or "no workload has used its devices yet"
    remedy = f"run: kubectl gpu doctor --node {node}" if workload.outcome is Outcome.FAILED else ""
    return NodeReadiness(node, NodePart.WORKLOAD, why, remedy)


def gpu_nodes(nodes: Iterable[OperatedNode]) -> list[OperatedNode]:
    """Those with GPUs, by name: somebody has seen one, or a label says so."""
    ours = (
        node for node in nodes if has_gpu(node.labels, node.devices) or node.labels.get(PRESENT) == "true"
    )
    return sorted(ours, key=lambda node: node.name)


def _agent_pod(node: str) -> str:
    selectors = f"-l app.kubernetes.io/name=tonnage-agent --field-selector spec.nodeName={node}"
    return f"kubectl get pods -A {selectors} -o wide"
