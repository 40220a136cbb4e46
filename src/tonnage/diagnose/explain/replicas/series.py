"""The pods that a manifest makes: how many, their names, and in which turns they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.kubernetes.admission.chain import admission_of
from tonnage.decide.kubernetes.view import ClusterView, as_kept
from tonnage.diagnose.explain.nodes.daemon_pods import daemon_nodes, daemon_pod
from tonnage.model.kubernetes.cluster import Manifest, Pod, PodStatus

ENDING: Final = ("Job", "CronJob", "Pod")
"""Kinds whose pods end, so that a pod that waits for its siblings gets its turn."""
_NEW: Final = PodStatus()


@dataclass(frozen=True, slots=True)
class PodSeries:
    """The pods of a manifest. `pod` is what admission lets in; `nodes`: of a DaemonSet, one for each pod."""

    manifest: Manifest
    kind: str
    pod: Pod
    count: int
    nodes: tuple[str, ...] | None = None

    @property
    def ends(self) -> bool:
        """Whether its pods end by themselves. Most of custom kinds wait for each other to start."""
        pods = self.manifest.pod_set
        return self.kind in ENDING if pods is None else pods.independent

    def name(self, index: int) -> str:
        """What a pod is called; `-new-` stands where the API server makes up a name."""
        name = self.manifest.name or "pod"
        if self.kind == "Pod":
            return name
        if self.manifest.pod_set is not None:
            return self.manifest.pod_set.name(index)
        if self.nodes is not None:
            return f"{name}-on-{self.nodes[index]}"
        return f"{name}-{index}" if self.kind == "StatefulSet" else f"{name}-new-{index}"

    def names(self, start: int, end: int) -> Iterator[str]:
        """The names of some of its pods in turn."""
        return (self.name(index) for index in range(start, end))

    def at(self, index: int) -> Pod:
        """One of its pods, before it has a node."""
        return replace(self.pod, name=self.name(index), uid="", created=None, node_name="", status=_NEW)


def series_of(manifest: Manifest, view: ClusterView) -> PodSeries:
    """The pods of a manifest in a cluster, with what admission gives them."""
    kind = manifest.kind.split(".")[0]
    admitted = admission_of(manifest, view.snapshot, minor=view.profile.minor).manifest
    pod = as_kept(admitted.pod, view.profile)
    if kind != "DaemonSet":
        return PodSeries(manifest, kind, pod, 1 if kind == "Pod" else manifest.replicas)
    nodes = tuple(daemon_nodes(pod, view))
    return PodSeries(manifest, kind, daemon_pod(pod), len(nodes), nodes)
