"""What a client is warned of besides its own mistakes: old versions, and what a deletion leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import JOB

_MOST: Final = 4096
_MOST_EACH: Final = 256
"""Characters of warnings, and of each where all of them would be more."""
_DEPRECATED: Final[dict[tuple[str, str, str], str]] = {
    ("", "v1", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "v1", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""By group, version and plural. Source: lifecycle markers of k8s.io/api (v1.35)."""


def deletion_cautions(request: ApiRequest, propagation: str) -> tuple[str, ...]:
    """Texts of Warning headers for a deletion."""
    if request.resource != JOB or propagation:
        return ()
    preserved = "child pods are preserved by default when jobs are deleted"
    advice = "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan"
    return (f"{preserved}; {advice} to suppress this warning",)


def cautions(request: ApiRequest) -> tuple[str, ...]:
    """Texts of Warning headers for a request, whatever comes of it."""
    row = request.served.row
    texts = []
    if old := _DEPRECATED.get((row.group, row.version, row.plural)):
        texts.append(old)
    if request.served.custom is not None and request.served.custom.deprecation:
        texts.append(request.served.custom.deprecation)
    return tuple(texts)


def bounded(warnings: Sequence[str]) -> tuple[str, ...]:
    """Different warnings as they are told: whole, or each cut where they would be much together.

    Source: k8s.io/apiserver, pkg/endpoints/filters/warning.go (v1.35).
    """
    unique = tuple(dict.fromkeys(warnings))
    if sum(map(len, unique)) <= _MOST:
        return unique
    texts: list[str] = []
    for text in unique:
        if sum(map(len, texts)) >= _MOST:
            break
        texts.append(text[:_MOST_EACH])
    return tuple(texts)
