"""The plugins that kube-scheduler has of its own, and at which points it asks them.

Source: kube-scheduler 1.35 apis/config/v1 default_plugins.go (which, and how sets are merged),
framework/runtime (how those for all points are expanded), framework/plugins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.documents.scheduler.schema import Set

DEFAULTS: Final = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
)
"""What is enabled at every point that a plugin has, with the weight of its score; in order."""
FILTERS: Final = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
)
SCORES: Final = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "VolumeBinding",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)
POST_FILTERS: Final = ("DynamicResources", "DefaultPreemption")
OF_VOLUMES: Final = frozenset(("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"))
SORT: Final = ("PrioritySort",)
BIND: Final = ("DefaultBinder",)
PRE_FILTERS: Final = frozenset(
    (
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
    )
)
PRE_SCORES: Final = frozenset(
    (
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
    )
)
POINTS: Final = frozenset({name for name, _ in DEFAULTS} | {"NodeDeclaredFeatures", "GangScheduling"})
"""Names that a profile may have without anything of the site's own."""
MODELLED: Final = frozenset({*FILTERS, *SCORES} - {"NodeDeclaredFeatures"})


def merged(defaults: Iterable[tuple[str, int]], own: Set) -> list[tuple[str, int]]:
    """Plugins with weights after the profile's own set is merged into the defaults."""
    disabled, enabled = {plugin.name for plugin in own.disabled}, {p.name: p.weight for p in own.enabled}
    plugins: list[tuple[str, int]] = []
    if "*" not in disabled:
        plugins = [(n, enabled.get(n, weight)) for n, weight in defaults if n not in disabled]
    there = {name for name, _ in plugins}
    return plugins + [(plugin.name, plugin.weight) for plugin in own.enabled if plugin.name not in there]


def expanded(multi: Iterable[tuple[str, int]], own: Set, able: Iterable[str]) -> list[tuple[str, int]]:
    """Plugins of one point, in order: those named there and for all points, others for all, others there."""
    listed, off = {p.name: p.weight for p in own.enabled}, {p.name for p in own.disabled}
    everywhere = [] if "*" in off else [(n, w) for n, w in multi if n in able and n not in off]
    both = {name for name, _ in everywhere if name in listed}
    return [
        *((name, weight) for name, weight in listed.items() if name in both),
        *((name, weight) for name, weight in everywhere if name not in both),
        *((name, weight) for name, weight in listed.items() if name not in both),
    ]


def left_out(
    multi: Iterable[tuple[str, int]], own: Set, able: Iterable[str], used: Iterable[str]
) -> tuple[str, ...]:
    """Plugins that are used and able to prepare at a point, and not asked there."""
    on = {name for name, _ in expanded(multi, own, able)}
    return tuple(name for name in used if name in able and name not in on)
