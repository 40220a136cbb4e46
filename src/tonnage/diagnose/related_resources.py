"""Which names of resources stand for the same kind of device: shared, cut by MIG, or misspelt."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.devices.claims import OTHER_CLASSES, OWN_CLASSES
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.mig.profile_names import ProfileName, parse_profile
from tonnage.model.names import MIG_PREFIX, SHARED_SUFFIX

_MOST_CLASSES: Final = 8
_NEAR: Final = 0.85
"""How alike two names are, of 1, for the one to be a slip of the pen: a letter or two."""


def related_names(resource: str, view: ClusterView) -> dict[str, tuple[str, ...]]:
    """Resources of the same vendor that stand for the same kind of device, and the nodes that offer them."""
    nodes_by_name: dict[str, list[str]] = {}
    related: dict[str, bool] = {}
    for name, node in view.nodes.items():
        for other, amount in node.node.allocatable.items():
            if other not in related:
                related[other] = _is_related(other, resource)
            if related[other] and amount > 0:
                nodes_by_name.setdefault(other, []).append(name)
    return {other: tuple(nodes) for other, nodes in sorted(nodes_by_name.items())}


def related_on(node: Node, resource: str) -> tuple[str, ...]:
    """The related resources of which a node has any."""
    offered = (name for name, amount in node.allocatable.items() if amount > 0)
    return tuple(sorted(name for name in offered if _is_related(name, resource)))


def misspelt(resource: str, offered: Iterable[str]) -> str:
    """The name on offer that is meant where a device's is written almost so; empty when none is near.

    >>> misspelt("nvdia.com/gpus", ["cpu", "nvidia.com/gpu"])
    'nvidia.com/gpu'
    """
    names = [name for name in offered if "/" in name and name != resource]
    return next(iter(get_close_matches(resource.lower(), names, n=1, cutoff=_NEAR)), "")


def class_remedy(name: str, classes: Iterable[str]) -> str:
    """What to do about a DeviceClass that does not exist beside others.

    >>> class_remedy("gpu.nvidia.con", ["gpu.nvidia.com"])
    'use gpu.nvidia.com if you meant that'
    """
    there = sorted(classes)
    if name in OTHER_CLASSES:
        return f"install the driver of NVIDIA's that brings it: {OTHER_CLASSES[name]}"
    near = [] if name in OWN_CLASSES else get_close_matches(name, there, n=1)
    if near:
        return f"use {near[0]} if you meant that"
    if there and name not in OWN_CLASSES:
        return f"create the DeviceClass {name}, or use {_one_of(there[:_MOST_CLASSES])}"
    made = "the driver's chart makes its classes, Tonnage's with claims.enabled"
    return f"create the DeviceClass {name}; {made}"


def _one_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"one of: {', '.join(names)}"


def is_same_device(name: str, other: str) -> bool:
    """Whether two names differ only by sharing.

    >>> is_same_device("nvidia.com/gpu", "nvidia.com/gpu.shared")
    True
    """
    return name != other and name.removesuffix(SHARED_SUFFIX) == other.removesuffix(SHARED_SUFFIX)


def profile_of(resource: str) -> ProfileName | None:
    """The MIG profile that a resource is named after, or None.

    >>> str(profile_of("nvidia.com/mig-1g.10gb.me")), profile_of("nvidia.com/gpu")
    ('1g.10gb+me', None)
    """
    name, _, engines = resource.removeprefix(MIG_PREFIX).partition("gb.")
    if not resource.startswith(MIG_PREFIX):
        return None
    try:
        return parse_profile(f"{name}gb+{engines}" if engines else name)
    except ValueError:
        return None


def serves(offered: str, resource: str) -> bool:
    """Whether a MIG device has all that another one has, and more: compute, memory and engines.

    >>> serves("nvidia.com/mig-3g.40gb", "nvidia.com/mig-2g.20gb")
    True
    >>> serves("nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb")
    False
    """
    there, need = profile_of(offered), profile_of(resource)
    if there is None or need is None or there == need:
        return False
    compute = there.compute or there.slices
    enough = compute >= (need.compute or need.slices) and there.gb >= need.gb
    return enough and there.engines == need.engines and there.slices >= need.slices


def _is_related(name: str, other: str) -> bool:
    """Whether two names of one vendor stand for the same kind of device."""
    if name == other or name.partition("/")[0] != other.partition("/")[0]:
        return False
    return is_same_device(name, other) or "mig-" in name or "mig-" in other
