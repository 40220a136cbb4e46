"""Pods that would be made again, were they to end: those of the workload that is asked about."""

from __future__ import annotations

from typing import Final

from tonnage.model.kubernetes.cluster import Manifest, Pod, Snapshot
from tonnage.model.kubernetes.workloads import WorkloadKey

_DEEPEST: Final = 4
_ONCE: Final = ("Job", "CronJob")
"""Kinds whose pods come to an end of their own, after which no other takes their place."""


def kept_pods(manifest: Manifest, snapshot: Snapshot) -> frozenset[str]:
    """Names of the pods that the workload of a manifest, or what made it, keeps up."""
    namespace = manifest.pod.namespace
    above = {workload.key: workload.owner for workload in snapshot.workloads if workload.owner is not None}
    root = _root(WorkloadKey(manifest.kind.split(".")[0], namespace, manifest.name), above)
    if root.kind in (*_ONCE, "Pod"):
        return frozenset()
    return frozenset(
        pod.name
        for pod in snapshot.pods
        if pod.namespace == namespace
        and pod.owner is not None
        and _root(WorkloadKey(pod.owner.kind, namespace, pod.owner.name), above) == root
    )


def is_remade(holder: Pod, pod: Pod) -> bool:
    """Whether a pod is of the workload of another, which would make it again, were it to end."""
    owner = holder.owner
    return owner is not None and owner == pod.owner and owner.kind not in _ONCE


def _root(key: WorkloadKey, above: dict[WorkloadKey, WorkloadKey]) -> WorkloadKey:
    for _ in range(_DEEPEST):
        if key not in above:
            break
        key = above[key]
    return key
