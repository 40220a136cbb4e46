"""Columns of pods and nodes, with the status that people read there.

Source: printPod and printNode, pkg/printers/internalversion/printers.go (v1.35).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, items, mapping, mappings, number, text
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.printers.columns import (
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Printer,
    age,
    age_column,
    duration,
    moment,
    name_of,
    wide,
)


@dataclass(slots=True)
class _Summary:
    """What a pod's containers add up to."""

    reason: str
    ready: int = 0
    restarts: int = 0
    sidecar_restarts: int = 0
    last_restart: datetime | None = None
    last_sidecar_restart: datetime | None = None

    def restarted(self, status: JsonObject, *, sidecar: bool = False) -> None:
        """Count a container's restarts and when the last one was."""
        self.restarts += number(status, "restartCount")
        ended = moment(text(status, "lastState", "terminated", "finishedAt"))
        self.last_restart = _later(self.last_restart, ended)
        if sidecar:
            self.sidecar_restarts += number(status, "restartCount")
            self.last_sidecar_restart = _later(self.last_sidecar_restart, ended)


def _later(first: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (first, other) if moment is not None), default=None)


def _pod(obj: JsonObject, now: datetime) -> list[JsonValue]:
    spec, status = mapping(obj, "spec"), mapping(obj, "status")
    sidecars = _sidecars(spec)
    summary = _summary(obj, spec, status, sidecars)
    total = len(items(spec, "containers")) + len(sidecars)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart is not None:
        restarts += f" ({duration((now - summary.last_restart).total_seconds())} ago)"
    return [
        name_of(obj),
        f"{summary.ready}/{total}",
        summary.reason,
        restarts,
        age(obj, now),
        text(status, "podIP") or NONE,
        text(spec, "nodeName") or NONE,
        text(status, "nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _summary(obj: JsonObject, spec: JsonObject, status: JsonObject, sidecars: set[str]) -> _Summary:
    phase = text(status, "phase")
    summary = _Summary(text(status, "reason") or phase)
    if any(
        text(condition, "type") == "PodScheduled" and text(condition, "reason") == "SchedulingGated"
        for condition in mappings(status, "conditions")
    ):
        summary.reason = "SchedulingGated"
    initializing = _initializing(spec, status, sidecars, summary)
    if not initializing or _condition(status, "Initialized"):
        summary.restarts, summary.last_restart = summary.sidecar_restarts, summary.last_sidecar_restart
        _main_containers(status, summary)
    if text(obj, "metadata", "deletionTimestamp"):
        if text(status, "reason") == "NodeLost":
            summary.reason = "Unknown"
        elif phase not in ("Succeeded", "Failed"):
            summary.reason = "Terminating"
    return summary


def _initializing(spec: JsonObject, status: JsonObject, sidecars: set[str], summary: _Summary) -> bool:
    """Whether an init container still runs; then the summary's reason says how far they are."""
    for index, container in enumerate(mappings(status, "initContainerStatuses")):
        sidecar = text(container, "name") in sidecars
        summary.restarted(container, sidecar=sidecar)
        state = mapping(container, "state")
        ended = at(state, "terminated")
        if ended is not None and number(ended, "exitCode") == 0:
            continue
        if sidecar and flag(container, "started"):
            summary.ready += flag(container, "ready")
            continue
        waiting = text(state, "waiting", "reason")
        if ended is not None:
            summary.reason = f"Init:{_ending(ended)}"
        elif waiting not in ("", "PodInitializing"):
            summary.reason = f"Init:{waiting}"
        else:
            summary.reason = f"Init:{index}/{len(items(spec, 'initContainers'))}"
        return True
    return False


def _main_containers(status: JsonObject, summary: _Summary) -> None:
    running = False
    for container in reversed(mappings(status, "containerStatuses")):
        summary.restarted(container)
        state = mapping(container, "state")
        waiting, ended = text(state, "waiting", "reason"), at(state, "terminated")
        if waiting:
            summary.reason = waiting
        elif ended is not None:
            summary.reason = _ending(ended)
        elif flag(container, "ready") and at(state, "running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed" and running:
        summary.reason = "Running" if _condition(status, "Ready") else "NotReady"


def _ending(ended: JsonValue) -> str:
    reason, signal = text(ended, "reason"), number(ended, "signal")
    return reason or (f"Signal:{signal}" if signal else f"ExitCode:{number(ended, 'exitCode')}")


def _sidecars(spec: JsonObject) -> set[str]:
    return {
        text(container, "name")
        for container in mappings(spec, "initContainers")
        if text(container, "restartPolicy") == "Always"
    }


def _condition(status: JsonObject, name: str) -> bool:
    return any(
        text(condition, "type") == name and text(condition, "status") == "True"
        for condition in mappings(status, "conditions")
    )


def _gates(spec: JsonObject, status: JsonObject) -> str:
    gates = [text(entry, "conditionType") for entry in mappings(spec, "readinessGates")]
    met = sum(_condition(status, gate) for gate in gates)
    return f"{met}/{len(gates)}" if gates else NONE


def _node(obj: JsonObject, now: datetime) -> list[JsonValue]:
    system = mapping(obj, "status", "nodeInfo")
    return [
        name_of(obj),
        _node_status(obj),
        _roles(mapping(obj, "metadata", "labels")),
        age(obj, now),
        text(system, "kubeletVersion"),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        *(text(system, key) or UNKNOWN for key in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _node_status(obj: JsonObject) -> str:
    ready = next(
        (
            condition
            for condition in mappings(obj, "status", "conditions")
            if text(condition, "type") == "Ready"
        ),
        None,
    )
    words = ["Unknown" if ready is None else "Ready" if text(ready, "status") == "True" else "NotReady"]
    if flag(obj, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(labels: JsonObject) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    named = text(labels, "kubernetes.io/role")
    return ",".join(sorted(roles | ({named} if named else set()))) or NONE


def _address(obj: JsonObject, kind: str) -> str:
    addresses = mappings(obj, "status", "addresses")
    return next((text(address, "address") for address in addresses if text(address, "type") == kind), NONE)


PODS: Final[dict[Resource, Printer]] = {
    ("", "pods"): Printer(
        (
            NAME,
            Column("Ready", description="Containers that are ready, of all."),
            Column("Status", description="Where the pod stands."),
            Column("Restarts", description="Restarts of the pod's containers, and the last one."),
            age_column(),
            *wide("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        _pod,
    )
}
NODES: Final[dict[Resource, Printer]] = {
    ("", "nodes"): Printer(
        (
            NAME,
            Column("Status", description="Whether the node is ready, and takes pods."),
            Column("Roles", description="The node's roles."),
            age_column(),
            Column("Version", description="The kubelet's version."),
            *wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    )
}
