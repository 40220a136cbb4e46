"""Which container runtime a node has, and which of them call NRI plugins."""

from __future__ import annotations

from typing import Final

from tonnage.decide.node.runtime_versions import Version, runtime_kind
from tonnage.model.node_facts import ClusterFacts, RuntimeFacts
from tonnage.model.runtime_config import RuntimeKind

NRI_NEEDS: Final = "containerd 1.7.30 and newer of 1.7, 2.1 and newer, or CRI-O 1.34 and newer"


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


def can_nri(kind: RuntimeKind, version: Version) -> bool:
    """Whether NVIDIA's NRI plugin is documented to work with it. Source: GPU operator 26.3 to 26.7.

    >>> can_nri(RuntimeKind.CONTAINERD, (1, 7, 24)), can_nri(RuntimeKind.CONTAINERD, (2, 0, 5))
    (False, False)
    """
    if kind is RuntimeKind.CRIO:
        return version >= (1, 34, 0)
    return (1, 7, 30) <= version < (2, 0, 0) or version >= (2, 1, 0)
