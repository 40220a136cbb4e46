"""What the server says of a configuration that it does not apply.

Source: k8s.io/apimachinery (util/managedfields/internal: conflict.go, structuredmerge.go), v1.35.
"""

from __future__ import annotations

from tonnage.decide.kubernetes.api.encoding.body import BodyError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.twin.apiserver.ownership.fieldsets import path_text
from tonnage.twin.apiserver.ownership.updates import Conflict
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.statuses import StatusCause, StatusError, bad_request, causes_of, conflict


def conflict_status(conflicts: list[Conflict]) -> StatusError:
    """409, with every field that somebody else owns."""
    causes = [
        StatusCause("FieldManagerConflict", f"conflict with {conflict.manager}", path_text(conflict.path))
        for conflict in conflicts
    ]
    return StatusError(409, "Conflict", _text(conflicts), details={"causes": causes_of(causes)})


def _text(conflicts: list[Conflict]) -> str:
    if len(conflicts) == 1:
        conflict = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {conflict.manager}: {path_text(conflict.path)}"
    lines: list[str] = []
    for manager in sorted(
        {conflict.manager for conflict in conflicts}, key=lambda manager: manager.identifier
    ):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {path_text(conflict.path)}" for conflict in conflicts if conflict.manager == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def unfit(config: JsonObject, wrong: str) -> StatusError:
    """500, as upstream has it for a configuration that its type does not fit."""
    return StatusError(500, "", f"failed to create typed patch object ({_about(config)}): {wrong}")


def untracked(live: JsonObject, wrong: str) -> StatusError:
    """500, where nobody can be said to own what is there: its type does not allow it."""
    detail = f"failed to convert new object ({_about(live)}) to smd typed: {wrong}"
    return StatusError(500, "", f"failed to create manager for existing fields: {detail}")


def unconvertible(obj: JsonValue, error: BodyError) -> StatusError:
    """500, where what applying came to holds a value that is none of its type, such as a quantity."""
    merged = obj if isinstance(obj, dict) else {}
    wrong = error.detail
    if wrong.startswith("illegal base64"):
        wrong = f"error decoding from json: {wrong}"
    detail = f"to proper version: unable to convert unstructured object to {_kind_of(merged)}: {wrong}"
    return StatusError(500, "", f"failed to convert new object ({_about(merged)}) {detail}")


def _about(obj: JsonObject) -> str:
    metadata = obj.get("metadata")
    return f"{text(metadata, 'namespace')}/{text(metadata, 'name')}; {_kind_of(obj)}"


def _kind_of(obj: JsonObject) -> str:
    version = text(obj, "apiVersion")
    # Go prints the core group as nothing, with the slash left in.
    group = version if "/" in version else f"/{version}"
    return f"{group}, Kind={text(obj, 'kind')}"


def check_new(request: ApiRequest, body: JsonObject) -> None:
    """Refuse to make an object that says it is there already, or is another. Raises ApiError."""
    name, uid = text(body, "metadata", "name"), text(body, "metadata", "uid")
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(request.plural_resource, request.name, why)
    if not name:
        raise bad_request(
            f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
        )
    if name != request.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )
