"""Nodes that change hands, and the Deployment of NVIDIA's operator, as model values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from tonnage.model.adoption import (
    NOTE,
    WAITS_FLAG,
    AdoptionFacts,
    AgentPod,
    OperatorDeployment,
    note_from,
    parts_of,
)
from tonnage.model.json_access import mappings, number, text, texts
from tonnage.model.node.gpu_status import SILENT_AFTER, GpuStatus
from tonnage.model.operands import DEPLOY, OPERAND_LABEL, OPERANDS
from tonnage.reading.gpu_policy import operated_node_from
from tonnage.wire.objects import Deployment, Node, NodeGPUStatus, Pod

_VENDOR: Final = "nvidia.com/"
_PLUGIN: Final = OPERANDS["device-plugin"].daemon_set
_AGENT: Final = ["tonnage", "node"]


def adoption_facts_from(
    node: Node, report: NodeGPUStatus | None, pods: Iterable[Pod], now: datetime
) -> AdoptionFacts:
    """A node with the pods on it: its agent's, and those of NVIDIA's operands."""
    operated = operated_node_from(node, report)
    fresh = operated.report
    if fresh is not None and (fresh.heartbeat is None or now - fresh.heartbeat > SILENT_AFTER):
        fresh = None
    running = [pod for pod in pods if pod.status.phase not in ("Failed", "Succeeded")]
    agent = next(filter(None, map(_agent, running)), None)
    note = note_from(noted := node.metadata.annotations.get(NOTE, ""))
    if note is not None:
        parts = frozenset(key.removeprefix(DEPLOY) for key in note.labels)
    else:
        parts = agent.parts if agent is not None else frozenset({"device-plugin"})
    apps = {OPERANDS[part].daemon_set for part in parts if part in OPERANDS}
    theirs = [pod for pod in running if _app(pod) in apps]
    plugins = [pod for pod in theirs if _app(pod) == _PLUGIN]
    return AdoptionFacts(
        node=operated.name,
        version=node.metadata.resource_version,
        labels=operated.labels,
        note=noted,
        cordoned=node.spec.unschedulable,
        moment=now,
        allocatable={name: count for name, count in operated.allocatable.items() if name.startswith(_VENDOR)},
        agent=agent,
        report_devices=len(fresh.devices) if fresh is not None else None,
        offers=frozenset(_offers(fresh)) if fresh is not None else frozenset(),
        listed=frozenset(_listed(report)) if fresh is not None and report is not None else frozenset(),
        served=_served(report) if fresh is not None and report is not None else {},
        plugin_pods=tuple(sorted(pod.metadata.name for pod in theirs)),
        plugin_ready=any(_is_ready(pod) for pod in plugins),
        plugin_namespace=next((pod.metadata.namespace for pod in plugins), ""),
    )


def _offers(report: GpuStatus) -> Iterator[tuple[str, str]]:
    """Resource and UUID of each healthy device, or of its MIG devices where those are offered."""
    for device in report.devices:
        parts = [part for part in device.parts if part.resource]
        if not parts and device.resource and device.healthy:
            yield device.resource, device.uuid
        yield from ((part.resource, part.uuid) for part in parts if part.healthy)


def _listed(report: NodeGPUStatus) -> Iterator[tuple[str, str]]:
    for devices in mappings(report.status, "kubeletDevices"):
        for uuid in texts(devices, "uuids"):
            yield text(devices, "resource"), uuid


def _served(report: NodeGPUStatus) -> dict[str, int]:
    shown = mappings(report.status, "resources")
    amounts = {text(resource, "name"): number(resource, "allocatable") for resource in shown}
    return {name: amount for name, amount in amounts.items() if amount}


def operator_deployment_from(deployment: Deployment, pods: int) -> OperatorDeployment:
    """The Deployment, with the number of its pods that are there."""
    metadata = deployment.metadata
    return OperatorDeployment(
        *(metadata.namespace, metadata.name, metadata.resource_version, deployment.spec.replicas),
        *(metadata.labels, metadata.annotations, pods),
    )


def _agent(pod: Pod) -> AgentPod | None:
    container = next((c for c in pod.spec.containers if [*c.command, *c.args][:2] == _AGENT), None)
    if container is None or "--exporter-only" in container.args:
        return None
    arguments = [*container.command, *container.args]
    return AgentPod(_is_ready(pod), WAITS_FLAG in arguments, parts_of(arguments))


def _app(pod: Pod) -> str:
    """NVIDIA's DaemonSet that the pod is of; empty: of none, or of ours by that name."""
    labels = pod.metadata.labels
    return "" if OPERAND_LABEL in labels else labels.get("app", "")


def _is_ready(pod: Pod) -> bool:
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return ready and not pod.metadata.deletion_timestamp
