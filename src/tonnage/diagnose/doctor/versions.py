"""Versions of container runtimes, and what each can do."""

from __future__ import annotations

import re
from typing import Final

from tonnage.model.node_facts import ClusterFacts, RuntimeFacts
from tonnage.model.runtime_config import RuntimeKind

_NUMBERS: Final = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")

CDI_NEEDS: Final = "containerd 1.7 or CRI-O 1.23 and newer"
NRI_NEEDS: Final = "containerd 1.7.30 and newer of 1.7, 2.1 and newer, or CRI-O 1.34 and newer"

Version = tuple[int, int, int]


def version_of(text: str) -> Version | None:
    """The first version in a text.

    >>> version_of("1.7.24~ds1-6"), version_of("v2.1.4-k3s1"), version_of("new")
    ((1, 7, 24), (2, 1, 4), None)
    """
    found = _NUMBERS.search(text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def runtime_of(facts: RuntimeFacts, cluster: ClusterFacts | None) -> tuple[RuntimeKind | None, str]:
    """(kubelet's runtime, its version): as it says itself, the Node says, its package; empty if none does."""
    if facts.name:
        return _kind(facts.name), facts.version
    name, _, version = (cluster.runtime if cluster is not None else "").partition("://")
    if version:
        return _kind(name), version
    kinds = {config.kind for config in facts.configs}
    packages = {
        RuntimeKind.CONTAINERD: facts.packages.get("containerd") or facts.packages.get("containerd.io", ""),
        RuntimeKind.CRIO: facts.packages.get("cri-o", ""),
    }
    installed = [kind for kind in RuntimeKind if kind in kinds or packages[kind]]
    if len(installed) != 1:
        return None, ""
    return installed[0], packages[installed[0]]


def _kind(name: str) -> RuntimeKind | None:
    lowered = name.lower()
    if "containerd" in lowered:
        return RuntimeKind.CONTAINERD
    return RuntimeKind.CRIO if lowered in ("cri-o", "crio") else None


def can_cdi(kind: RuntimeKind, version: Version) -> bool:
    """Whether it can inject CDI devices that kubelet names.

    >>> can_cdi(RuntimeKind.CONTAINERD, (1, 6, 20)), can_cdi(RuntimeKind.CONTAINERD, (1, 7, 0))
    (False, True)
    """
    return version >= ((1, 7, 0) if kind is RuntimeKind.CONTAINERD else (1, 23, 0))


def cdi_by_default(kind: RuntimeKind, version: Version) -> bool:
    """Whether it does so though nobody said that it should."""
    return version >= (2, 0, 0) if kind is RuntimeKind.CONTAINERD else can_cdi(kind, version)


def can_nri(kind: RuntimeKind, version: Version) -> bool:
    """Whether NVIDIA's NRI plugin is documented to work with it. Source: GPU operator 26.3 to 26.7.

    >>> can_nri(RuntimeKind.CONTAINERD, (1, 7, 24)), can_nri(RuntimeKind.CONTAINERD, (2, 0, 5))
    (False, False)
    """
    if kind is RuntimeKind.CRIO:
        return version >= (1, 34, 0)
    return (1, 7, 30) <= version < (2, 0, 0) or version >= (2, 1, 0)


def nri_by_default(kind: RuntimeKind, version: Version) -> bool:
    """Whether it calls NRI plugins though nobody said that it should."""
    return version >= (2, 0, 0) if kind is RuntimeKind.CONTAINERD else version >= (1, 30, 0)
