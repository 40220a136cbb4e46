"""Network policies: whom pods may speak to.

Source: pkg/apis/networking/validation (v1.35).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import (
    FieldErrors,
    label_selector,
    one_of_if_set,
)
from tonnage.decide.kubernetes.api.validation.network.addresses import (
    legacy_range,
    parsed_range,
)
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, text, texts

_POLICY_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


def network_policy(obj: JsonObject) -> FieldErrors:
    """A new NetworkPolicy."""
    yield from _network_policy(mapping(obj, "spec"), ())


def network_policy_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed NetworkPolicy; ranges that were there before may stay, whatever they are."""
    blocks = [
        mapping(peer, "ipBlock")
        for way, peers in (("ingress", "from"), ("egress", "to"))
        for rule in mappings(old, "spec", way)
        for peer in mappings(rule, peers)
    ]
    old_ranges = {shown for block in blocks for shown in (text(block, "cidr"), *texts(block, "except"))}
    yield from _network_policy(mapping(new, "spec"), old_ranges)


def _network_policy(spec: JsonObject, old_ranges: Container[str]) -> FieldErrors:
    yield from label_selector(mapping(spec, "podSelector"), "spec.podSelector")
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(mappings(spec, way)):
            path = f"spec.{way}[{index}]"
            for place, port in enumerate(mappings(rule, "ports")):
                yield from _policy_port(port, f"{path}.ports[{place}]")
            for place, peer in enumerate(mappings(rule, peers)):
                yield from _peer(peer, f"{path}.{peers}[{place}]", old_ranges)
    types = texts(spec, "policyTypes")
    if len(types) > len(_POLICY_TYPES):
        yield invalid("spec.policyTypes", list(types), "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(types):
        if kind not in _POLICY_TYPES:
            yield unsupported(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)


def _policy_port(port: JsonObject, path: str) -> FieldErrors:
    shown, end = port.get("port"), port.get("endPort")
    yield from one_of_if_set(port, "protocol", _PROTOCOLS, path)
    if isinstance(shown, int):
        yield from complaints(f"{path}.port", shown, names.port_number(shown))
        if isinstance(end, int):
            if end < shown:
                yield invalid(f"{path}.endPort", shown, "must be greater than or equal to `port`")
            yield from complaints(f"{path}.endPort", end, names.port_number(end))
        return
    if end is not None:
        why = "non-numeric" if isinstance(shown, str) else "not specified"
        yield invalid(f"{path}.endPort", end, f"may not be specified when `port` is {why}")
    if isinstance(shown, str):
        yield from complaints(f"{path}.port", shown, names.port_name(shown))


def _peer(peer: JsonObject, path: str, old_ranges: Container[str]) -> FieldErrors:
    set_keys = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    for key in set_keys:
        if key == "ipBlock":
            yield from _block(mapping(peer, key), f"{path}.{key}", old_ranges)
        else:
            yield from label_selector(mapping(peer, key), f"{path}.{key}")
    if not set_keys:
        yield required(path, "must specify a peer")
    elif len(set_keys) > 1 and "ipBlock" in set_keys:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _block(block: JsonObject, path: str, old_ranges: Container[str]) -> FieldErrors:
    shown = text(block, "cidr")
    if not shown:
        yield required(f"{path}.cidr")
        return
    yield from legacy_range(shown, f"{path}.cidr", old_ranges)
    whole = parsed_range(shown)
    for index, excluded in enumerate(texts(block, "except") if whole else ()):
        where, part = f"{path}.except[{index}]", parsed_range(excluded)
        yield from legacy_range(excluded, where, old_ranges)
        if part is None or whole is None:
            continue
        inside = part.version == whole.version and part.network_address in whole
        if not inside or whole.prefixlen >= part.prefixlen:
            yield invalid(where, excluded, "must be a strict subset of `cidr`")
