"""What the server expects of those who write an object, and how it refuses them."""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.names import path_segment
from tonnage.decide.kubernetes.api.problems import InvalidError, invalid, invalid_status, quoted
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.statuses import StatusError, bad_request, conflict
from tonnage.twin.apiserver.strategies.by_kind import UPDATED_BY_VERSION
from tonnage.wire.schema import KindRow

_FOLDERS: Final = {
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
_APART: Final = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})
"""Groups of servers within the server, which keep their objects below their name."""


def expect_version(request: ApiRequest, obj: JsonObject) -> None:
    """Refuse an update of a kind that must say of which version it is. Raises ApiError 422."""
    versioned = request.served.custom is not None or request.resource in UPDATED_BY_VERSION
    if versioned and not text(obj, "metadata", "resourceVersion"):
        fault = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        row = msgspec.structs.replace(request.served.row, kind=request.served.row.plural)
        raise InvalidError(invalid_status(row, request.name, (fault,)))


def row_of(request: ApiRequest, obj: JsonObject) -> KindRow:
    """What refusals call an object: one of a custom kind as what it calls itself."""
    row = request.served.row
    if request.served.custom is None:
        return row
    group = text(obj, "apiVersion").rpartition("/")[0]
    return msgspec.structs.replace(row, group=group, kind=text(obj, "kind"))


def check_name(name: str) -> None:
    """Refuse a name under which nothing can be looked for. Raises ApiError 400."""
    if not name:
        raise bad_request("Name parameter required.")
    if wrong := path_segment(name):
        raise bad_request(f"Name parameter invalid: {quoted(name)}: {';'.join(wrong)}")


def other_uid(request: ApiRequest, uid: str, current: str) -> StatusError:
    """The refusal of a writer who means another object of the same name."""
    why = (
        f"StorageError: invalid object, Code: 4, Key: {_storage_key(request)}, ResourceVersion: 0, "
        "AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
    )
    return conflict(request.plural_resource, request.name, why)


def _storage_key(request: ApiRequest) -> str:
    """Where upstream's database keeps the object, which its messages tell."""
    group, plural = request.resource
    apart = request.served.custom is not None or group in _APART
    folder = f"{group}/{plural}" if apart else _FOLDERS.get(plural, plural)
    root = "" if request.options.dry_run else "/registry"
    return "/".join((root, folder, *filter(None, request.key)))
