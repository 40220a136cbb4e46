"""Kinds of the network: where services lead.

Source: pkg/apis/core/validation, pkg/apis/discovery/validation (v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import items, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    too_many,
    unsupported,
)
from tonnage.twin.apiserver.objects.validation.fields import PROTOCOLS, Found, labels, one_of, unchanged

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MODES: Final = ("Proxy", "VIP")
_NO_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_NO_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_MOST_ADDRESSES: Final = 100
_MOST_ENDPOINTS: Final = 1000
_MOST_PORTS: Final = 20_000
_MOST_HINTS: Final = 8
_LINK_LOCAL: Final = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
_MULTICAST: Final = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
_LOOPBACK: Final = "may not be in the loopback range (127.0.0.0/8, ::1/128)"


def parsed(shown: str) -> IPv4Address | IPv6Address | None:
    """An address, leading zeros of IPv4 allowed; None if it is none.

    >>> parsed("010.1.2.3"), parsed("fe80::1%eth0"), parsed("x")
    (IPv4Address('10.1.2.3'), None, None)
    """
    try:
        return ip_address(
            re.sub(r"(?<![0-9])0+(?=[0-9])", "", shown) if "." in shown else _without_zone(shown)
        )
    except ValueError:
        return None


def _without_zone(shown: str) -> str:
    if "%" in shown:
        raise ValueError(shown)
    return shown


def legacy_address(shown: str, path: str) -> Found:
    """An IP address as old fields take it."""
    if parsed(shown) is None:
        yield invalid(path, shown, _NO_ADDRESS)


def canonical_address(shown: str) -> names.Complaints:
    """Complaints about an address that must be spelt in one way: names of IPAddresses.

    >>> canonical_address("::0")
    ('must be in canonical form ("::")',)
    """
    found = parsed(shown)
    if found is None:
        return (_NO_ADDRESS,)
    if "." in shown and re.search(r"(?<![0-9])0[0-9]", shown):
        return ("must not have leading 0s",)
    return () if str(found) == shown else (f'must be in canonical form ("{found}")',)


def legacy_range(shown: str, path: str, known: Container[str] = ()) -> Found:
    """A range of addresses as old fields take it; what was there before may stay."""
    if shown not in known and parsed_range(shown) is None:
        yield invalid(path, shown, _NO_RANGE)


def parsed_range(shown: str) -> IPv4Network | IPv6Network | None:
    """A range of addresses; the bits that it leaves open may be set. None if it is none.

    >>> parsed_range("10.1.2.3/08"), parsed_range("10.1.2.3")
    (IPv4Network('10.0.0.0/8'), None)
    """
    address, _, length = shown.partition("/")
    found = parsed(address)
    if found is None or not re.fullmatch("[0-9]{1,3}", length) or int(length) > found.max_prefixlen:
        return None
    return ip_network(f"{found}/{int(length)}", strict=False)


def load_balancer_ingress(
    found: list[JsonObject], path: str, known: Container[str], *, modes: bool = False
) -> Found:
    """Where a load balancer answers; `modes` tells whether addresses have them."""
    for index, ingress in enumerate(found):
        where, address, mode = f"{path}[{index}]", text(ingress, "ip"), ingress.get("ipMode")
        if address and address not in known:
            yield from legacy_address(address, f"{where}.ip")
        if modes and address and mode is None:
            yield required(f"{where}.ipMode", "must be specified when `ip` is set")
        elif modes and mode is not None and not address:
            yield forbidden(f"{where}.ipMode", "may not be specified when `ip` is not set")
        elif modes and mode is not None and mode not in _MODES:
            yield unsupported(f"{where}.ipMode", mode, _MODES)
        if hostname := text(ingress, "hostname"):
            yield from complaints(f"{where}.hostname", hostname, names.dns_subdomain(hostname))
            yield from not_an_address(hostname, f"{where}.hostname")


def not_an_address(hostname: str, path: str) -> Found:
    """The name of a host."""
    if parsed(hostname) is not None:
        yield invalid(path, hostname, "must be a DNS name, not an IP address")


def endpoint_address(shown: str, path: str) -> Found:
    """An address that something can be reached at."""
    address = parsed(shown)
    if address is None:
        yield invalid(path, shown, "must be a valid IP address")
        return
    if address.is_unspecified:
        yield invalid(path, shown, f"may not be unspecified ({shown})")
    if address.is_loopback:
        yield invalid(path, shown, _LOOPBACK)
    if address.is_link_local:
        yield invalid(path, shown, _LINK_LOCAL)
    group = f"{address.exploded}"
    if group.startswith("224.0.0.") or re.match("ff.2:", group):
        yield invalid(path, shown, _MULTICAST)


def endpoints(obj: JsonObject) -> Found:
    """Endpoints: addresses and ports of each subset."""
    for index, subset in enumerate(mappings(obj, "subsets")):
        path = f"subsets[{index}]"
        if not items(subset, "addresses") and not items(subset, "notReadyAddresses"):
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for key in ("addresses", "notReadyAddresses"):
            for place, address in enumerate(mappings(subset, key)):
                yield from _address(address, f"{path}.{key}[{place}]")
        ports = mappings(subset, "ports")
        for place, port in enumerate(ports):
            yield from _port(port, f"{path}.ports[{place}]", named=len(ports) > 1)


def endpoints_update(new: JsonObject, old: JsonObject) -> Found:
    """Changed Endpoints; what was wrong before may stay."""
    if items(new, "subsets") != items(old, "subsets"):
        yield from endpoints(new)


def _address(address: JsonObject, path: str) -> Found:
    shown = text(address, "ip")
    yield from legacy_address(shown, f"{path}.ip")
    if hostname := text(address, "hostname"):
        yield from complaints(f"{path}.hostname", hostname, names.dns_label(hostname))
    if address.get("nodeName") is not None:
        node = text(address, "nodeName")
        yield from complaints(f"{path}.nodeName", node, names.dns_subdomain(node))
    yield from endpoint_address(shown, f"{path}.ip")


def _port(port: JsonObject, path: str, *, named: bool) -> Found:
    name = text(port, "name")
    if not name:
        if named:
            yield required(f"{path}.name")
    else:
        yield from complaints(f"{path}.name", name, names.dns_label(name))
    yield from complaints(f"{path}.port", number(port, "port"), names.port_number(number(port, "port")))
    yield from one_of(text(port, "protocol"), PROTOCOLS, f"{path}.protocol")
    yield from _app_protocol(port, path)


def _app_protocol(port: JsonObject, path: str) -> Found:
    if port.get("appProtocol") is not None:
        protocol = text(port, "appProtocol")
        yield from complaints(f"{path}.appProtocol", protocol, names.qualified_name(protocol))


def endpoint_slice(obj: JsonObject) -> Found:
    """An EndpointSlice."""
    yield from _slice_head(obj)
    yield from _slice_endpoints(obj)


def endpoint_slice_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed EndpointSlice: its type of addresses stays; endpoints that were wrong before may."""
    yield from _slice_head(new)
    if items(new, "endpoints") != items(old, "endpoints"):
        yield from _slice_endpoints(new)
    yield from unchanged(text(new, "addressType"), text(old, "addressType"), "addressType")


def _slice_head(obj: JsonObject) -> Found:
    yield from one_of(text(obj, "addressType"), _ADDRESS_TYPES, "addressType")
    ports = mappings(obj, "ports")
    if len(ports) > _MOST_PORTS:
        yield too_many("ports", len(ports), _MOST_PORTS)
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", text(port, "name")
        if name:
            yield from complaints(f"{path}.name", name, names.dns_label(name))
        if name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)
        yield from one_of(text(port, "protocol"), PROTOCOLS, f"{path}.protocol")
        yield from _app_protocol(port, path)


def _slice_endpoints(obj: JsonObject) -> Found:
    found = mappings(obj, "endpoints")
    if len(found) > _MOST_ENDPOINTS:
        yield too_many("endpoints", len(found), _MOST_ENDPOINTS)
        return
    kind = text(obj, "addressType")
    for index, endpoint in enumerate(found):
        path = f"endpoints[{index}]"
        addresses = texts(endpoint, "addresses")
        if not addresses:
            yield required(f"{path}.addresses", "must contain at least 1 address")
        elif len(addresses) > _MOST_ADDRESSES:
            yield too_many(f"{path}.addresses", len(addresses), _MOST_ADDRESSES)
        for place, address in enumerate(addresses):
            yield from _slice_address(address, kind, f"{path}.addresses", place)
        if endpoint.get("nodeName") is not None:
            node = text(endpoint, "nodeName")
            yield from complaints(f"{path}.nodeName", node, names.dns_subdomain(node))
        yield from labels(mapping(endpoint, "deprecatedTopology"), f"{path}.deprecatedTopology")
        if endpoint.get("hostname") is not None:
            hostname = text(endpoint, "hostname")
            yield from complaints(f"{path}.hostname", hostname, names.dns_label(hostname))
        yield from _hints(mapping(endpoint, "hints"), f"{path}.hints")


def _slice_address(shown: str, kind: str, path: str, place: int) -> Found:
    where = f"{path}[{place}]"
    if kind == "FQDN":
        yield from complaints(where, shown, _domain_name(shown))
    if kind not in ("IPv4", "IPv6"):
        return
    address = parsed(shown)
    if address is None:
        yield from legacy_address(shown, where)
        return
    if f"IPv{address.version}" != kind:
        yield invalid(path, shown, f"must be an {kind} address")
    yield from endpoint_address(shown, where)


def _domain_name(shown: str) -> names.Complaints:
    """Complaints about a fully qualified domain name."""
    name = shown.removesuffix(".")
    wrong = names.dns_subdomain(name)
    if wrong or name.count("."):
        return wrong
    return ("should be a domain with at least two segments separated by dots",)


def _hints(hints: JsonObject, path: str) -> Found:
    rules: tuple[tuple[str, Callable[[str], names.Complaints]], ...] = (
        ("forZones", names.label_value),
        ("forNodes", names.dns_subdomain),
    )
    for key, rule in rules:
        found = mappings(hints, key)
        if len(found) > _MOST_HINTS:
            yield too_many(f"{path}.{key}", len(found), _MOST_HINTS)
            return
        seen: set[str] = set()
        for index, hint in enumerate(found):
            name, where = text(hint, "name"), f"{path}.{key}[{index}].name"
            if name in seen:
                yield duplicate(where, name)
            seen.add(name)
            yield from complaints(where, name, rule(name))
