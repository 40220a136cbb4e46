"""What a client is warned of besides its own mistakes: old versions, and kinds that nothing here runs."""

from __future__ import annotations

from typing import Final

from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.resource_names import JOB
from tonnage.twin.apiserver.store import Resource

IDLE_PREFIX: Final = "on this twin"
_DEPRECATED: Final[dict[tuple[str, str, str], str]] = {
    ("", "v1", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "v1", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""By group, version and plural. Source: lifecycle markers of k8s.io/api (v1.35)."""
_IDLE: Final[dict[Resource, str]] = {
    ("resource.k8s.io", "resourceclaims"): "nothing allocates a ResourceClaim",
    ("resource.k8s.io", "resourceclaimtemplates"): "nothing allocates a template's claims",
}
"""Kinds that look alive on a cluster and are objects only here; who gives one life takes its line away."""


def deletion_cautions(request: Request, propagation: str) -> tuple[str, ...]:
    """Texts of Warning headers for a deletion."""
    if request.resource != JOB or propagation:
        return ()
    preserved = "child pods are preserved by default when jobs are deleted"
    advice = "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan"
    return (f"{preserved}; {advice} to suppress this warning",)


def cautions(request: Request) -> tuple[str, ...]:
    """Texts of Warning headers for a request, whatever comes of it."""
    row = request.served.row
    found = []
    if old := _DEPRECATED.get((row.group, row.version, row.plural)):
        found.append(old)
    if request.served.custom is not None and request.served.custom.deprecation:
        found.append(request.served.custom.deprecation)
    if request.verb == "create" and not request.subresource and (why := _IDLE.get(request.resource)):
        found.append(f"{IDLE_PREFIX} {why}; the object is only kept")
    return tuple(found)
