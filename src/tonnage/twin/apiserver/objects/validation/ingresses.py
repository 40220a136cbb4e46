"""Ingresses and their classes.

Source: pkg/apis/networking/validation (v1.35).
"""

from __future__ import annotations

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
from tonnage.twin.apiserver.objects.validation.fields import Found, domain_prefixed, unchanged
from tonnage.twin.apiserver.objects.validation.network import load_balancer_ingress, not_an_address

_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")
_LONGEST_CONTROLLER: Final = 250


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
