"""What a changed service keeps without being told, and what it loses with its type.

Source: pkg/registry/core/service (storage/storage.go: patchAllocatedValues, normalizeClusterIPs;
strategy.go: dropTypeDependentFields), v1.35.
"""

from __future__ import annotations

from tonnage.decide.kubernetes.api.validation.network.services import is_reachable, needs_health_check
from tonnage.model.json import JsonObject
from tonnage.model.json_access import items, mappings, number, text


def needs_address(spec: JsonObject) -> bool:
    """Whether a service is more than a name."""
    return text(spec, "type") != "ExternalName"


def needs_ports(spec: JsonObject) -> bool:
    """Whether a service has ports on the nodes."""
    return text(spec, "type") in ("NodePort", "LoadBalancer")


def keep_given(spec: JsonObject, before: JsonObject) -> None:
    """Give a service, sent without them, the address and the ports that it was given."""
    if not before:
        return
    if needs_address(before) and needs_address(spec):
        for key in ("clusterIP", "clusterIPs"):
            if not spec.get(key) and before.get(key):
                spec[key] = before[key]
    if _is_given_ports(before) and _is_given_ports(spec):
        used = _node_ports(before) & _node_ports(spec)
        ports_before = {text(port, "name"): number(port, "nodePort") for port in mappings(before, "ports")}
        for port in mappings(spec, "ports"):
            node_port = ports_before.get(text(port, "name"), 0)
            if not number(port, "nodePort") and node_port and node_port not in used:
                port["nodePort"] = node_port
    if needs_health_check(before) and needs_health_check(spec) and not number(spec, "healthCheckNodePort"):
        spec["healthCheckNodePort"] = number(before, "healthCheckNodePort")


def _is_given_ports(spec: JsonObject) -> bool:
    return needs_ports(spec) and spec.get("allocateLoadBalancerNodePorts") is not False


def _node_ports(spec: JsonObject) -> set[int]:
    return {node_port for port in mappings(spec, "ports") if (node_port := number(port, "nodePort"))}


def pair_addresses(spec: JsonObject, before: JsonObject) -> None:
    """Let the list of addresses follow the single one of a client that knows no list."""
    address, listed = text(spec, "clusterIP"), items(spec, "clusterIPs")
    was, listed_before = text(before, "clusterIP"), items(before, "clusterIPs")
    if not before:
        if address and not listed:
            spec["clusterIPs"] = [address]
    elif address == was:
        if listed_before and not listed:
            spec["clusterIPs"] = list(listed_before)
    elif listed == listed_before:
        if address:
            spec["clusterIPs"] = [address]
        else:
            spec.pop("clusterIPs", None)


def drop_for_type(spec: JsonObject, before: JsonObject) -> None:
    """Drop what a new type has no use for, where the writer has left it as it was."""
    if not needs_address(spec):
        spec.pop("internalTrafficPolicy", None)
    if not before:
        return
    if needs_address(before) and not needs_address(spec):
        if spec.get("clusterIP") == before.get("clusterIP"):
            _drop_kept(spec, before, "clusterIPs")
        if "clusterIPs" not in spec:
            spec.pop("clusterIP", None)
        _drop_kept(spec, before, "ipFamilies")
        _drop_kept(spec, before, "ipFamilyPolicy")
    if needs_ports(before) and not needs_ports(spec) and _node_ports(spec) <= _node_ports(before):
        for port in mappings(spec, "ports"):
            port.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec):
        _drop_kept(spec, before, "healthCheckNodePort")
    if text(before, "type") == "LoadBalancer" != text(spec, "type"):
        _drop_kept(spec, before, "allocateLoadBalancerNodePorts")
        _drop_kept(spec, before, "loadBalancerClass")
    if is_reachable(before) and not is_reachable(spec):
        _drop_kept(spec, before, "externalTrafficPolicy")


def _drop_kept(spec: JsonObject, before: JsonObject, key: str) -> None:
    if spec.get(key) == before.get(key):
        spec.pop(key, None)
