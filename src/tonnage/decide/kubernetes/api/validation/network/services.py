"""Services: ports, addresses, what goes with which type, and what an update keeps.

Source: pkg/apis/core/validation (validateService and what it calls), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import (
    PROTOCOLS,
    FieldErrors,
    labels,
    one_of,
    one_of_if_set,
)
from tonnage.decide.kubernetes.api.validation.network.addresses import (
    endpoint_address,
    legacy_address,
    legacy_range,
    parsed,
)
from tonnage.decide.kubernetes.api.validation.pods.containers import port_or_name
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, items, mapping, mappings, number, text, texts
from tonnage.model.kubernetes.well_known import TOPOLOGY_HINTS, TOPOLOGY_MODE

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_OF_LOAD_BALANCERS: Final = "may only be used when `type` is 'LoadBalancer'"
_FAMILIES: Final = ("IPv4", "IPv6")
_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_TRAFFIC: Final = ("Cluster", "Local")
_NEARNESS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY_S: Final = 86400
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_IMMUTABLE: Final = "may not change once set"


def is_headless(spec: JsonObject) -> bool:
    """Whether a service has no address on purpose."""
    return items(spec, "clusterIPs") == ["None"]


def is_reachable(spec: JsonObject) -> bool:
    """Whether a service can be reached from outside of the cluster."""
    kind = text(spec, "type")
    return kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and bool(items(spec, "externalIPs")))


def needs_health_check(spec: JsonObject) -> bool:
    """Whether a load balancer asks each node whether it has an endpoint."""
    return text(spec, "type") == "LoadBalancer" and text(spec, "externalTrafficPolicy") == "Local"


def service(obj: JsonObject) -> FieldErrors:
    """A new Service."""
    yield from _service(obj, None)


def service_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed Service: its addresses and families stay, unless it becomes or was an ExternalName."""
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    if "ExternalName" not in (text(spec, "type"), text(before, "type")):
        yield from _kept_addresses(spec, before)
        yield from _kept_families(spec, before)
    if text(spec, "type") == text(before, "type") == "LoadBalancer":
        chosen = spec.get("loadBalancerClass")
        if chosen != before.get("loadBalancerClass"):
            yield invalid("spec.loadBalancerClass", chosen, _IMMUTABLE)
    yield from _load_balancer_class(spec)
    port, was = number(spec, "healthCheckNodePort"), number(before, "healthCheckNodePort")
    if needs_health_check(spec) and needs_health_check(before) and port != was:
        yield forbidden("spec.healthCheckNodePort", "field is immutable")
    yield from _service(new, old)


def _service(obj: JsonObject, old: JsonObject | None) -> FieldErrors:
    spec, before = mapping(obj, "spec"), mapping(old, "spec")
    kind, ports, headless = text(spec, "type"), mappings(spec, "ports"), is_headless(spec)
    mode, hints = (at(obj, "metadata", "annotations", key) for key in (TOPOLOGY_MODE, TOPOLOGY_HINTS))
    if mode is not None and hints is not None and mode != hints:
        words = f"must match annotations[{TOPOLOGY_HINTS}] when both are specified"
        yield invalid(f"metadata.annotations[{TOPOLOGY_MODE}]", mode, words)
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and headless:
        yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        yield from _external_name(spec)
    yield from _ports(ports)
    yield from labels(mapping(spec, "selector"), "spec.selector")
    yield from _affinity(spec)
    yield from addresses(spec, before)
    yield from _external_addresses(spec, before)
    yield from one_of(kind, _TYPES, "spec.type")
    yield from _ports_once(kind, ports)
    yield from _source_ranges(obj, old)
    yield from _of_load_balancers(spec)
    yield from _traffic(spec)


def _external_name(spec: JsonObject) -> FieldErrors:
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key):
            yield forbidden(f"spec.{key}", "may not be set for ExternalName services")
    name = text(spec, "externalName").removesuffix(".")
    if not name:
        yield required("spec.externalName")
    else:
        yield from complaints("spec.externalName", name, names.dns_subdomain(name))


def _ports(ports: list[JsonObject]) -> FieldErrors:
    seen_names: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", text(port, "name")
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name:
            yield from complaints(f"{path}.name", name, names.dns_label(name))
            if name in seen_names:
                yield duplicate(f"{path}.name", name)
            seen_names.add(name)
        yield from complaints(f"{path}.port", number(port, "port"), names.port_number(number(port, "port")))
        yield from one_of(text(port, "protocol"), PROTOCOLS, f"{path}.protocol")
        yield from port_or_name(port.get("targetPort"), f"{path}.targetPort")
        if port.get("appProtocol") is not None:
            protocol = text(port, "appProtocol")
            yield from complaints(f"{path}.appProtocol", protocol, names.qualified_name(protocol))


def _affinity(spec: JsonObject) -> FieldErrors:
    affinity, path = text(spec, "sessionAffinity"), "spec.sessionAffinityConfig"
    yield from one_of(affinity, ("ClientIP", "None"), "spec.sessionAffinity")
    if affinity == "None" and spec.get("sessionAffinityConfig") is not None:
        yield forbidden(path, "must not be set when session affinity is None")
    if affinity == "ClientIP":
        seconds = number(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds")
        if not 0 < seconds <= _LONGEST_AFFINITY_S:
            words = f"must be greater than 0 and less than {_LONGEST_AFFINITY_S}"
            yield invalid(f"{path}.clientIP.timeoutSeconds", seconds, words)


def addresses(spec: JsonObject, before: JsonObject) -> FieldErrors:
    """Addresses in the cluster and their families, which go together."""
    if text(spec, "type") == "ExternalName":
        return
    first, cluster_ips, path = text(spec, "clusterIP"), texts(spec, "clusterIPs"), "spec.clusterIPs"
    if first and not cluster_ips:
        yield required(path)
    elif first and cluster_ips[0] != first:
        yield invalid(path, list(cluster_ips), "first value must match `clusterIP`")
    elif cluster_ips and not first:
        yield invalid(path, list(cluster_ips), "must be empty when `clusterIP` is not specified")
    yield from _families(spec)
    wrong = list(_well_formed(cluster_ips, texts(before, "clusterIPs"), path))
    yield from wrong
    if len(cluster_ips) > 2:
        yield invalid(path, list(cluster_ips), "may only hold up to 2 values")
    if wrong:
        return
    if len(cluster_ips) > 1 and {_family(address) for address in cluster_ips} != set(_FAMILIES):
        yield invalid(path, list(cluster_ips), "may specify no more than one IP for each IP family")
    if not is_headless(spec):
        for index, (address, family) in enumerate(zip(cluster_ips, texts(spec, "ipFamilies"), strict=False)):
            if family in _FAMILIES and family != _family(address):
                words = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
                yield invalid(f"{path}[{index}]", address, words)


def _families(spec: JsonObject) -> FieldErrors:
    seen_families: set[str] = set()
    for index, family in enumerate(texts(spec, "ipFamilies")):
        path = f"spec.ipFamilies[{index}]"
        if family not in _FAMILIES:
            yield unsupported(path, family, _FAMILIES)
        if family in seen_families:
            yield duplicate(path, family)
        seen_families.add(family)
    yield from one_of_if_set(spec, "ipFamilyPolicy", _FAMILY_POLICIES, "spec")


def _well_formed(cluster_ips: list[str], ips_before: list[str], path: str) -> FieldErrors:
    for index, address in enumerate(cluster_ips):
        if index == 0 and address == "None":
            if len(cluster_ips) > 1:
                yield invalid(path, list(cluster_ips), "'None' must be the first and only value")
        elif address not in ips_before:
            yield from legacy_address(address, f"{path}[{index}]")


def _family(address: str) -> str:
    parsed_address = parsed(address)
    return "" if parsed_address is None else f"IPv{parsed_address.version}"


def _external_addresses(spec: JsonObject, before: JsonObject) -> FieldErrors:
    ips_before = texts(before, "externalIPs")
    for index, address in enumerate(texts(spec, "externalIPs")):
        path = f"spec.externalIPs[{index}]"
        wrong = [] if address in ips_before else list(legacy_address(address, path))
        yield from wrong or endpoint_address(address, path)


def _ports_once(kind: str, ports: list[JsonObject]) -> FieldErrors:
    """Ports of nodes where the type has them; no number twice for a protocol."""
    for index, port in enumerate(ports):
        if kind == "ClusterIP" and number(port, "nodePort"):
            yield forbidden(f"spec.ports[{index}].nodePort", "may not be used when `type` is 'ClusterIP'")
    seen_ports: set[tuple[str, str, int]] = set()
    for key in ("nodePort", "port"):
        for index, port in enumerate(ports):
            protocol, written = text(port, "protocol"), number(port, key)
            if (key, protocol, written) in seen_ports and key == "nodePort":
                yield duplicate(f"spec.ports[{index}].nodePort", written)
            elif (key, protocol, written) in seen_ports:
                shown: JsonObject = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": written}
                yield duplicate(f"spec.ports[{index}]", {**shown, "TargetPort": 0, "NodePort": 0})
            if written or key == "port":
                seen_ports.add((key, protocol, written))


def _source_ranges(obj: JsonObject, old: JsonObject | None) -> FieldErrors:
    """From where a load balancer takes connections: in the spec, or in an annotation of old."""
    spec, path = mapping(obj, "spec"), "spec.LoadBalancerSourceRanges"
    written = texts(spec, "loadBalancerSourceRanges")
    annotated = at(obj, "metadata", "annotations", _RANGES)
    if not written and not isinstance(annotated, str):
        return
    if not written:
        path = f"metadata.annotations[{_RANGES}]"
    if text(spec, "type") != "LoadBalancer":
        yield forbidden(path, _OF_LOAD_BALANCERS)
    if written:
        ranges_before = {
            source_range.strip() for source_range in texts(old, "spec", "loadBalancerSourceRanges")
        }
        for index, source_range in enumerate(written):
            yield from legacy_range(source_range.strip(), f"{path}[{index}]", ranges_before)
    elif annotated != at(old, "metadata", "annotations", _RANGES) and str(annotated).strip():
        for source_range in str(annotated).split(","):
            yield from legacy_range(source_range.strip(), path)


def _of_load_balancers(spec: JsonObject) -> FieldErrors:
    if spec.get("allocateLoadBalancerNodePorts") is not None and text(spec, "type") != "LoadBalancer":
        yield forbidden("spec.allocateLoadBalancerNodePorts", _OF_LOAD_BALANCERS)
    yield from _load_balancer_class(spec)


def _load_balancer_class(spec: JsonObject) -> FieldErrors:
    name, path = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if not isinstance(name, str):
        return
    if text(spec, "type") != "LoadBalancer":
        yield forbidden(path, _OF_LOAD_BALANCERS)
    else:
        yield from complaints(path, name, names.qualified_name(name))


def _traffic(spec: JsonObject) -> FieldErrors:
    outside, port = text(spec, "externalTrafficPolicy"), number(spec, "healthCheckNodePort")
    if is_reachable(spec):
        yield from one_of(outside, _TRAFFIC, "spec.externalTrafficPolicy")
    elif outside:
        words = "may only be set for externally-accessible services"
        yield invalid("spec.externalTrafficPolicy", outside, words)
    path = "spec.healthCheckNodePort"
    if not needs_health_check(spec):
        if port:
            words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            yield invalid(path, port, words)
    elif not port:
        yield required(path)
    else:
        yield from complaints(path, port, names.port_number(port))
    yield from one_of_if_set(spec, "internalTrafficPolicy", _TRAFFIC, "spec")
    yield from one_of_if_set(spec, "trafficDistribution", _NEARNESS, "spec")


def _kept_addresses(spec: JsonObject, before: JsonObject) -> FieldErrors:
    """The first address stays; a second may come, and go where the policy says so."""
    if is_headless(spec) and is_headless(before):
        return
    cluster_ips, ips_before = items(spec, "clusterIPs"), items(before, "clusterIPs")
    shown = list(cluster_ips) if cluster_ips else None
    if len(cluster_ips) == len(ips_before):
        for index, (address, was) in enumerate(zip(cluster_ips, ips_before, strict=True)):
            if address != was:
                yield invalid(f"spec.clusterIPs[{index}]", shown, _IMMUTABLE)
        return
    if not cluster_ips:
        yield invalid("spec.clusterIPs[0]", shown, "primary clusterIP can not be unset")
    elif ips_before and cluster_ips[0] != ips_before[0]:
        yield invalid("spec.clusterIPs[0]", shown, _IMMUTABLE)
    if len(cluster_ips) == 1 and len(ips_before) > 1:
        yield from _released(spec, "clusterIP")


def _kept_families(spec: JsonObject, before: JsonObject) -> FieldErrors:
    """The same of the families."""
    if is_headless(spec) or is_headless(before):
        return
    families, families_before, path = (
        items(spec, "ipFamilies"),
        items(before, "ipFamilies"),
        "spec.ipFamilies[0]",
    )
    if len(families) == len(families_before):
        for family, was in zip(families, families_before, strict=True):
            if family != was:
                yield invalid(path, list(families), _IMMUTABLE)
        return
    if len(families) < len(families_before) and not items(spec, "clusterIPs"):
        yield invalid(path, list(families) or None, "primary ipFamily can not be unset")
    if families and families_before and families[0] != families_before[0]:
        yield invalid(path, items(spec, "clusterIPs"), _IMMUTABLE)
    if len(families) == 1 and len(families_before) > 1:
        yield from _released(spec, "ipFamily")


def _released(spec: JsonObject, field: str) -> FieldErrors:
    if (policy := spec.get("ipFamilyPolicy")) != "SingleStack":
        words = f"must be set to 'SingleStack' when releasing the secondary {field}"
        yield invalid("spec.ipFamilyPolicy", policy, words)
