"""The page of a validating webhook: AdmissionReviews of admission.k8s.io/v1, each judged by itself.

Source: k8s.io/api admission/v1, k8s.io/apiserver pkg/admission/plugin/webhook (1.35).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from tonnage.adapters.http.server import HttpRequest, Response, Route, lines
from tonnage.model.admission import AdmissionJudgement, FieldRefusal, ObjectJudge
from tonnage.model.json import JsonObject, JsonValue, parsed_json
from tonnage.model.json_access import mapping, text

MOST_BODY: Final = 4 << 20
"""An object before and after: etcd keeps at most 1.5 MiB of each. With all connections that a server takes at
once this stays below the memory that the controller may have."""
_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_UID: Final = re.compile(rb'"uid" *: *"([0-9a-f-]{36})"')
_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
"""Kinds that are counted by name: what is review_request about else is anybody's choice."""
_MOST_REFUSALS: Final = 20
_MOST_WARNINGS: Final = 5
_LONGEST: Final = 500
"""Of a message; the API server drops warnings beyond 4 KiB in all."""
_INVALID: Final = 422


def admission_page(judge: ObjectJudge, answered: Callable[[str, str], None]) -> Route:
    """`answered` is called with each object's kind, and whether it is allowed, refused or unreadable."""

    async def answer(request: HttpRequest) -> Response:
        try:
            review = _read(request.body)
        except json.JSONDecodeError as error:
            answered("other", "unreadable")
            return lines(400, f"the body is no JSON: {error}")
        except ValueError as error:  # it is JSON, and more than may be read
            answered("other", "unreadable")
            uid = _UID.search(request.body)
            if uid is None:
                return lines(400, f"the body cannot be read: {error}")
            return _response(uid[1].decode(), (FieldRefusal("", f"the object cannot be read: {error}"),), ())
        return _answer(review, judge, answered)

    return Route(answer, ("POST",), MOST_BODY)


def _read(body: bytes) -> JsonValue:
    """The review. Raises ValueError: no JSON, or texts and depths that no object of Kubernetes has."""
    review = parsed_json(body)
    try:
        json.dumps(review, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair stands in a text") from None
    return review


def _answer(review: JsonValue, judge: ObjectJudge, answered: Callable[[str, str], None]) -> Response:
    version, kind = text(review, "apiVersion"), text(review, "kind")
    review_request = mapping(review, "request")
    uid = text(review_request, "uid")
    if (version, kind) != (_VERSION, _KIND) or not uid:
        answered("other", "unreadable")
        kinds = f"{version[:80] or 'no apiVersion'}, {kind[:80] or 'no kind'}"
        return lines(
            400, f"the body must be {_VERSION}, {_KIND}, with a request that has a uid; it is {kinds}"
        )
    judgement = _judgement(review_request, judge)
    judged = text(review_request, "kind", "kind")
    answered(judged if judged in _KINDS else "other", "refused" if judgement.refusals else "allowed")
    return _response(
        uid,
        judgement.refusals,
        judgement.warnings,
        mapping(review_request, "kind"),
        text(review_request, "name"),
    )


def _judgement(review_request: JsonObject, judge: ObjectJudge) -> AdmissionJudgement:
    """What is new about the object: what stood there already must not keep anybody from changing the rest."""
    judgement = judge(mapping(review_request, "object"))
    if not judgement.refusals:
        return judgement
    before = judge(mapping(review_request, "oldObject")).refusals
    new = tuple(refusal for refusal in judgement.refusals if refusal not in before)
    old = tuple(str(refusal) for refusal in judgement.refusals if refusal in before)
    return AdmissionJudgement(new, (*old, *judgement.warnings))


def _response(
    uid: str,
    refusals: tuple[FieldRefusal, ...],
    warnings: tuple[str, ...],
    kind: JsonObject | None = None,
    name: str = "",
) -> Response:
    response: JsonObject = {"uid": uid, "allowed": not refusals}
    if warnings:
        response["warnings"] = [_shortened(warning) for warning in warnings[:_MOST_WARNINGS]]
    if refusals:
        response["status"] = _status(refusals, kind or {}, name)
    body: JsonObject = {"apiVersion": _VERSION, "kind": _KIND, "response": response}
    return Response(200, json.dumps(body).encode(), "application/json")


def _status(refusals: tuple[FieldRefusal, ...], kind: JsonObject, name: str) -> JsonObject:
    """As the API server refuses an object for its fields, so that clients show each of them."""
    shown = refusals[:_MOST_REFUSALS]
    causes: list[JsonValue] = [
        {"reason": "FieldValueInvalid", "message": _shortened(refusal.message), "field": refusal.field}
        for refusal in shown
    ]
    words = [_shortened(str(refusal)) for refusal in shown]
    more = len(refusals) - len(shown)
    details: JsonObject = {
        "group": text(kind, "group"),
        "kind": text(kind, "kind"),
        "name": name,
        "causes": causes,
    }
    message = ", ".join([*words, *([f"and {more} more"] if more else [])])
    return {
        "status": "Failure",
        "code": _INVALID,
        "reason": "Invalid",
        "message": message,
        "details": details,
    }


def _shortened(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
