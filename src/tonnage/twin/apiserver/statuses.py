"""The API server's refusals, worded as upstream words them, and their Status objects.

Source: k8s.io/apimachinery, api/errors (v1.35).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.api.patches.json_patches import PatchError
from tonnage.decide.kubernetes.api.problems import InvalidError, quoted
from tonnage.model.errors import ApiError, GoneError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.twin.apiserver.object_store import Resource


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One field that is wrong."""

    reason: str
    message: str
    field: str


class StatusError(ApiError):
    """An ApiError that knows its Status' details."""

    def __init__(self, code: int, reason: str, message: str, *, details: JsonObject | None = None) -> None:
        super().__init__(code, reason, message)
        self.details = details


def status_of(error: ApiError) -> JsonObject:
    """The Status object of a refusal."""
    if isinstance(error, InvalidError):
        return error.status
    status: JsonObject = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"continue": error.resume} if isinstance(error, GoneError) and error.resume else {},
        "status": "Failure",
        "message": error.message,
    }
    if error.reason:
        status["reason"] = error.reason
    if isinstance(error, StatusError) and error.details is not None:
        status["details"] = error.details
    if isinstance(error, PatchError) and error.code == 422:
        status["details"] = {}
    return {**status, "code": error.code}


_CALLED_ONE: Final[dict[Resource, Resource]] = {("", "componentstatuses"): ("", "componentstatus")}
"""What upstream calls a resource where one of it is missing."""


DONE: Final[JsonObject] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}
"""The Status that answers what was posted to a subresource and makes nothing that could be shown."""


def success(resource: Resource, name: str, uid: str) -> JsonObject:
    """The Status that answers a finished deletion."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**_details(resource, name), "uid": uid},
    }


def qualified(resource: Resource) -> str:
    """`pods`, `deployments.apps`."""
    group, plural = resource
    return f"{plural}.{group}" if group else plural


def not_found(resource: Resource, name: str) -> StatusError:
    """404 of an object."""
    called = _CALLED_ONE.get(resource, resource)
    words = f"{qualified(called)} {quoted(name)} not found"
    return StatusError(404, "NotFound", words, details=_details(called, name))


class PlainError(StatusError):
    """A refusal outside every API group that is served; `text` alone is told, by which clients know it."""

    def __init__(self, code: int, reason: str, text: str) -> None:
        super().__init__(code, reason, "the server could not find the requested resource", details={})
        self.text = text


def no_such_path() -> StatusError:
    """404 of a path within a group that the server serves."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", details={})


def no_such_page() -> StatusError:
    """404 of any other path that the server does not serve."""
    return PlainError(404, "NotFound", "404 page not found\n")


def already_exists(
    resource: Resource, name: str, *, ending: bool = False, generated: bool = False
) -> StatusError:
    """409 of a create; `ending` where what is there is being deleted, `generated` where a name was to be."""
    message, details = f'{qualified(resource)} "{name}" already exists', _details(resource, name)
    if generated:
        message += ", the server was not able to generate a unique name for the object"
        details["retryAfterSeconds"] = 1
    message = f"object is being deleted: {message}" if ending else message
    return StatusError(409, "AlreadyExists", message, details=details)


def conflict(resource: Resource, name: str, why: str = "") -> StatusError:
    """409 of a write that read something older."""
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    message = f'Operation cannot be fulfilled on {qualified(resource)} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_details(resource, name))


def forbidden(resource: Resource, name: str, why: str, *, causes: Sequence[StatusCause] = ()) -> StatusError:
    """403: admission says no."""
    subject = f'{qualified(resource)} "{name}"' if name else qualified(resource)
    details = _details(resource, name)
    if causes:
        details["causes"] = causes_of(causes)
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details=details)


def shown_name(obj: JsonObject) -> str:
    """How refusals name a new object: upstream makes a name of a prefix only after these plugins."""
    return text(obj, "metadata", "name") or text(obj, "metadata", "generateName")


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """401: nobody we know."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def method_not_allowed(
    message: str = "the server does not allow this method on the requested resource",
) -> StatusError:
    """405."""
    return StatusError(405, "MethodNotAllowed", message, details={})


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """415 of a body."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)}"
    )
    return StatusError(415, "UnsupportedMediaType", message)


def too_large(limit: int) -> StatusError:
    """413 of a body."""
    message = f"Request entity too large: limit is {limit}"
    return StatusError(413, "RequestEntityTooLarge", message)


def too_many_requests(
    message: str, *, retry_after_s: int = 0, causes: Sequence[StatusCause] = ()
) -> StatusError:
    """429, such as an eviction that a disruption budget forbids."""
    details: JsonObject = {"causes": causes_of(causes)} if causes else {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    return StatusError(429, "TooManyRequests", message, details=details or None)


def unavailable(message: str) -> StatusError:
    """503."""
    return StatusError(503, "ServiceUnavailable", message)


def no_space() -> StatusError:
    """500 of a write for which the disk, or the store, has no room; upstream gives no reason either."""
    return StatusError(500, "", "etcdserver: mvcc: database space exceeded")


def internal_error(why: str) -> StatusError:
    """500 with its cause."""
    message = f"Internal error occurred: {why}"
    return StatusError(500, "InternalError", message, details={"causes": [{"message": why}]})


def not_stored(why: str) -> StatusError:
    """500 of a write that the disk refuses."""
    return StatusError(500, "InternalError", f"Internal error occurred: the write was not stored: {why}")


def too_new(requested: int, current: int) -> StatusError:
    """504 of a version that is yet to come."""
    cause: JsonObject = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return StatusError(504, "Timeout", message, details={"causes": [cause], "retryAfterSeconds": 1})


def expired(message: str) -> GoneError:
    """410."""
    return GoneError(message)


def _details(resource: Resource, name: str) -> JsonObject:
    group, kind = resource
    return {
        **({"name": name} if name else {}),
        **({"group": group} if group else {}),
        "kind": kind,
    }


def causes_of(causes: Sequence[StatusCause]) -> list[JsonValue]:
    """Causes as a Status' details have them."""
    return [
        {"reason": cause.reason, "message": cause.message, **({"field": cause.field} if cause.field else {})}
        for cause in causes
    ]
