"""Addresses and ports that services are given. Nothing routes them: the twin has no network of its own.

Source: pkg/registry/core/service (alloc.go, storage.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import at, items, mappings, number, text
from tonnage.twin.apiserver.objects.problems import FieldError, InvalidError, invalid, invalid_status
from tonnage.twin.apiserver.objects.validation.network import legacy_address, parsed
from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.statuses import forbidden
from tonnage.twin.apiserver.store import Resource, Store

SERVICE: Final[Resource] = ("", "services")
_RANGE: Final = IPv4Network("10.96.0.0/16")
_RESERVED: Final = 16
"""The first addresses are for the cluster's own services."""
API_ADDRESS: Final = str(_RANGE[1])
"""The address of the API's own service."""
_NODE_PORTS: Final = range(30000, 32768)


class ServiceAddresses:
    """An admission plugin that completes services."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, request: Request, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Keep what the service has; give it what it lacks. Raises ApiError 403 when nothing is left."""
        if request.resource != SERVICE or obj is None or request.subresource:
            return
        spec = obj.get("spec")
        if not isinstance(spec, dict) or text(spec, "type") == "ExternalName":
            return
        self._check_address(request, obj, old)
        if not text(spec, "clusterIP"):
            address = text(old, "spec", "clusterIP") or next(self._free_addresses(), "")
            if not address:
                raise forbidden(SERVICE, text(obj, "metadata", "name"), "the range of addresses is full")
            spec["clusterIP"] = address
        if not items(spec, "clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if text(spec, "type") in ("NodePort", "LoadBalancer"):
            self._check_ports(request, obj, old)
            if text(spec, "type") == "NodePort" or at(spec, "allocateLoadBalancerNodePorts") is not False:
                self._give_ports(spec, old)

    def _check_address(self, request: Request, service: JsonObject, old: JsonObject | None) -> None:
        """Refuse an address that cannot be given, or a second one. Raises InvalidError."""
        address, before = text(service, "spec", "clusterIP"), text(old, "spec", "clusterIP")
        if address in ("", "None", before):
            return
        if faults := tuple(self._faults(address, before)):
            name = text(service, "metadata", "name")
            raise InvalidError(invalid_status(request.served.row, name, faults))

    def _faults(self, address: str, before: str) -> Iterator[FieldError]:
        found, first = parsed(address), "spec.clusterIPs[0]"
        if before:
            yield invalid(first, [address], "may not change once set")
        elif found is None:
            yield from legacy_address(address, first)
        elif found.version == 6:
            yield invalid(first, [address], "IPv6 is not configured on this cluster")
        elif found not in _RANGE or found in (_RANGE[0], _RANGE[-1]):
            why = "the provided network does not match the current range"
            yield invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")
        elif str(found) in self._used_addresses():
            why = "provided IP is already allocated"
            yield invalid("spec.clusterIPs", [address], f"failed to allocate IP {address}: {why}")

    def _used_addresses(self) -> set[str]:
        return {text(stored.object, "spec", "clusterIP") for stored in self._store.list(SERVICE)}

    def _free_addresses(self) -> Iterator[str]:
        used = self._used_addresses()
        addresses = (str(_RANGE[index]) for index in range(_RESERVED, _RANGE.num_addresses - 1))
        return (address for address in addresses if address not in used)

    def _check_ports(self, request: Request, service: JsonObject, old: JsonObject | None) -> None:
        """Refuse node ports that are out of range or another service's. Raises InvalidError."""
        own = {number(port, "nodePort") for port in _ports(old)}
        used = {number(port, "nodePort") for one in self._store.list(SERVICE) for port in _ports(one.object)}
        faults: list[FieldError] = []
        for index, port in enumerate(_ports(service)):
            wanted = number(port, "nodePort")
            path = f"spec.ports[{index}].nodePort"
            if not wanted or wanted in own:
                continue
            if wanted not in _NODE_PORTS:
                ports = f"{_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
                why = f"provided port is not in the valid range. The range of valid ports is {ports}"
                faults.append(invalid(path, wanted, why))
            elif wanted in used:
                faults.append(invalid(path, wanted, "provided port is already allocated"))
        if faults:
            name = text(service, "metadata", "name")
            raise InvalidError(invalid_status(request.served.row, name, tuple(faults)))

    def _give_ports(self, spec: JsonObject, old: JsonObject | None) -> None:
        used = {number(port, "nodePort") for one in self._store.list(SERVICE) for port in _ports(one.object)}
        before = {at(port, "port"): number(port, "nodePort") for port in _ports(old)}
        for port in mappings(spec, "ports"):
            if number(port, "nodePort"):
                continue
            given = before.get(at(port, "port")) or next((one for one in _NODE_PORTS if one not in used), 0)
            used.add(given)
            if given:
                port["nodePort"] = given


def _ports(service: JsonObject | None) -> list[JsonObject]:
    return mappings(service, "spec", "ports")
