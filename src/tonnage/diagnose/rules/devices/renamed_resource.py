"""SHR-2, SCH-7: the device is there under another name: shared (`.shared`), or cut into MIG profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.case import Case, device_needs, is_offered
from tonnage.diagnose.related_resources import profile_of, related_names, serves
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.name_lists import listed
from tonnage.model.reasons.gpu.devices import ResourceRenamed
from tonnage.model.reasons.reason import Reason

_MIG_CONFIG: Final = "nvidia.com/mig.config"


def reasons(case: Case) -> Iterator[Reason]:
    """A reason for every needed resource that nodes offer under a related name only."""
    for name in device_needs(case.pod):
        related = {} if is_offered(case.view, name) else related_names(name, case.view)
        if related:
            listing = "; ".join(f"{other} on {listed(nodes)}" for other, nodes in related.items())
            yield ResourceRenamed(
                subject=f"Resource {name}",
                message=f"{name} is asked for; nodes advertise {listing}",
                remedy=_remedy(name, related, case.view),
                source="Node status.allocatable",
                resource=name,
                advertised={other: tuple(nodes) for other, nodes in related.items()},
            )


def _remedy(resource: str, related: Mapping[str, tuple[str, ...]], view: ClusterView) -> str:
    remedy = "ask for the name that is advertised, or change the node's sharing or MIG configuration"
    if profile_of(resource) and not any(serves(name, resource) or not profile_of(name) for name in related):
        remedy = "change the MIG configuration: the devices that are advertised have less than it asks for"
    if not any("/mig-" in name for name in (resource, *related)):
        return remedy
    names = dict.fromkeys(name for nodes in related.values() for name in nodes)
    layouts = [f"{name} has {layout}" for name in names if (layout := _layout(view.nodes[name].node))]
    return f"{remedy}: the label {_MIG_CONFIG} chooses a layout{f' ({listed(layouts)})' if layouts else ''}"


def _layout(node: Node) -> str:
    """The MIG layout that a node is told to have, and how far the MIG manager is with it."""
    state = node.labels.get(f"{_MIG_CONFIG}.state", "")
    layout = node.labels.get(_MIG_CONFIG, "")
    return layout + (f", {state}" if layout and state not in ("", "success") else "")
