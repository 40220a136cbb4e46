"""What a pod asks for as a whole, against what its containers ask for: cpu and memory.

Source: k8s.io/kubernetes pkg/apis/core/validation (validatePodResources), core/v1 (defaultPodRequests), 1.35.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tonnage.diagnose import quantities
from tonnage.diagnose.case import ManifestFieldError
from tonnage.documents.pods.placement import mapping, mappings
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Manifest, WrittenAmounts
from tonnage.model.kubernetes.quantity import (
    canonical_quantity,
    parse_quantity,
    quantity_format,
    write_quantity,
)
from tonnage.model.reasons.pod.admission import PodLevelResource

_NAMES: Final = ("cpu", "memory")
_SOURCE: Final = "API server, pod validation"


def errors(manifest: Manifest, spec: JsonObject, where: str) -> Iterator[ManifestFieldError]:
    """`where` is the path of the spec."""
    resources = mapping(spec.get("resources"))
    limits, own_requests = _read(resources.get("limits")), _read(resources.get("requests"))
    rows = {
        written_amounts.where: {**written_amounts.limits, **written_amounts.requests}
        for written_amounts in manifest.amounts
    }
    together, at_first = (_together(part, spec, where) for part in (rows, _as_written(spec, where)))
    requests = {**limits, **at_first, **own_requests} if limits else own_requests
    whole = WrittenAmounts("", f"{where}.resources", limits, requests)
    for error in quantities.of(whole):
        yield replace(error, reason=replace(error.reason, subject="Pod"))
    for name, amount in together.items():
        if name in requests and parse_quantity(amount) > parse_quantity(requests[name]):
            text = f"must be greater than or equal to aggregate container requests of {amount}"
            message = f"the pod asks for {requests[name]} of {name}, but its containers for {amount}"
            yield _error(f"{where}.resources.requests[{name}]", requests[name], text, message)
    for index, written in enumerate(
        written_amounts for written_amounts in manifest.amounts if ".containers[" in written_amounts.where
    ):
        for name, amount in sorted(written.limits.items()):
            if name in limits and parse_quantity(amount) > parse_quantity(limits[name]):
                text = f"must be less than or equal to pod limits of {limits[name]}"
                message = f"the limit of {name} of {written.container} is {amount}, the pod's {limits[name]}"
                yield _error(f"{where}.resources.containers[{index}][{name}].limits", amount, text, message)


def _error(path: str, value: str, text: str, message: str) -> ManifestFieldError:
    remedy = "give the pod at least what its containers ask for"
    reason = PodLevelResource(
        subject="Pod",
        message=message,
        remedy=remedy,
        source=_SOURCE,
        field=path,
    )
    return ManifestFieldError(path, f'Invalid value: "{value}": {text}', reason)


def _read(value: JsonValue) -> dict[str, str]:
    """Canonical; what is no quantity is told elsewhere."""
    amounts = {}
    for name, text in mapping(value).items():
        try:
            if name in _NAMES:
                amounts[name] = canonical_quantity(str(text))
        except ValueError:
            continue
    return amounts


def _as_written(spec: JsonObject, where: str) -> dict[str, dict[str, str]]:
    """What each container asks for before any limit range: by that a pod's own requests are completed."""
    return {
        f"{where}.{part}[{index}].resources": {
            **_read(mapping(container.get("resources")).get("limits")),
            **_read(mapping(container.get("resources")).get("requests")),
        }
        for part in ("initContainers", "containers")
        for index, container in mappings(spec.get(part))
    }


def _together(rows: Mapping[str, Mapping[str, str]], spec: JsonObject, where: str) -> dict[str, str]:
    """What all containers ask for at a time, side-cars with them; a limit alone counts as a request."""
    always = {
        f"{where}.initContainers[{index}].resources"
        for index, container in mappings(spec.get("initContainers"))
        if container.get("restartPolicy") == "Always"
    }
    first = [(path in always, row) for path, row in rows.items() if ".initContainers[" in path]
    own = [row for path, row in rows.items() if ".initContainers[" not in path]
    totals = {}
    for name in _NAMES:
        texts = [row[name] for row in rows.values() if name in row]
        if texts:
            most = _most(name, own, first)
            totals[name] = write_quantity(most, quantity_format(texts[0]))
    return totals


def _most(name: str, own: list[Mapping[str, str]], first: list[tuple[bool, Mapping[str, str]]]) -> Fraction:
    """The larger of all that run together, and of each init step with the side-cars before it."""

    def amount(row: Mapping[str, str]) -> Fraction:
        return parse_quantity(row.get(name, "0"))

    beside = peak = Fraction(0)
    for stays, row in first:
        peak = max(peak, beside + amount(row))
        beside += amount(row) if stays else 0
    return max(peak, beside + sum(map(amount, own), Fraction(0)))
