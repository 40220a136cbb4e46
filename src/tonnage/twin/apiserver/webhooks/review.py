"""AdmissionReviews: what a webhook is told of a request, and what its answer means.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/{request,errors} (v1.35).
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.encoding.scalars import describe
from tonnage.model.json import JsonObject, JsonValue, parsed_json
from tonnage.model.json_access import at, flag, mapping, number, text, texts
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.statuses import StatusError
from tonnage.twin.apiserver.webhooks.matching import CONNECT, AdmissionRequest
from tonnage.wire.schema import KindRow, Subresource

V1: Final = "admission.k8s.io/v1"
V1BETA1: Final = "admission.k8s.io/v1beta1"
_OPTIONS: Final = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class CallError(Exception):
    """A webhook could not be asked, or answered nonsense; its failure policy decides what comes of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a webhook said. `patch`: JSON patch operations."""

    allowed: bool
    status: JsonObject
    patch: tuple[JsonValue, ...] = ()
    warnings: tuple[str, ...] = ()
    audit: dict[str, str] = field(default_factory=dict)


def review_version(webhook: JsonObject) -> str:
    """The first version of AdmissionReview that both sides know. Raises CallError."""
    for version in texts(webhook, "admissionReviewVersions"):
        if version in ("v1", "v1beta1"):
            return f"admission.k8s.io/{version}"
    raise CallError(
        "could not create admission objects: "
        "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )


def review(
    uid: str,
    version: str,
    admission: AdmissionRequest,
    served: ServedResource,
    shown: tuple[JsonValue, JsonValue],
) -> bytes:
    """The body to be sent. `shown`: the object and what it was, in the version that is asked for."""
    return msgspec.json.encode(
        {
            "kind": "AdmissionReview",
            "apiVersion": version,
            "request": {"uid": uid, **request_facts(admission, served, shown)},
        }
    )


def request_facts(
    admission: AdmissionRequest, served: ServedResource, shown: tuple[JsonValue, JsonValue]
) -> JsonObject:
    """What is told of a request, its uid aside."""
    request = admission.request
    own, subresource = request.served.row, request.subresource
    part: JsonObject = {"subResource": subresource} if subresource else {}
    subresource_row = own.subresource(subresource) if subresource else None
    streamed = _stream_options_kind(admission.obj) if request.verb == CONNECT else None
    user: JsonObject = {"username": request.user.name, "groups": list[JsonValue](request.user.groups)}
    if request.user.uid:
        user["uid"] = request.user.uid
    if request.user.extra:
        user["extra"] = {key: list[JsonValue](values) for key, values in request.user.extra}
    return {
        "kind": streamed or _kind(subresource_row or served.row),
        "resource": {"group": served.row.group, "version": served.row.version, "resource": own.plural},
        **part,
        "requestKind": streamed or _kind(subresource_row or own),
        "requestResource": {"group": own.group, "version": own.version, "resource": own.plural},
        **({"requestSubResource": subresource} if subresource else {}),
        **({"name": admission.name} if admission.name else {}),
        **({"namespace": admission.namespace} if admission.namespace else {}),
        "operation": admission.operation,
        "userInfo": user,
        "object": shown[0],
        "oldObject": shown[1],
        "dryRun": request.options.dry_run,
        "options": _options(admission) if streamed is None else None,
    }


def _options(admission: AdmissionRequest) -> JsonObject:
    """How the request is meant."""
    request_options = admission.request.options
    options: JsonObject = {"kind": _OPTIONS[admission.operation], "apiVersion": "meta.k8s.io/v1"}
    if request_options.dry_run:
        options["dryRun"] = ["All"]
    if request_options.field_manager and admission.operation != "DELETE":
        options["fieldManager"] = request_options.field_manager
    return options


def _stream_options_kind(obj: JsonObject | None) -> JsonObject:
    """What an object says that it is."""
    group, _, version = text(obj, "apiVersion").rpartition("/")
    return {"group": group, "version": version, "kind": text(obj, "kind")}


def _kind(row: KindRow | Subresource) -> JsonObject:
    return {"group": row.group, "version": row.version, "kind": row.kind}


def read_answer(content: bytes, uid: str, version: str, *, mutating: bool) -> Answer:
    """The answer in a webhook's body. Raises CallError."""
    try:
        body = parsed_json(content)
    except ValueError:
        # The server takes what is no JSON for YAML, and so for a string.
        body = content.decode(errors="replace")
    if not isinstance(body, dict):
        shape = (
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
            'Kind string "json:\\"kind,omitempty\\"" }'
        )
        raise CallError(
            "failed to call webhook: couldn't get version/kind; json parse error: "
            f"json: cannot unmarshal {describe(body)} into Go value of type {shape}"
        )
    kind, group_version = text(body, "kind"), text(body, "apiVersion")
    if kind != "AdmissionReview" or group_version not in (V1, V1BETA1):
        raise CallError(
            f'failed to call webhook: no kind "{kind}" is registered for version "{group_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    response = at(body, "response")
    if not isinstance(response, dict):
        raise _invalid("webhook response was absent")
    if version == V1:
        if text(response, "uid") != uid:
            raise _invalid(f'expected response.uid="{uid}", got "{text(response, "uid")}"')
        if group_version != V1:
            answered_kind = f"{group_version}, Kind={kind}"
            raise _invalid(f"expected webhook response of {V1}, Kind=AdmissionReview, got {answered_kind}")
    patch = _patch(response, version, mutating=mutating)
    return Answer(
        flag(response, "allowed"),
        mapping(response, "status"),
        patch,
        tuple(texts(response, "warnings")),
        {key: str(value) for key, value in mapping(response, "auditAnnotations").items()},
    )


def _invalid(why: str) -> CallError:
    return CallError(f"received invalid webhook response: {why}")


def _patch(response: JsonObject, version: str, *, mutating: bool) -> tuple[JsonValue, ...]:
    """What a webhook wants changed. Raises CallError."""
    written, kind = text(response, "patch"), at(response, "patchType")
    if version == V1 and (wrong := _wrong_patch(written, kind, mutating=mutating)):
        raise _invalid(wrong)
    if not mutating or not written or not flag(response, "allowed"):
        return ()
    try:
        operations = parsed_json(base64.b64decode(written, validate=True))
    except (ValueError, binascii.Error) as error:
        raise CallError(f"received undecodable patch in webhook response: {_go_words(error)}") from None
    if not isinstance(operations, list):
        raise CallError(
            "received undecodable patch in webhook response: "
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    if version == V1 and kind != "JSONPatch" and operations:
        raise CallError(f'unsupported patch type "{kind}"')
    return tuple(operations)


def _wrong_patch(written: str, kind: JsonValue, *, mutating: bool) -> str:
    """What is wrong with a patch and its type being there or not; empty if nothing is."""
    if not mutating and written:
        return "validating webhook may not return response.patch"
    if not mutating and kind is not None:
        return "validating webhook may not return response.patchType"
    if written and kind is None:
        return "webhook returned response.patch but not response.patchType"
    if not written and kind is not None:
        return "webhook returned response.patchType but not response.patch"
    return 'webhook returned invalid response.patchType of ""' if kind == "" else ""


def _go_words(error: Exception) -> str:
    """The words of Go's decoders."""
    if not isinstance(error, json.JSONDecodeError):
        return f"illegal base64 data: {error}"
    place, written = error.pos, error.doc
    if place >= len(written):
        return "unexpected end of JSON input"
    for literal in ("null", "true", "false"):
        if written[place] == literal[0]:
            begun = written[place:]
            at_fault = next((i for i, letter in enumerate(literal) if begun[i : i + 1] != letter), 0)
            if at_fault < len(begun):
                return (
                    f"invalid character '{begun[at_fault]}' in literal {literal} "
                    f"(expecting '{literal[at_fault]}')"
                )
            return "unexpected end of JSON input"
    return f"invalid character '{written[place]}' looking for beginning of value"


def denial(name: str, answer: Answer) -> StatusError:
    """The refusal that a webhook's denial becomes: its own code, reason and details."""
    status, by = answer.status, f'admission webhook "{name}" denied the request'
    code, reason, message = number(status, "code"), text(status, "reason"), text(status, "message")
    words = f"{by}: {message or reason}" if message or reason else f"{by} without explanation"
    details = mapping(status, "details") or None
    return StatusError(code if 400 <= code < 600 else 400, reason, words, details=details)


def call_failed(name: str, why: str) -> StatusError:
    """The refusal when a webhook cannot be asked and must be."""
    message = f'failed calling webhook "{name}": {why}'
    details: JsonObject = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details=details)


def internal(message: str) -> StatusError:
    """500 of the server's own."""
    details: JsonObject = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details=details)
