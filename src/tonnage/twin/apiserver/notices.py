"""What the server warns the writer of a valid object of, by kind.

Source: pkg/api/service/warnings.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import at, items, mapping, text
from tonnage.twin.apiserver.store import Resource

_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_MODE: Final = "service.kubernetes.io/topology-mode"


def notices(resource: Resource, obj: JsonObject) -> Iterator[str]:
    """Texts of Warning headers for an object that is written."""
    rule = _RULES.get(resource)
    if rule is not None:
        yield from rule(obj)


def _service(obj: JsonObject) -> Iterator[str]:
    spec = mapping(obj, "spec")
    if at(obj, "metadata", "annotations", _HINTS) is not None:
        yield f"annotation {_HINTS} is deprecated, please use {_MODE} instead"
    kind = text(spec, "type")
    if kind == "ClusterIP" and text(spec, "clusterIP") == "None":
        if text(spec, "loadBalancerIP"):
            yield "spec.loadBalancerIP is ignored for headless services"
        if items(spec, "externalIPs"):
            yield "spec.externalIPs is ignored for headless services"
        if text(spec, "sessionAffinity") != "None":
            yield "spec.SessionAffinity is ignored for headless services"
    if kind == "ExternalName" and items(spec, "externalIPs"):
        yield f'spec.externalIPs is ignored when spec.type is "{kind}"'
    if kind != "ExternalName" and text(spec, "externalName"):
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if text(spec, "trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


_RULES: Final[dict[Resource, Callable[[JsonObject], Iterator[str]]]] = {("", "services"): _service}
