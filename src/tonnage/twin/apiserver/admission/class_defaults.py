"""What new volumes, claims and Ingresses get: the default class, and a finalizer while they are in use.

Source: plugin/pkg/admission/storage (storageclass/setdefault, storageobjectinuseprotection,
persistentvolume/resize) and plugin/pkg/admission/network/defaultingressclass, v1.35.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, put, text, texts
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.kubernetes.well_known import DEFAULT_STORAGE_CLASS, OLD_INGRESS_CLASS, OLD_STORAGE_CLASS
from tonnage.twin.apiserver.object_store import ObjectStore, Resource
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import CLAIM, VOLUME
from tonnage.twin.apiserver.statuses import forbidden

STORAGE_CLASS: Final[Resource] = ("storage.k8s.io", "storageclasses")
INGRESS: Final[Resource] = ("networking.k8s.io", "ingresses")
INGRESS_CLASS: Final[Resource] = ("networking.k8s.io", "ingressclasses")
_IN_USE: Final = {
    CLAIM: "kubernetes.io/pvc-protection",
    VOLUME: "kubernetes.io/pv-protection",
    ("storage.k8s.io", "volumeattributesclasses"): "kubernetes.io/vac-protection",
}
_DEFAULT_INGRESS: Final = ("ingressclass.kubernetes.io/is-default-class",)
_CLASSED: Final = {
    CLAIM: (STORAGE_CLASS, DEFAULT_STORAGE_CLASS, OLD_STORAGE_CLASS, "storageClassName"),
    INGRESS: (INGRESS_CLASS, _DEFAULT_INGRESS, OLD_INGRESS_CLASS, "ingressClassName"),
}
"""Kinds that name a class: which, what marks the default one, the annotation of old and the field."""
_UNBOUND: Final = "Only bound persistent volume claims can be expanded"
_FIXED: Final = (
    "only dynamically provisioned pvc can be resized and "
    "the storageclass that provisions the pvc must support resize"
)


class ClassDefaults:
    """An admission plugin that completes new claims and Ingresses, and guards what is in use."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Set the class of what names none, and the finalizer."""
        if request.subresource or obj is None or old is not None:
            return
        if row := _CLASSED.get(request.resource):
            classes, marks, once, key = row
            name = "" if _names_class(obj, once, key) else self._default(classes, marks)
            if name:
                put(obj, name, "spec", key)
        if request.resource not in _IN_USE:
            return
        finalizers, finalizer = texts(obj, "metadata", "finalizers"), _IN_USE[request.resource]
        if finalizer not in finalizers:
            put(obj, list[JsonValue]([*finalizers, finalizer]), "metadata", "finalizers")

    def _default(self, resource: Resource, marks: tuple[str, ...]) -> str:
        """The newest default class, of several of the same age the first by name."""
        classes = [entry.object for entry in self._store.list(resource)]
        defaults = [
            entry
            for entry in classes
            if any(text(entry, "metadata", "annotations", key) == "true" for key in marks)
        ]
        defaults.sort(key=lambda entry: text(entry, "metadata", "creationTimestamp"), reverse=True)
        return text(defaults[0], "metadata", "name") if defaults else ""


class ClaimGrowth:
    """A gate that lets claims grow only where their class says so."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Raises ApiError 403 for a claim that may not grow."""
        if request.resource != CLAIM or request.subresource or obj is None or old is None:
            return
        if _size(obj) <= _size(old):
            return
        name = text(obj, "metadata", "name")
        if text(old, "status", "phase") != "Bound":
            raise forbidden(CLAIM, name, _UNBOUND)
        class_name, was = (
            text(claim, "metadata", "annotations", OLD_STORAGE_CLASS)
            or text(claim, "spec", "storageClassName")
            for claim in (obj, old)
        )
        storage_class = (
            self._store.get(STORAGE_CLASS, ("", class_name)) if class_name and class_name == was else None
        )
        if storage_class is None or not flag(storage_class.object, "allowVolumeExpansion"):
            raise forbidden(CLAIM, name, _FIXED)


def _size(claim: JsonObject) -> Fraction:
    return parse_quantity(str(at(claim, "spec", "resources", "requests", "storage") or "0"))


def _names_class(obj: JsonObject, annotation: str, key: str) -> bool:
    annotated = at(obj, "metadata", "annotations", annotation) is not None
    return annotated or at(obj, "spec", key) is not None
