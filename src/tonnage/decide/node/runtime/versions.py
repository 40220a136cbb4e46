"""Versions of kubelet and container runtimes: which know CDI devices, and which call NRI plugins."""

from __future__ import annotations

import re
from typing import Final

from tonnage.model.node.runtime_config import RuntimeConfig, RuntimeKind

_NUMBERS: Final = re.compile(r"(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")

CDI_NEEDS: Final = "containerd 1.7 or CRI-O 1.23 and newer"
NRI_NEEDS: Final = "containerd 1.7.30 and newer of 1.7, 2.1 and newer, or CRI-O 1.34 and newer"

Version = tuple[int, int, int]


def version_of(text: str) -> Version | None:
    """The first version in a text.

    >>> version_of("1.7.24~ds1-6"), version_of("v2.1.4-k3s1"), version_of("new")
    ((1, 7, 24), (2, 1, 4), None)
    """
    match = _NUMBERS.search(text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def runtime_kind(name: str) -> RuntimeKind | None:
    """The runtime that calls itself so.

    >>> runtime_kind("cri-o"), runtime_kind("docker")
    (<RuntimeKind.CRIO: 'cri-o'>, None)
    """
    lowered = name.lower()
    if "containerd" in lowered:
        return RuntimeKind.CONTAINERD
    return RuntimeKind.CRIO if lowered in ("cri-o", "crio") else None


def can_cdi(kind: RuntimeKind, version: Version) -> bool:
    """Whether it can inject CDI devices, by annotations at least.

    >>> can_cdi(RuntimeKind.CONTAINERD, (1, 6, 20)), can_cdi(RuntimeKind.CONTAINERD, (1, 7, 0))
    (False, True)
    """
    return version >= ((1, 7, 0) if kind is RuntimeKind.CONTAINERD else (1, 23, 0))


def kubelet_cdi(kind: RuntimeKind, version: Version) -> bool:
    """Whether it can inject CDI devices that kubelet names beside annotations, which CRI-O does from 1.28 on.

    >>> kubelet_cdi(RuntimeKind.CRIO, (1, 25, 0)), kubelet_cdi(RuntimeKind.CRIO, (1, 28, 0))
    (False, True)
    """
    return can_cdi(kind, version) and (kind is not RuntimeKind.CRIO or version >= (1, 28, 0))


def cdi_setting(config: RuntimeConfig, version: Version | None) -> bool | None:
    """What its files say of CDI to a runtime of that version; None if nothing.

    Source: containerd 1.7.30, `mergeConfig`: a later file's table of a plugin takes the place of an earlier
    one's. From 2.0 on they are merged.

    >>> cdi_setting(RuntimeConfig(RuntimeKind.CONTAINERD, cdi=True, cdi_replaced="conf.d/a.toml"), (1, 7, 24))
    """
    replaced = config.cdi_replaced and version is not None and version < (2, 0, 0)
    return None if replaced else config.cdi


def cdi_by_default(kind: RuntimeKind, version: Version) -> bool:
    """Whether it does so though nobody said that it should."""
    return version >= (2, 0, 0) if kind is RuntimeKind.CONTAINERD else can_cdi(kind, version)


def nri_by_default(kind: RuntimeKind, version: Version) -> bool:
    """Whether it calls NRI plugins though nobody said that it should."""
    return version >= (2, 0, 0) if kind is RuntimeKind.CONTAINERD else version >= (1, 30, 0)


def can_nri(kind: RuntimeKind, version: Version) -> bool:
    """Whether NVIDIA's NRI plugin is documented to work with it. Source: GPU operator 26.3 to 26.7.

    >>> can_nri(RuntimeKind.CONTAINERD, (1, 7, 24)), can_nri(RuntimeKind.CONTAINERD, (2, 0, 5))
    (False, False)
    """
    if kind is RuntimeKind.CRIO:
        return version >= (1, 34, 0)
    return (1, 7, 30) <= version < (2, 0, 0) or version >= (2, 1, 0)


def kubelet_names_cdi(version: Version) -> bool:
    """Whether kubelet hands on what a device plugin names in `cdi_devices`, as long as nobody forbids it.

    Source: KEP-4009: alpha in 1.28, beta and on by default in 1.29, stable in 1.31.
    """
    return version >= (1, 29, 0)
