"""KUB-2: a node with room but for devices that are not healthy: which, since when, why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.case import Case, device_needs
from tonnage.diagnose.explain.nodes.closed_nodes import GPUS_HEALTHY, utc
from tonnage.diagnose.remedies.remedy_edit import RemedyEdit
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.reasons.gpu.devices import DeviceUnhealthy
from tonnage.model.reasons.pod.scheduling import AmountReason, ResourceNotAdvertised
from tonnage.model.reasons.reason import Reason

_MOST_NODES: Final = 4
_MOST_LOOKED_AT: Final = 1024
"""Nodes of a large cluster: an answer must not take long."""


def reasons(case: Case) -> Iterator[Reason]:
    """One reason for each of the first nodes on which the pod would fit if all devices were healthy."""
    for resource, name, short in _short_of(case):
        yield _reason(resource, name, short, case.view.nodes[name], case.view.snapshot.gpu.get(name))


def repairs(case: Case) -> Iterator[tuple[str, RemedyEdit]]:
    """The node, and the change that all its devices of a resource were healthy, for each of those nodes."""
    for resource, name, _ in _short_of(case):
        ill = tuple(named_unhealthy_devices(case.view.snapshot.gpu.get(name), resource))
        which = listed(ill) if ill else f"the {resource} that are not healthy"
        yield (
            name,
            RemedyEdit(
                f"repair {resource} {name}",
                f"repair on {name} {which}",
                8,
                on_view=partial(_repaired, name=name, resource=resource),
            ),
        )


def _repaired(view: ClusterView, *, name: str, resource: str) -> ClusterView:
    node = view.nodes[name]
    whole = {**node.node.allocatable, resource: node.node.capacity[resource]}
    return view.with_node(replace(node, node=replace(node.node, allocatable=whole)))


def _short_of(case: Case) -> Iterator[tuple[str, str, int]]:
    """(resource, node, how many are not healthy) of the first nodes that have too few for want of health."""
    if case.decision.chosen is not None or not case.classes:
        return
    reported = 0
    looked = case.remarkable.ill[:_MOST_LOOKED_AT]
    closed = _refusing_anyway(case) if looked else frozenset()
    for resource, count in device_needs(case.pod).items():
        for name in looked:
            node = case.view.nodes[name]
            short = node.node.capacity.get(resource, 0) - node.node.allocatable.get(resource, 0)
            free = node.node.allocatable.get(resource, 0) - node.requested.get(resource, 0)
            decisive = short > 0 and free < count <= free + short and reported < _MOST_NODES
            if not decisive or name in closed:
                continue
            if not _plugin_gone(node, resource, case.view.snapshot.gpu.get(name)):
                reported += 1
                yield resource, name, short


def _refusing_anyway(case: Case) -> frozenset[str]:
    """Nodes that would not take the pod if all devices were healthy: their troubles are not the pod's."""
    return frozenset(
        name
        for node_class in case.classes
        if any(not isinstance(r, AmountReason | ResourceNotAdvertised) for r in node_class.first.reasons)
        for name in node_class.members
    )


def _plugin_gone(node: NodeView, resource: str, status: GpuStatus | None) -> bool:
    """Whether nothing is given out though nothing is ill: it is the plugin that is missing."""
    return not node.node.allocatable.get(resource) and not any(named_unhealthy_devices(status, resource))


def _reason(resource: str, name: str, short: int, node: NodeView, status: GpuStatus | None) -> Reason:
    capacity = node.node.capacity[resource]
    ill = tuple(named_unhealthy_devices(status, resource))
    since = next(
        (
            condition.since
            for condition in node.node.problem_conditions
            if condition.type == GPUS_HEALTHY and condition.since
        ),
        None,
    )
    dated = f" (since {utc(since)})" if since is not None else ""
    which = f": {listed(ill)}{dated}" if ill else "; its NodeGPUStatus would say which and why"
    return DeviceUnhealthy(
        subject=f"Node {name}",
        message=f"{name} offers {capacity - short} of its {capacity} {resource}{which}",
        remedy=f"do what the devices' reasons ask for (reset, reboot, replace): tonnage doctor on {name}",
        source="Node status.capacity and allocatable, NodeGPUStatus",
        resource=resource,
        capacity=capacity,
        missing=short,
        devices=tuple(ill),
    )


def named_unhealthy_devices(status: GpuStatus | None, resource: str = "") -> Iterator[str]:
    """Devices of a resource (or all) that are not healthy, and why: `GPU 3 (GPU-6a1f): Xid 79`."""
    for device in status.devices if status is not None else ():
        number = "GPU" if device.index is None else f"GPU {device.index}"
        why = f": {device.reason}" if device.reason else ""
        if not device.healthy and resource in ("", device.resource):
            yield f"{number} ({device.uuid}){why}"
        for part in device.parts:
            if device.healthy and not part.healthy and resource in ("", part.resource):
                yield f"{part.profile} of {number} ({part.uuid}){f': {part.reason}' if part.reason else ''}"
