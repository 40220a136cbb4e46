"""LimitRange: what containers get that ask for nothing, and which pods and volume claims are refused.

Source: plugin/pkg/admission/limitranger of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tonnage.decide.kubernetes.admission.limit_ranges import breaches, claim_breaches
from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, put, text
from tonnage.model.kubernetes.cluster import Manifest, WrittenAmounts
from tonnage.model.kubernetes.policies import LimitRange
from tonnage.model.kubernetes.quantity import canonical_quantity
from tonnage.reading.cluster import snapshot_from
from tonnage.twin.apiserver.object_store import ObjectStore, Resource
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import CLAIM, POD
from tonnage.twin.apiserver.statuses import forbidden
from tonnage.wire.objects import Pod
from tonnage.wire.policies import LimitRange as WrittenLimits

LIMIT_RANGE: Final[Resource] = ("", "limitranges")
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_PARTS: Final = (("containers", "container"), ("initContainers", "init container"))


class LimitDefaults:
    """A new pod's containers get the amounts that they do not name."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Complete a new pod."""
        if request.resource != POD or request.subresource or obj is None or old is not None:
            return
        for stored in self._store.list(LIMIT_RANGE, namespace=request.namespace):
            items = [
                limit for limit in mappings(stored.object, "spec", "limits") if limit["type"] == "Container"
            ]
            added = [
                words
                for part, kind in _PARTS
                for container in mappings(obj, "spec", part)
                for words in _completed(container, items, kind)
            ]
            if added:
                message = f"LimitRanger plugin set: {'; '.join(added)}"
                put(obj, message, "metadata", "annotations", _ANNOTATION)


def _completed(container: JsonObject, items: list[JsonObject], kind: str) -> Iterator[str]:
    for part, key in (("requests", "defaultRequest"), ("limits", "default")):
        defaults = {name: amount for limit in items for name, amount in mapping(limit, key).items()}
        own = mapping(container, "resources", part)
        fresh = sorted(defaults.keys() - own.keys())
        if fresh:
            amounts = {**own, **{name: defaults[name] for name in fresh}}
            put(container, dict(sorted(amounts.items())), "resources", part)
            yield f"{', '.join(fresh)} {part.removesuffix('s')} for {kind} {text(container, 'name')}"


class LimitBounds:
    """Pods and volume claims keep within the limit ranges of their namespace."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse a new pod, or a new or changed claim, that is out of range."""
        if request.subresource or obj is None or request.resource not in (POD, CLAIM):
            return
        if old is not None and (request.resource == POD or text(old, "metadata", "deletionTimestamp")):
            return
        stored = self._store.list(LIMIT_RANGE, namespace=request.namespace)
        if not stored:
            return
        ranges = snapshot_from(
            [msgspec.convert(limit_range.object, WrittenLimits) for limit_range in stored]
        ).limit_ranges
        for refusal in _refusals(request, obj, ranges):
            raise forbidden(request.resource, text(obj, "metadata", "name"), refusal.text)


def _refusals(
    request: ApiRequest, obj: JsonObject, ranges: tuple[LimitRange, ...]
) -> tuple[AdmissionRefusal, ...]:
    if request.resource == CLAIM:
        requested = _canonical(mapping(obj, "spec", "resources", "requests"))
        return claim_breaches(request.namespace, requested, ranges)
    return breaches(written_manifest(obj), ranges)


def written_manifest(pod: JsonObject) -> Manifest:
    """A pod as the rules of admission look at it."""
    [read] = snapshot_from([msgspec.convert(pod, Pod)]).pods
    amounts = tuple(
        WrittenAmounts(
            text(container, "name"),
            "",
            _canonical(mapping(container, "resources", "limits")),
            _canonical(mapping(container, "resources", "requests")),
        )
        for part, _ in _PARTS
        for container in mappings(pod, "spec", part)
    )
    return Manifest("Pod", read.name, read, amounts, written=pod)


def _canonical(amounts: JsonObject) -> dict[str, str]:
    return {name: canonical_quantity(str(amount)) for name, amount in amounts.items()}
