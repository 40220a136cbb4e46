"""Which container runtime a node has."""

from __future__ import annotations

from tonnage.decide.node.runtime.versions import runtime_kind
from tonnage.model.node.facts import ClusterFacts, RuntimeFacts
from tonnage.model.node.runtime_config import RuntimeKind


def runtime_of(facts: RuntimeFacts, cluster: ClusterFacts | None) -> tuple[RuntimeKind | None, str]:
    """(kubelet's runtime, its version): as it says itself, the Node says, its package; empty if none does."""
    if facts.name:
        return runtime_kind(facts.name), facts.version
    name, _, version = (cluster.runtime if cluster is not None else "").partition("://")
    if version:
        return runtime_kind(name), version
    kinds = {config.kind for config in facts.configs}
    packages = {
        RuntimeKind.CONTAINERD: facts.packages.get("containerd") or facts.packages.get("containerd.io", ""),
        RuntimeKind.CRIO: facts.packages.get("cri-o", ""),
    }
    installed = [kind for kind in RuntimeKind if kind in kinds or packages[kind]]
    if len(installed) != 1:
        return None, ""
    return installed[0], packages[installed[0]]
