"""Ingresses and their classes, network policies, ranges and addresses of services.

Source: pkg/apis/networking/validation (v1.35).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.well_known import OLD_INGRESS_CLASS
from tonnage.twin.apiserver.access import at, items, mapping, mappings, number, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import (
    complaints,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from tonnage.twin.apiserver.objects.validation.fields import (
    IMMUTABLE,
    Found,
    domain_prefixed,
    label_selector,
    unchanged,
)
from tonnage.twin.apiserver.objects.validation.network import (
    legacy_range,
    load_balancer_ingress,
    not_an_address,
    parsed,
    parsed_range,
)

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")
_LONGEST_CONTROLLER: Final = 250
_POLICY_TYPES: Final = ("Ingress", "Egress")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TWO_RANGES: Final = (
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
)


def ingress(obj: JsonObject) -> Found:
    """A new Ingress."""
    yield from _ingress(mapping(obj, "spec"), secrets=True)
    annotated = at(obj, "metadata", "annotations", OLD_INGRESS_CLASS)
    name = at(obj, "spec", "ingressClassName")
    if annotated is not None and name is not None and annotated != name:
        words = "must match `ingressClassName` when both are specified"
        yield invalid(f"annotations.{OLD_INGRESS_CLASS}", annotated, words)


def ingress_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed Ingress; names of secrets that were wrong before may stay."""
    known = [text(one, "secretName") for one in mappings(old, "spec", "tls")]
    yield from _ingress(
        mapping(new, "spec"), secrets=not any(names.dns_subdomain(one) for one in known if one)
    )


def ingress_status(new: JsonObject, old: JsonObject) -> Found:
    """Where an Ingress is answered."""
    known = {text(one, "ip") for one in mappings(old, "status", "loadBalancer", "ingress")}
    found = mappings(new, "status", "loadBalancer", "ingress")
    yield from load_balancer_ingress(found, "status.loadBalancer.ingress", known)


def _ingress(spec: JsonObject, *, secrets: bool) -> Found:
    backend = spec.get("defaultBackend")
    if not items(spec, "rules") and backend is None:
        words = "either `defaultBackend` or `rules` must be specified"
        yield invalid("spec", spec.get("rules"), words)
    if isinstance(backend, dict):
        yield from _backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(mappings(spec, "rules")):
        yield from _rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(mappings(spec, "tls")):
        path = f"spec.tls[{index}]"
        for place, host in enumerate(texts(tls, "hosts")):
            yield from _host(host, f"{path}.hosts[{place}]")
        if secrets and (name := text(tls, "secretName")):
            yield from complaints(f"{path}.secretName", name, names.dns_subdomain(name))
    if isinstance(named := spec.get("ingressClassName"), str):
        yield from complaints("spec.ingressClassName", named, names.dns_subdomain(named))


def _host(host: str, path: str) -> Found:
    rule = names.wildcard_subdomain if "*" in host else names.dns_subdomain
    yield from complaints(path, host, rule(host))


def _rule(rule: JsonObject, path: str) -> Found:
    if host := text(rule, "host"):
        yield from not_an_address(host, f"{path}.host")
        yield from _host(host, f"{path}.host")
    if not isinstance(rule.get("http"), dict):
        return
    paths = mappings(rule, "http", "paths")
    if not paths:
        yield required(f"{path}.http.paths")
    for index, one in enumerate(paths):
        yield from _path(one, f"{path}.http.paths[{index}]")


def _path(one: JsonObject, path: str) -> Found:
    kind, shown, where = one.get("pathType"), text(one, "path"), f"{path}.path"
    if kind is None:
        yield required(f"{path}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield unsupported(f"{path}.pathType", kind, _PATH_TYPES)
    elif not shown.startswith("/") and (shown or kind != "ImplementationSpecific"):
        yield invalid(where, shown, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _BAD_PARTS:
            if part in shown:
                yield invalid(where, shown, f"must not contain '{part}'")
        for end in _BAD_ENDS:
            if shown.endswith(end):
                yield invalid(where, shown, f"cannot end with '{end}'")
    yield from _backend(mapping(one, "backend"), f"{path}.backend")


def _backend(backend: JsonObject, path: str) -> Found:
    resource, service = (backend.get(key) for key in ("resource", "service"))
    if resource is not None and service is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif isinstance(resource, dict):
        yield from _reference(resource, f"{path}.resource")
    elif isinstance(service, dict):
        yield from _service(service, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _service(service: JsonObject, path: str) -> Found:
    name, port = text(service, "name"), number(service, "port", "number")
    named = text(service, "port", "name")
    if not name:
        yield required(f"{path}.service.name")
    else:
        yield from complaints(f"{path}.service.name", name, names.dns_label_1035(name))
    if named and port:
        yield invalid(path, "", "cannot set both port name & port number")
    elif named:
        yield from complaints(f"{path}.service.port.name", named, names.port_name(named))
    elif port:
        yield from complaints(f"{path}.service.port.number", port, names.port_number(port))
    else:
        yield required(path, "port name or number is required")


def _reference(found: JsonObject, path: str) -> Found:
    """An object of the same namespace, by its kind and name."""
    if isinstance(group := found.get("apiGroup"), str):
        yield from complaints(f"{path}.apiGroup", group, names.dns_subdomain(group))
    for key in ("kind", "name"):
        if not (value := text(found, key)):
            yield required(f"{path}.{key}")
        else:
            yield from complaints(f"{path}.{key}", value, names.path_segment(value))


def ingress_class(obj: JsonObject) -> Found:
    """An IngressClass."""
    controller, path = text(obj, "spec", "controller"), "spec.controller"
    if len(controller) > _LONGEST_CONTROLLER:
        yield too_long(path, _LONGEST_CONTROLLER)
    yield from domain_prefixed(controller, path)
    parameters = at(obj, "spec", "parameters")
    if isinstance(parameters, dict):
        yield from _parameters(parameters, "spec.parameters")


def ingress_class_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed IngressClass; its controller stays."""
    yield from unchanged(text(new, "spec", "controller"), text(old, "spec", "controller"), "spec.controller")
    yield from ingress_class(new)


def _parameters(found: JsonObject, path: str) -> Found:
    yield from _reference(found, path)
    scope, namespace = text(found, "scope"), found.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        yield unsupported(f"{path}.scope", scope, ("Cluster", "Namespace"))
    elif scope == "Namespace" and namespace is None:
        yield required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    elif scope == "Namespace":
        yield from complaints(f"{path}.namespace", namespace, names.dns_label(str(namespace)))
    elif namespace is not None:
        yield forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")


def network_policy(obj: JsonObject) -> Found:
    """A new NetworkPolicy."""
    yield from _network_policy(mapping(obj, "spec"), ())


def network_policy_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed NetworkPolicy; ranges that were there before may stay, whatever they are."""
    blocks = [
        mapping(peer, "ipBlock")
        for way, peers in (("ingress", "from"), ("egress", "to"))
        for rule in mappings(old, "spec", way)
        for peer in mappings(rule, peers)
    ]
    known = {shown for block in blocks for shown in (text(block, "cidr"), *texts(block, "except"))}
    yield from _network_policy(mapping(new, "spec"), known)


def _network_policy(spec: JsonObject, known: Container[str]) -> Found:
    yield from label_selector(mapping(spec, "podSelector"), "spec.podSelector")
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(mappings(spec, way)):
            path = f"spec.{way}[{index}]"
            for place, port in enumerate(mappings(rule, "ports")):
                yield from _policy_port(port, f"{path}.ports[{place}]")
            for place, peer in enumerate(mappings(rule, peers)):
                yield from _peer(peer, f"{path}.{peers}[{place}]", known)
    types = texts(spec, "policyTypes")
    if len(types) > len(_POLICY_TYPES):
        yield invalid("spec.policyTypes", list(types), "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(types):
        if kind not in _POLICY_TYPES:
            yield unsupported(f"spec.policyTypes[{index}]", kind, _POLICY_TYPES)


def _policy_port(port: JsonObject, path: str) -> Found:
    protocol, shown, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        yield unsupported(f"{path}.protocol", protocol, _PROTOCOLS)
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


def _peer(peer: JsonObject, path: str, known: Container[str]) -> Found:
    given = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    for key in given:
        if key == "ipBlock":
            yield from _block(mapping(peer, key), f"{path}.{key}", known)
        else:
            yield from label_selector(mapping(peer, key), f"{path}.{key}")
    if not given:
        yield required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _block(block: JsonObject, path: str, known: Container[str]) -> Found:
    shown = text(block, "cidr")
    if not shown:
        yield required(f"{path}.cidr")
        return
    yield from legacy_range(shown, f"{path}.cidr", known)
    whole = parsed_range(shown)
    for index, one in enumerate(texts(block, "except") if whole else ()):
        where, part = f"{path}.except[{index}]", parsed_range(one)
        yield from legacy_range(one, where, known)
        if part is None or whole is None:
            continue
        inside = part.version == whole.version and part.network_address in whole
        if not inside or whole.prefixlen >= part.prefixlen:
            yield invalid(where, one, "must be a strict subset of `cidr`")


def service_range(obj: JsonObject) -> Found:
    """A ServiceCIDR."""
    found, path = texts(obj, "spec", "cidrs"), "spec.cidrs"
    if not found:
        yield required(path, "at least one CIDR required")
        return
    if len(found) > 2:
        yield invalid(path, {"CIDRs": list(found)}, "may only hold up to 2 values")
        return
    for index, shown in enumerate(found):
        yield from _strict_range(shown, f"{path}[{index}]")
    families = [one.version for shown in found if (one := parsed_range(shown))]
    if len(families) == 2 and families[0] == families[1]:
        yield invalid(path, list(found), _TWO_RANGES)


def service_range_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed ServiceCIDR: its ranges stay; one may get a second."""
    found, known = texts(new, "spec", "cidrs"), texts(old, "spec", "cidrs")
    grows = len(known) == 1 and len(found) == 2
    if len(found) != len(known) and not grows:
        yield invalid("spec.cidrs", list(found) or None, IMMUTABLE)
        return
    for index, (shown, was) in enumerate(zip(found, known, strict=False)):
        if shown != was:
            yield invalid(f"spec.cidrs[{index}]", shown, IMMUTABLE)
    if grows:
        yield from service_range(new)


def _strict_range(shown: str, path: str) -> Found:
    found = parsed_range(shown)
    if found is None:
        yield from legacy_range(shown, path)
    elif parsed(shown.partition("/")[0]) != found.network_address:
        yield invalid(path, shown, "must not have bits set beyond the prefix length")
    elif str(found) != shown:
        yield invalid(path, shown, f'must be in canonical form ("{found}")')


def service_address(obj: JsonObject) -> Found:
    """An IPAddress and whose it is."""
    parent, path = at(obj, "spec", "parentRef"), "spec.parentRef"
    if not isinstance(parent, dict):
        yield required(path)
        return
    if group := text(parent, "group"):
        yield from complaints(f"{path}.group", group, names.dns_subdomain(group))
    for key in ("resource", "name"):
        if not text(parent, key):
            yield required(f"{path}.{key}")
    for key in ("resource", "name", "namespace"):
        value = text(parent, key)
        yield from complaints(f"{path}.{key}", value, names.path_segment(value))


def service_address_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed IPAddress: it stays whose it is."""
    yield from unchanged(at(new, "spec", "parentRef"), at(old, "spec", "parentRef"), "spec.parentRef")
