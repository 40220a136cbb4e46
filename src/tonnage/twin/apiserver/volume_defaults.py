"""What a new volume and a new claim get: the default class, and a finalizer while they are in use.

Source: plugin/pkg/admission/storage (storageclass/setdefault, storageobjectinuseprotection), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.access import at, put, text, texts
from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.store import Resource, Store

CLAIM: Final[Resource] = ("", "persistentvolumeclaims")
VOLUME: Final[Resource] = ("", "persistentvolumes")
STORAGE_CLASS: Final[Resource] = ("storage.k8s.io", "storageclasses")
_IN_USE: Final = {CLAIM: "kubernetes.io/pvc-protection", VOLUME: "kubernetes.io/pv-protection"}
_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_DEFAULT_ONCE: Final = "storageclass.beta.kubernetes.io/is-default-class"
_CLASS_ONCE: Final = "volume.beta.kubernetes.io/storage-class"


class VolumeDefaults:
    """An admission plugin that completes new volumes and claims."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, request: Request, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Set the class of a claim that names none, and the finalizer."""
        if request.resource not in _IN_USE or request.subresource or obj is None or old is not None:
            return
        if request.resource == CLAIM and not _has_class(obj):
            name = self._default()
            if name:
                put(obj, name, "spec", "storageClassName")
        known, wanted = texts(obj, "metadata", "finalizers"), _IN_USE[request.resource]
        if wanted not in known:
            put(obj, list[JsonValue]([*known, wanted]), "metadata", "finalizers")

    def _default(self) -> str:
        """The newest default class, of several of the same age the first by name."""
        classes = [one.object for one in self._store.list(STORAGE_CLASS)]
        found = [one for one in classes if _is_default(one)]
        found.sort(key=lambda one: text(one, "metadata", "creationTimestamp"), reverse=True)
        return text(found[0], "metadata", "name") if found else ""


def _has_class(claim: JsonObject) -> bool:
    annotated = at(claim, "metadata", "annotations", _CLASS_ONCE) is not None
    return annotated or at(claim, "spec", "storageClassName") is not None


def _is_default(one: JsonObject) -> bool:
    return any(text(one, "metadata", "annotations", key) == "true" for key in (_DEFAULT, _DEFAULT_ONCE))
