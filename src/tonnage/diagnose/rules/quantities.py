"""ADM-1, ADM-2, ADM-3: devices come whole, with a limit, and requests equal limits.

Source: k8s.io/kubernetes pkg/apis/core/validation (ValidateContainer resources), 1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.cluster.requests import is_extended
from tonnage.diagnose.case import FieldError
from tonnage.model.cluster import Container, Manifest
from tonnage.model.quantity import canonical_quantity
from tonnage.model.verdict import Code, Layer, Reason

_SOURCE: Final = "API server, pod validation"
_INSTEAD: Final = (
    "ask for a whole one; for a part of a GPU use a shared resource (time-slicing or MPS), "
    "a MIG profile such as nvidia.com/mig-1g.10gb, or a ResourceClaim"
)


def errors(manifest: Manifest) -> Iterator[FieldError]:
    """Everything wrong with quantities of extended resources, container by container."""
    for section, containers in (
        ("containers", manifest.pod.containers),
        ("initContainers", manifest.pod.init_containers),
    ):
        for index, container in enumerate(containers):
            yield from _of(container, f"{manifest.prefix}spec.{section}[{index}].resources")


def _of(container: Container, where: str) -> Iterator[FieldError]:
    for name in sorted(filter(is_extended, container.limits)):
        yield from _fraction(container, "limits", name, where)
    for name in sorted(filter(is_extended, container.requests)):
        yield from _fraction(container, "requests", name, where)
        yield from _unequal(container, name, where)


def _fraction(container: Container, section: str, name: str, where: str) -> Iterator[FieldError]:
    """A limit that stands alone is copied to the requests first, so it is complained about twice."""
    written = section if section == "limits" or name in container.requested else "limits"
    text = next((o.text for o in container.odd if (o.section, o.resource) == (written, name)), "")
    if not text:
        return
    quantity = canonical_quantity(text)
    reason = Reason(
        Code.NOT_AN_INTEGER,
        Layer.ADMISSION,
        f"Container {container.name}",
        f"{name}: {text} is no whole number; devices cannot be asked for in parts",
        {"resource": name, "value": text, "field": f"{where}.{section}[{name}]"},
        _INSTEAD,
        _SOURCE,
    )
    error = f'Invalid value: "{quantity}": must be an integer'
    yield FieldError(f"{where}.{section}[{name}]", error, reason)


def _unequal(container: Container, name: str, where: str) -> Iterator[FieldError]:
    limit, request = container.limits.get(name), container.requests[name]
    if limit is None:
        reason = Reason(
            Code.LIMIT_MISSING,
            Layer.ADMISSION,
            f"Container {container.name}",
            f"{name} stands under requests alone; a device needs a limit",
            {"resource": name, "request": request, "field": f"{where}.limits"},
            f"put {name}: {request} under limits (the request then follows by itself)",
            _SOURCE,
        )
        error = "Required value: Limit must be set for non overcommitable resources"
        yield FieldError(f"{where}.limits", error, reason)
    elif request != limit:
        reason = Reason(
            Code.REQUEST_LIMIT_UNEQUAL,
            Layer.ADMISSION,
            f"Container {container.name}",
            f"{name} is {request} under requests and {limit} under limits; for a device they must be equal",
            {"resource": name, "request": request, "limit": limit, "field": f"{where}.requests"},
            f"write {name} once, under limits",
            _SOURCE,
        )
        error = f'Invalid value: "{request}": must be equal to {name} limit of {limit}'
        yield FieldError(f"{where}.requests", error, reason)
