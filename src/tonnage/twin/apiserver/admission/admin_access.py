"""Claims that want access to devices that others use, which only marked namespaces may have.

Source: k8s.io/kubernetes pkg/registry/resource/utils.go (AuthorizedForAdmin), 1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.problems import FieldError, forbidden
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mappings, text
from tonnage.model.kubernetes.resource_claims import ADMIN_LABEL
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.requests import ApiRequest

_WORDS: Final = (
    f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
)
_GROUP: Final = "resource.k8s.io"
_REQUESTS: Final = {
    (_GROUP, "resourceclaims"): ("spec", "devices", "requests"),
    (_GROUP, "resourceclaimtemplates"): ("spec", "spec", "devices", "requests"),
}
_RESULTS: Final = ("status", "allocation", "devices", "results")


def admin_access_problems(
    store: ObjectStore, request: ApiRequest, obj: JsonObject, old: JsonObject | None
) -> tuple[FieldError, ...]:
    """What is wrong with wishes for such access in a namespace that has none: at most one error."""
    if request.resource not in _REQUESTS:
        return ()
    path = ""
    if old is None:
        wishes = mappings(obj, *_REQUESTS[request.resource])
        indexes = (index for index, entry in enumerate(wishes) if flag(entry, "exactly", "adminAccess"))
        path = next((f"spec.devices.requests[{index}].adminAccess" for index in indexes), "")
    elif request.subresource == "status" and not any(
        flag(entry, "adminAccess") for entry in mappings(old, *_RESULTS)
    ):
        indexes = (
            index for index, entry in enumerate(mappings(obj, *_RESULTS)) if flag(entry, "adminAccess")
        )
        path = next((f"status.allocation.devices.results[{index}].adminAccess" for index in indexes), "")
    if not path:
        return ()
    namespace = store.get(("", "namespaces"), ("", request.namespace))
    labeled = namespace is not None and text(namespace.object, "metadata", "labels", ADMIN_LABEL) == "true"
    return () if labeled else (forbidden(path, _WORDS),)
