"""ADM-1, ADM-2, ADM-3: devices come whole, with a limit, and requests equal limits.

Source: k8s.io/kubernetes pkg/apis/core/validation (validateContainerResourceRequirements), 1.35.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.diagnose.case import ManifestFieldError
from tonnage.model.kubernetes.cluster import Manifest, WrittenAmounts
from tonnage.model.kubernetes.name_words import wrong_in_container_resource
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.reasons.pod.admission import (
    LimitMissing,
    QuantityNegative,
    RequestLimitUnequal,
    ResourceNameInvalid,
    ResourceNotInteger,
)

_HUGE_PAGES: Final = "hugepages-"
_SOURCE: Final = "API server, pod validation"
_INSTEAD: Final = (
    "ask for a whole one; for a part of a GPU use a shared resource (time-slicing or MPS), "
    "a MIG profile such as nvidia.com/mig-1g.10gb, or a ResourceClaim"
)


def errors(manifest: Manifest) -> Iterator[ManifestFieldError]:
    """Everything wrong with the amounts that containers ask for, container by container."""
    for written in manifest.amounts:
        yield from of(written)


def of(written: WrittenAmounts) -> Iterator[ManifestFieldError]:
    """What is wrong with one container's. A limit that stands alone counts as a request, too, and is said
    of twice.
    """
    requests = {**written.limits, **written.requests}
    for name, text in sorted(written.limits.items()):
        yield from _name(written, f"limits[{name}]", name)
        yield from _amount(written, f"limits[{name}]", name, text)
    for name, text in sorted(requests.items()):
        yield from _name(written, f"requests[{name}]", name)
        yield from _amount(written, f"requests[{name}]", name, text)
        limit = written.limits.get(name)
        if limit is not None:
            yield from _against_limit(written, name, text, limit)
        elif not _may_exceed(name):
            yield _without_limit(written, name, text)


def _may_exceed(name: str) -> bool:
    """Whether a limit may be above the request: of devices and huge pages it may not."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith(_HUGE_PAGES)


def _name(written: WrittenAmounts, field: str, name: str) -> Iterator[ManifestFieldError]:
    where = f"{written.where}.{field}"
    for why in wrong_in_container_resource(name):
        message = f"{name[:100]} is not a resource that a container can ask for"
        near = name.removeprefix("requests.").removeprefix("limits.")
        remedy = f"write {near}" if near != name else "write domain/name, such as nvidia.com/gpu"
        reason = ResourceNameInvalid(
            subject=f"Container {written.container}",
            message=message,
            remedy=remedy,
            source=_SOURCE,
            resource=name,
            field=where,
        )
        yield ManifestFieldError(where, f"Invalid value: {json.dumps(name)}: {why}", reason)


def _amount(written: WrittenAmounts, field: str, name: str, text: str) -> Iterator[ManifestFieldError]:
    value = parse_quantity(text)
    where = f"{written.where}.{field}"
    if value < 0:
        negative = QuantityNegative(
            subject=f"Container {written.container}",
            message=f"{name}: {text} is below zero",
            remedy="ask for 0 or more",
            source=_SOURCE,
            resource=name,
            value=text,
            field=where,
        )
        yield ManifestFieldError(
            where, f'Invalid value: "{text}": must be greater than or equal to 0', negative
        )
    if is_extended(name) and value.denominator != 1:
        part = ResourceNotInteger(
            subject=f"Container {written.container}",
            message=f"{name}: {text} is not a whole number; devices cannot be divided in a request",
            remedy=_INSTEAD,
            source=_SOURCE,
            resource=name,
            value=text,
            field=where,
        )
        yield ManifestFieldError(where, f'Invalid value: "{text}": must be an integer', part)


def _against_limit(written: WrittenAmounts, name: str, text: str, limit: str) -> Iterator[ManifestFieldError]:
    requested, allowed = parse_quantity(text), parse_quantity(limit)
    where = f"{written.where}.requests"
    if not _may_exceed(name) and requested != allowed:
        message = f"{name} is {text} under requests and {limit} under limits; for a device they must be equal"
        error, remedy = f"must be equal to {name} limit of {limit}", f"write {name} once, under limits"
    elif requested > allowed:
        message = f"{name} is {text} under requests and only {limit} under limits"
        error = f"must be less than or equal to {name} limit of {limit}"
        remedy = f"raise the limit of {name} to {text}, or lower the request"
    else:
        return
    reason = RequestLimitUnequal(
        subject=f"Container {written.container}",
        message=message,
        remedy=remedy,
        source=_SOURCE,
        resource=name,
        request=text,
        limit=limit,
        field=where,
    )
    yield ManifestFieldError(where, f'Invalid value: "{text}": {error}', reason)


def _without_limit(written: WrittenAmounts, name: str, text: str) -> ManifestFieldError:
    where = f"{written.where}.limits"
    message = f"{name} is set under requests only; a device needs a limit"
    remedy = f"put {name}: {text} under limits (the request defaults to it)"
    reason = LimitMissing(
        subject=f"Container {written.container}",
        message=message,
        remedy=remedy,
        source=_SOURCE,
        resource=name,
        request=text,
        field=where,
    )
    return ManifestFieldError(
        where, "Required value: Limit must be set for non overcommitable resources", reason
    )
