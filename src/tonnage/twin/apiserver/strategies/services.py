"""Addresses and ports that services are given. Nothing routes them: the twin has no network of its own.

Source: pkg/registry/core/service (storage/alloc.go, storage/storage.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from ipaddress import IPv4Network
from itertools import chain
from typing import Final

from tonnage.decide.kubernetes.api.problems import FieldError, InvalidError, invalid, invalid_status
from tonnage.decide.kubernetes.api.strategies.services import (
    drop_for_type,
    keep_given,
    needs_address,
    needs_ports,
    pair_addresses,
)
from tonnage.decide.kubernetes.api.validation.network.addresses import parsed
from tonnage.decide.kubernetes.api.validation.network.services import is_headless, needs_health_check
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, mapping, mappings, number, text
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import SERVICE
from tonnage.twin.apiserver.statuses import forbidden, internal_error
from tonnage.twin.apiserver.strategies.service_families import settle_families

_RANGE: Final = IPv4Network("10.96.0.0/16")
_ASKED_FOR: Final = 257
"""The addresses before this one are given last: people ask for them."""
SERVICE_RANGE: Final = str(_RANGE)
API_ADDRESS: Final = str(_RANGE[1])
"""The address of the API's own service."""
_NODE_PORTS: Final = range(30000, 32768)
_ORDER: Final = (*_NODE_PORTS[86:], *_NODE_PORTS[:86])
"""In which order ports are given: people ask for the first ones."""
_ALLOCATED: Final = "provided port is already allocated"
_OUTSIDE: Final = (
    "provided port is not in the valid range. "
    f"The range of valid ports is {_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
)


class ServiceAddresses:
    """An admission plugin that completes services."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Keep what the service has; give it what it lacks. Raises ApiError where that cannot be."""
        if request.resource != SERVICE or obj is None or request.subresource:
            return
        spec, before = mapping(obj, "spec"), mapping(old, "spec")
        keep_given(spec, before)
        pair_addresses(spec, before)
        faults = [*settle_families(spec, before)]
        faults = faults or [*self._give_address(obj, old)]
        ports = _Ports(self._used_ports, tried=request.options.dry_run)
        if needs_ports(spec):
            faults = faults or [*_give_ports(spec, before, ports)]
        if faults:
            name = text(obj, "metadata", "name")
            raise InvalidError(invalid_status(request.served.row, name, tuple(faults)))
        if needs_health_check(spec) and not needs_health_check(before):
            _give_health_port(spec, ports)
        drop_for_type(spec, before)

    def _give_address(self, obj: JsonObject, old: JsonObject | None) -> Iterator[FieldError]:
        """An address for a service that is new, or has been a mere name."""
        spec = mapping(obj, "spec")
        if not needs_address(spec) or is_headless(spec) or (old and needs_address(mapping(old, "spec"))):
            return
        requested = text(spec, "clusterIP")
        if requested:
            yield from self._faults(requested)
            return
        address = next(self._free_addresses(), "")
        if not address:
            raise forbidden(SERVICE, text(obj, "metadata", "name"), "the range of addresses is full")
        spec["clusterIP"], spec["clusterIPs"] = address, [address]

    def _faults(self, address: str) -> Iterator[FieldError]:
        parsed_address, why = parsed(address), ""
        if parsed_address not in _RANGE or parsed_address in (_RANGE[0], _RANGE[-1]):
            why = "the provided network does not match the current range"
        elif str(parsed_address) in self._used_addresses():
            why = "provided IP is already allocated"
        if why:
            yield invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")

    def _used_addresses(self) -> set[str]:
        return {text(stored.object, "spec", "clusterIP") for stored in self._store.list(SERVICE)}

    def _free_addresses(self) -> Iterator[str]:
        used = self._used_addresses()
        places = chain(range(_ASKED_FOR, _RANGE.num_addresses - 1), range(1, _ASKED_FOR))
        addresses = (str(_RANGE[index]) for index in places)
        return (address for address in addresses if address not in used)

    def _used_ports(self) -> set[int]:
        specs = [mapping(stored.object, "spec") for stored in self._store.list(SERVICE)]
        ports = {number(port, "nodePort") for spec in specs for port in mappings(spec, "ports")}
        return ports | {number(spec, "healthCheckNodePort") for spec in specs}


class _Ports:
    """Ports of the nodes that are free for one service.

    Those of a write that is only tried are whatever comes after the last one, and need not be in the range.
    """

    def __init__(self, used: Callable[[], set[int]], *, tried: bool) -> None:
        self._in_use = used
        self._tried = tried
        self._assigned: list[int] = []

    @cached_property
    def _used(self) -> set[int]:
        return self._in_use()

    def why_not(self, port: int) -> str:
        """Why a port cannot be given; empty if it can."""
        if port not in _NODE_PORTS and not self._tried:
            return _OUTSIDE
        return _ALLOCATED if port in self._used else ""

    def take(self, port: int) -> None:
        """Have a port no longer free."""
        self._used.add(port)
        self._assigned.append(port)

    def next(self) -> int:
        """A free port; 0 if there is none."""
        if self._tried:
            return max(self._assigned, default=_NODE_PORTS.stop) + 1
        return next((port for port in _ORDER if port not in self._used), 0)


def _give_ports(spec: JsonObject, before: JsonObject, free: _Ports) -> Iterator[FieldError]:
    """Ports on the nodes: those asked for, if they are free, and others where they are wished for."""
    ports = mappings(spec, "ports")
    own = {number(port, "nodePort") for port in mappings(before, "ports")}
    gives = text(spec, "type") == "NodePort" or flag(spec, "allocateLoadBalancerNodePorts")
    # In a new service the protocols of one port may share a port of the nodes.
    shared = {at(port, "port"): number(port, "nodePort") for port in reversed(ports) if at(port, "nodePort")}
    assigned: dict[JsonValue, int] = {}
    for index, port in enumerate(ports):
        name = at(port, "port")
        node_port = number(port, "nodePort") or (0 if before else shared.get(name, 0))
        if not node_port and not gives:
            continue
        if not node_port:
            node_port = assigned.get(name, 0) if not before else 0
            node_port = node_port or free.next()
            if not node_port:
                raise internal_error("failed to allocate a nodePort: range is full")
        elif node_port not in own and assigned.get(name) != node_port and (why := free.why_not(node_port)):
            yield invalid(f"spec.ports[{index}].nodePort", node_port, why)
            return
        port["nodePort"] = node_port
        if node_port not in own:
            free.take(node_port)
        assigned.setdefault(name, node_port)
        if before:
            own.add(node_port)


def _give_health_port(spec: JsonObject, free: _Ports) -> None:
    """The port at which a load balancer asks nodes for endpoints."""
    requested = number(spec, "healthCheckNodePort")
    if requested and (why := free.why_not(requested)):
        raise internal_error(f"failed to allocate requested HealthCheck NodePort {requested}: {why}")
    spec["healthCheckNodePort"] = requested or free.next()
