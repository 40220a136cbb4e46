"""What an Endpoints object says: addresses that offer the same ports stand together, in one order.

Source: pkg/controller/endpoint/endpoints_controller.go, pkg/api/v1/endpoints/util.go (v1.35).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from tonnage.model.json import JsonObject
from tonnage.twin.controllers import pod_state
from tonnage.twin.controllers.services.ports import in_order, own_hostname, ports_of, reachable
from tonnage.wire.objects import Pod, Service

MOST_ADDRESSES: Final = 1000
LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
"""The annotation of Endpoints that are a lock, and of no service."""
Subset = dict[str, Any]
_Address = tuple[str, str]
"""(ip, uid of the pod)."""


def subsets_of(service: Service, pods: Iterable[Pod]) -> list[Subset]:
    """The subsets for a service that these pods stand behind."""
    unready_too = bool(service.spec.get("publishNotReadyAddresses"))
    found: list[Subset] = []
    for pod in pods:
        if not reachable(pod, ending=unready_too):
            continue
        field = "addresses" if unready_too or pod_state.is_ready(pod) else "notReadyAddresses"
        address = _address(pod, service)
        if not service.spec.get("ports"):
            if service.spec.get("clusterIP") == "None":
                found.append({field: [address], "ports": []})
            continue
        # The server leaves out a name that is empty.
        ports = [{key: value for key, value in port.items() if value} for port in ports_of(pod, service)]
        found += [{field: [address], "ports": [port]} for port in ports]
    return repacked(found)


def _address(pod: Pod, service: Service) -> Subset:
    meta = pod.metadata
    address: Subset = {"ip": pod.status.pod_ip}
    if hostname := own_hostname(pod, service):
        address["hostname"] = hostname
    address["nodeName"] = pod.spec.node_name
    address["targetRef"] = {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    return address


def repacked(subsets: Iterable[Subset]) -> list[Subset]:
    """Subsets that say the same, each address with all its ports; who is unready at a port once is unready.

    >>> one = {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}
    >>> two = {"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 2}]}
    >>> [len(subset["ports"]) for subset in repacked([one, two])]
    [2]
    """
    known: dict[_Address, Subset] = {}
    offers: dict[bytes, dict[_Address, bool]] = {}
    ports: dict[bytes, Subset | None] = {}
    for subset in subsets:
        for port in subset.get("ports") or [None]:
            name = msgspec.json.encode(port, order="deterministic")
            ports[name] = port
            ready = offers.setdefault(name, {})
            for field in ("addresses", "notReadyAddresses"):
                for address in subset.get(field) or []:
                    key = _key(address)
                    known.setdefault(key, address)
                    ready[key] = ready.get(key, True) and field == "addresses"
    together: dict[tuple[_Address, ...], list[bytes]] = {}
    for name, ready in offers.items():
        together.setdefault(tuple(sorted(ready)), []).append(name)
    # Of hosts that are the same, the last port told who of them is ready.
    return [
        _packed([one for name in names if (one := ports[name])], offers[names[-1]], known)
        for names in together.values()
    ]


def _packed(ports: list[JsonObject], ready: dict[_Address, bool], known: dict[_Address, Subset]) -> Subset:
    subset: Subset = {}
    for field, wanted in (("addresses", True), ("notReadyAddresses", False)):
        if chosen := [known[key] for key in sorted(ready) if ready[key] is wanted]:
            subset[field] = chosen
    if ports:
        subset["ports"] = in_order(ports, of_slice=False)
    return subset


def _key(address: Subset) -> _Address:
    return address["ip"], (address.get("targetRef") or {}).get("uid", "")


def truncated(subsets: list[Subset]) -> tuple[list[Subset], bool]:
    """At most a thousand addresses, ready ones first, in proportion; and whether any had to go."""
    ready, unready = (
        sum(len(one.get(f) or []) for one in subsets) for f in ("addresses", "notReadyAddresses")
    )
    if ready + unready <= MOST_ADDRESSES:
        return subsets, False
    field, room, of = "notReadyAddresses", MOST_ADDRESSES - ready, unready
    if ready > MOST_ADDRESSES:
        field, room, of = "addresses", MOST_ADDRESSES, ready
    left, kept = room, []
    for subset in subsets:
        share = min(math.ceil(len(subset.get(field) or []) / of * room), left)
        smaller = {**subset, field: (subset.get(field) or [])[:share]}
        if field == "addresses":
            smaller["notReadyAddresses"] = []
        left -= len(smaller[field])
        kept.append({key: value for key, value in smaller.items() if value})
    return kept, True
