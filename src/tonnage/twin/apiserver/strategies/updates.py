"""What the server makes of a change, kind by kind.

Source: PrepareForUpdate of pkg/registry/*/*/strategy.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.api.strategies.by_kind import (
    TEMPLATE_GENERATION,
    drop_election,
    drop_topology,
    name_secrets,
    name_stored_versions,
)
from tonnage.decide.kubernetes.api.strategies.volumes import pair_sources
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, copied, drop, items, mapping, put, text
from tonnage.model.whole_numbers import whole_number
from tonnage.twin.apiserver.object_store import Resource


def _namespace(namespace: JsonObject, old: JsonObject) -> None:
    drop(namespace, "spec", "finalizers")
    if holders := items(old, "spec", "finalizers"):
        put(namespace, holders, "spec", "finalizers")


def _service(service: JsonObject, _old: JsonObject) -> None:
    if text(service, "spec", "type") != "LoadBalancer":
        put(service, {}, "status", "loadBalancer")


def _signing_request(signing_request: JsonObject, old: JsonObject) -> None:
    signing_request["spec"] = copied(mapping(old, "spec"))


def _count_templates(obj: JsonObject, old: JsonObject) -> None:
    """Count, in an annotation, how often a DaemonSet's pods have been described anew."""
    before = text(old, "metadata", "annotations", TEMPLATE_GENERATION)
    count = 1 if (number := whole_number(before)) is None else number
    count += at(obj, "spec", "template") != at(old, "spec", "template")
    put(obj, str(count), "metadata", "annotations", TEMPLATE_GENERATION)


AT_CHANGE: Final[dict[Resource, Callable[[JsonObject, JsonObject], None]]] = {
    ("", "namespaces"): _namespace,
    ("", "persistentvolumeclaims"): pair_sources,
    ("", "serviceaccounts"): name_secrets,
    ("", "services"): _service,
    ("apiextensions.k8s.io", "customresourcedefinitions"): name_stored_versions,
    ("apps", "daemonsets"): _count_templates,
    ("certificates.k8s.io", "certificatesigningrequests"): _signing_request,
    ("coordination.k8s.io", "leases"): drop_election,
    ("discovery.k8s.io", "endpointslices"): drop_topology,
}
