"""endpointslice.Reconciler: which EndpointSlices a service needs, and what changes of those it has.

Source: k8s.io/endpointslice (reconciler.go, utils.go, trafficdist) (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.well_known import SLICE_MANAGER, SLICE_SERVICE, TOPOLOGY_HINTS, TOPOLOGY_MODE
from tonnage.twin.controllers import pod_state
from tonnage.twin.controllers.services.ports import (
    HEADLESS,
    in_order,
    is_headless,
    own_hostname,
    ports_of,
    reachable,
)
from tonnage.wire.endpoints import EndpointSlice
from tonnage.wire.objects import Pod, Service

MANAGER: Final = "endpointslice-controller.k8s.io"
MOST_ENDPOINTS: Final = 100
_RESERVED: Final = (SLICE_SERVICE, SLICE_MANAGER, HEADLESS)
_NEAR: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
Endpoint = dict[str, Any]
Identity = tuple[str, ...]
"""What makes two endpoints the same one: addresses, host name, namespace and name of the pod."""
ZoneOf = Callable[[str], str | None]
"""The zone of a node, empty without one; None where there is no such node."""


@dataclass(slots=True)
class Slice:
    """A slice as it should be. `name` is empty for a new one."""

    name: str
    labels: dict[str, str]
    ports: list[JsonObject]
    endpoints: list[Endpoint]


@dataclass(slots=True)
class SlicePlan:
    """What to do, in this order; `astray` tells of pods whose node is not there."""

    create: list[Slice] = field(default_factory=list)
    update: list[Slice] = field(default_factory=list)
    delete: list[EndpointSlice] = field(default_factory=list)
    astray: list[str] = field(default_factory=list)


def plan(service: Service, pods: Iterable[Pod], zone_of: ZoneOf, existing: list[EndpointSlice]) -> SlicePlan:
    """The plan for the slices of the controller that name the service."""
    planned = SlicePlan()
    own: dict[bytes, list[EndpointSlice]] = {}
    for endpoint_slice in existing:
        if any(owner.uid == service.metadata.uid for owner in endpoint_slice.metadata.owner_references):
            own.setdefault(_key(endpoint_slice.ports or []), []).append(endpoint_slice)
        else:
            planned.delete.append(endpoint_slice)
    desired, ports = _desired_endpoints(service, pods, zone_of, planned)
    unchanged: list[EndpointSlice] = []
    for key, endpoints in desired.items():
        unchanged += _place(service, own.get(key, []), endpoints, ports[key], planned)
    for key, slices in own.items():
        if key not in desired:
            planned.delete += slices
    if len(planned.delete) == len(existing) and not planned.create:
        _keep_a_placeholder(service, planned)
    _hint(service, planned, unchanged)
    _reuse(service, planned)
    return planned


def asks_for_shares(service: Service) -> bool:
    """Whether zones are to share a service's endpoints by the CPUs that they have: the older way."""
    notes = service.metadata.annotations
    return notes.get(TOPOLOGY_HINTS, notes.get(TOPOLOGY_MODE)) in ("Auto", "auto")


def labels_of(service: Service) -> dict[str, str]:
    """Labels of the service's slices: its own ones, and who keeps them."""
    labels = {key: value for key, value in service.metadata.labels.items() if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SLICE_SERVICE: service.metadata.name, SLICE_MANAGER: MANAGER}


def _key(ports: list[dict[str, Any]]) -> bytes:
    return msgspec.json.encode(in_order(ports), order="deterministic")


def _desired_endpoints(
    service: Service, pods: Iterable[Pod], zone_of: ZoneOf, planned: SlicePlan
) -> tuple[dict[bytes, dict[Identity, Endpoint]], dict[bytes, list[JsonObject]]]:
    """Endpoints by the ports that they offer, and those ports."""
    desired: dict[bytes, dict[Identity, Endpoint]] = {}
    ports: dict[bytes, list[JsonObject]] = {}
    for pod in pods:
        if not reachable(pod, ending=True):
            continue
        offered = in_order(ports_of(pod, service))
        key = _key(offered)
        ports[key] = offered
        endpoints = desired.setdefault(key, {})
        zone = zone_of(pod.spec.node_name)
        if zone is None and not service.spec.get("publishNotReadyAddresses"):
            meta, node = service.metadata, pod.spec.node_name
            which = f"Pod {pod.metadata.name} for Service {meta.namespace}/{meta.name}"
            planned.astray.append(f"skipping {which}: Node {node} Not Found")
            continue
        endpoint = _endpoint(pod, service, zone or "")
        endpoints[_identity(endpoint)] = endpoint
    return desired, ports


def _endpoint(pod: Pod, service: Service, zone: str) -> Endpoint:
    serving, ends = pod_state.is_ready(pod), pod.metadata.deletion_timestamp is not None
    ready = bool(service.spec.get("publishNotReadyAddresses")) or (serving and not ends)
    meta = pod.metadata
    endpoint: Endpoint = {
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": ready, "serving": serving, "terminating": ends},
        "targetRef": {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
    }
    if hostname := own_hostname(pod, service):
        endpoint["hostname"] = hostname
    if pod.spec.node_name:
        endpoint["nodeName"] = pod.spec.node_name
    if zone:
        endpoint["zone"] = zone
    return endpoint


def _identity(endpoint: Endpoint) -> Identity:
    target = endpoint.get("targetRef") or {}
    return (
        *(endpoint["addresses"] or ()),  # somebody may have taken them all away
        endpoint.get("hostname", ""),
        target.get("namespace", ""),
        target.get("name", ""),
    )


def _without_hints(endpoint: Endpoint) -> Endpoint:
    return {key: value for key, value in endpoint.items() if key != "hints"}


def _place(
    service: Service,
    existing: list[EndpointSlice],
    endpoints: dict[Identity, Endpoint],
    ports: list[JsonObject],
    planned: SlicePlan,
) -> list[EndpointSlice]:
    """Keep endpoints where they are, fill up what changes anyway, then one slice with room, then new ones.

    Returns the slices that stay as they are.
    """
    labels = labels_of(service)
    left = dict(endpoints)
    changed: list[Slice] = []
    same: list[EndpointSlice] = []
    for endpoint_slice in existing:
        before = endpoint_slice.endpoints or []
        staying = [left.pop(key) for old in before if (key := _identity(old)) in left]
        if staying == [_without_hints(old) for old in before] and endpoint_slice.metadata.labels == labels:
            same.append(endpoint_slice)
        elif staying or not before:
            changed.append(Slice(endpoint_slice.metadata.name, labels, ports, staying))
        else:
            planned.delete.append(endpoint_slice)
    # Only once every slice has kept its own: what is left now is in none. The fullest are filled up first, so
    # that as few slices as possible change, each of which goes to every node.
    rest = list(left.values())
    for full in sorted(changed, key=lambda endpoint_slice: -len(endpoint_slice.endpoints)):
        while rest and len(full.endpoints) < MOST_ENDPOINTS:
            full.endpoints.append(rest.pop(0))
    planned.update += changed
    while rest:
        roomy = _roomy(same, len(rest))
        if roomy is not None:
            same.remove(roomy)
            before = [_without_hints(old) for old in roomy.endpoints or []]
            planned.update.append(Slice(roomy.metadata.name, labels, ports, before + rest))
            break
        planned.create.append(Slice("", labels, ports, rest[:MOST_ENDPOINTS]))
        del rest[:MOST_ENDPOINTS]
    return same


def _roomy(slices: list[EndpointSlice], count: int) -> EndpointSlice | None:
    """The slice that is the nearest to full with so many endpoints more."""
    fitting = [
        endpoint_slice
        for endpoint_slice in slices
        if len(endpoint_slice.endpoints or []) + count <= MOST_ENDPOINTS
    ]
    return max(fitting, key=lambda endpoint_slice: len(endpoint_slice.endpoints or []), default=None)


def _keep_a_placeholder(service: Service, planned: SlicePlan) -> None:
    """A service without endpoints has one empty slice."""
    labels = labels_of(service)
    if len(planned.delete) == 1:
        only = planned.delete[0]
        owned = any(owner.uid == service.metadata.uid for owner in only.metadata.owner_references)
        if owned and not only.endpoints and not only.ports and only.metadata.labels == labels:
            planned.delete.clear()
            return
    planned.create.append(Slice("", labels, [], []))


def _hint(service: Service, planned: SlicePlan, unchanged: list[EndpointSlice]) -> None:
    """Say for which zones and nodes each endpoint is meant, where the service wants its traffic near."""
    distribution = None if asks_for_shares(service) else service.spec.get("trafficDistribution")
    near, node = distribution in _NEAR, distribution == "PreferSameNode"
    for fresh in (*planned.create, *planned.update):
        fresh.endpoints = [_hinted(endpoint, near, node) for endpoint in fresh.endpoints]
    for old in unchanged:
        hinted = [_hinted(_without_hints(endpoint), near, node) for endpoint in old.endpoints or []]
        if hinted != (old.endpoints or []):
            labels = dict(old.metadata.labels)
            planned.update.append(Slice(old.metadata.name, labels, list(old.ports or []), hinted))


def _hinted(endpoint: Endpoint, near: bool, node: bool) -> Endpoint:
    if not near or not endpoint["conditions"].get("ready"):
        return endpoint
    hints: dict[str, Any] = {}
    if "zone" in endpoint:
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if node and "nodeName" in endpoint:
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return {**endpoint, "hints": hints} if hints else endpoint


def _reuse(service: Service, planned: SlicePlan) -> None:
    """Give new slices the names of those that would go."""
    staying = []
    for endpoint_slice in planned.delete:
        owned = any(owner.uid == service.metadata.uid for owner in endpoint_slice.metadata.owner_references)
        if planned.create and owned:
            fresh = planned.create.pop()
            fresh.name = endpoint_slice.metadata.name
            planned.update.append(fresh)
        else:
            staying.append(endpoint_slice)
    planned.delete = staying
