"""Pods that do not end by themselves, since a workload replaces them: what must be scaled down, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.name_lists import listed

_KEEPERS: Final = frozenset(
    {
        *("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet"),
        *("Rollout", "CloneSet", "LeaderWorkerSet", "RayCluster", "RayService", "Notebook"),
    }
)
"""Kinds that run their pods until they are scaled down or deleted."""
_HASHES: Final = {"pod-template-hash": "Deployment", "rollouts-pod-template-hash": "Rollout"}
"""Labels whose value ends the name of a ReplicaSet, and the kind that made it."""


def is_endless(pod: Pod) -> bool:
    """Whether a pod runs until its workload is scaled down or deleted."""
    owner = pod.owner
    timed = pod.status.terminating or pod.deadline_s is not None
    return owner is not None and owner.kind in _KEEPERS and not timed


def cannot_wait(among: Sequence[Pod], needed: int) -> bool:
    """Whether fewer pods than so many of these end by themselves."""
    return sum(map(is_endless, among)) > max(len(among), needed) - needed


def end_or_wait(pods_text: str, among: Sequence[Pod], needed: int) -> str:
    """What to do so that so many of the pods end; those that a workload replaces only end with it."""
    keepers = scaled_down(among)
    if cannot_wait(among, needed):
        return f"end {pods_text}{keepers}"
    return f"wait for {pods_text} to end, or end {'it' if needed == 1 else 'them'}{keepers}"


def scaled_down(pods: Iterable[Pod]) -> str:
    """In brackets, which workloads must be scaled down for pods to stay away; empty where none must."""
    keepers = list(dict.fromkeys(_keeper(pod) for pod in pods if is_endless(pod)))
    scaled = [f"{kind} {name}" for kind, name in keepers if kind != "DaemonSet"]
    elsewhere = [name for kind, name in keepers if kind == "DaemonSet"]
    parts = [f"scale down {listed(scaled)}"] if scaled else []
    parts += [f"keep DaemonSet {listed(elsewhere)} off the node"] if elsewhere else []
    return f" ({'; '.join(parts)})" if parts else ""


def _keeper(pod: Pod) -> tuple[str, str]:
    """The workload that people scale: of a ReplicaSet the one that made it."""
    assert pod.owner is not None
    for label, kind in _HASHES.items():
        suffix = f"-{pod.labels.get(label, '')}"
        if pod.owner.kind == "ReplicaSet" and suffix != "-" and pod.owner.name.endswith(suffix):
            return kind, pod.owner.name.removesuffix(suffix)
    return pod.owner.kind, pod.owner.name
