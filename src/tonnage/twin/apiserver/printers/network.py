"""Columns of what concerns the network.

Source: pkg/printers/internalversion/printers.go (v1.35).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.printers.columns import NONE, UNSET, Printer, age, name_of, named_columns
from tonnage.twin.apiserver.writing.subresources import selector_text

_SHOWN: Final = 3


def _policy(obj: JsonObject, now: datetime) -> list[JsonValue]:
    selector = selector_text(at(obj, "spec", "podSelector")) or NONE
    return [name_of(obj), selector, age(obj, now)]


def _ingress(obj: JsonObject, now: datetime) -> list[JsonValue]:
    hosts = [text(rule, "host") for rule in mappings(obj, "spec", "rules") if text(rule, "host")]
    addresses = [
        text(ingress, "ip") or text(ingress, "hostname")
        for ingress in mappings(obj, "status", "loadBalancer", "ingress")
    ]
    return [
        name_of(obj),
        text(obj, "spec", "ingressClassName") or NONE,
        shortened(hosts) or "*",
        ",".join(addresses),
        "80, 443" if items(obj, "spec", "tls") else "80",
        age(obj, now),
    ]


def shortened(texts: list[str]) -> str:
    """The first three, and how many more there are.

    >>> shortened(["a", "b", "c", "d", "e"])
    'a,b,c + 2 more...'
    """
    shown, more = ",".join(texts[:_SHOWN]), len(texts) - _SHOWN
    return f"{shown} + {more} more..." if more > 0 else shown


def _ingress_class(obj: JsonObject, now: datetime) -> list[JsonValue]:
    parameters = mapping(obj, "spec", "parameters")
    group = text(parameters, "apiGroup")
    kind = text(parameters, "kind") + (f".{group}" if group else "")
    shown = f"{kind}/{text(parameters, 'name')}" if parameters else NONE
    return [name_of(obj), text(obj, "spec", "controller"), shown, age(obj, now)]


def _endpoints(obj: JsonObject, now: datetime) -> list[JsonValue]:
    endpoints: list[str] = []
    for subset in mappings(obj, "subsets"):
        addresses = [text(entry, "ip") for entry in mappings(subset, "addresses")]
        ports = [number(entry, "port") for entry in mappings(subset, "ports")]
        endpoints += [f"{address}:{port}" for port in ports for address in addresses] or addresses
    return [name_of(obj), shortened(endpoints) or NONE, age(obj, now)]


def _slice(obj: JsonObject, now: datetime) -> list[JsonValue]:
    ports = [str(at(entry, "port") or text(entry, "name") or "*") for entry in mappings(obj, "ports")]
    addresses = [address for entry in mappings(obj, "endpoints") for address in texts(entry, "addresses")]
    return [
        name_of(obj),
        text(obj, "addressType"),
        shortened(ports) or UNSET,
        shortened(addresses) or UNSET,
        age(obj, now),
    ]


def _service_range(obj: JsonObject, now: datetime) -> list[JsonValue]:
    return [name_of(obj), ",".join(texts(obj, "spec", "cidrs")), age(obj, now)]


def _service_address(obj: JsonObject, now: datetime) -> list[JsonValue]:
    """A row with one cell, its age, more than there are columns."""
    parent = mapping(obj, "spec", "parentRef")
    kind = ".".join(filter(None, (text(parent, "resource"), text(parent, "group")))).lower()
    owner = "/".join(filter(None, (kind, text(parent, "namespace"), text(parent, "name"))))
    return [name_of(obj), owner or NONE, age(obj, now)]


NETWORK: Final[dict[Resource, Printer]] = {
    ("", "endpoints"): Printer(named_columns("Endpoints|Age"), _endpoints),
    ("discovery.k8s.io", "endpointslices"): Printer(named_columns("AddressType|Ports|Endpoints|Age"), _slice),
    ("networking.k8s.io", "ingresses"): Printer(named_columns("Class|Hosts|Address|Ports|Age"), _ingress),
    ("networking.k8s.io", "ingressclasses"): Printer(
        named_columns("Controller|Parameters|Age"), _ingress_class
    ),
    ("networking.k8s.io", "ipaddresses"): Printer(named_columns("ParentRef"), _service_address),
    ("networking.k8s.io", "servicecidrs"): Printer(named_columns("CIDRs|Age"), _service_range),
    ("networking.k8s.io", "networkpolicies"): Printer(named_columns("Pod-Selector|Age"), _policy),
}
