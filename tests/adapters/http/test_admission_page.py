"""The webhook's page against an API server's reviews, and against what nobody should send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tonnage.adapters.http.admission_page import MOST_BODY, admission_page
from tonnage.adapters.http.server import HttpRequest, Response
from tonnage.model.admission import AdmissionJudgement, FieldRefusal
from tonnage.model.json import JsonObject

UID = "0df28fbd-5f5f-11e8-bc74-36e6bb280816"


class Counted:
    """A judge that refuses what `spec` lists, and what was answered."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, str]] = []

    def judge(self, value: JsonObject) -> AdmissionJudgement:
        listed: Any = value.get("spec") or []
        refusals = tuple(FieldRefusal("spec", str(word)) for word in listed if word != "careful")
        return AdmissionJudgement(refusals, tuple(word for word in listed if word == "careful"))

    async def post(self, body: bytes) -> Response:
        page = admission_page(self.judge, lambda kind, outcome: self.answers.append((kind, outcome)))
        assert (page.methods, page.most_body) == (("POST",), MOST_BODY)
        return await page.handler(HttpRequest("POST", "/", body=body))

    async def review(self, **request: Any) -> Any:
        body = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": UID,
                "name": "mine",
                "kind": {"group": "resource.k8s.io", "version": "v1", "kind": "ResourceClaim"},
                **request,
            },
        }
        answer = await self.post(json.dumps(body).encode())
        assert (answer.status, answer.content_type) == (200, "application/json")
        review = json.loads(answer.body)
        assert review.pop("apiVersion") == "admission.k8s.io/v1"
        assert review.pop("kind") == "AdmissionReview"
        assert review["response"].pop("uid") == UID
        return review["response"]


async def test_what_is_right_is_allowed_and_warnings_go_with_it() -> None:
    page = Counted()
    assert await page.review(object={"spec": []}) == {"allowed": True}
    assert await page.review(object={"spec": ["careful"]}) == {"allowed": True, "warnings": ["careful"]}
    assert page.answers == [("ResourceClaim", "allowed")] * 2


async def test_a_refusal_names_each_field_as_the_api_server_does() -> None:
    page = Counted()
    response = await page.review(object={"spec": ["a", "b"]})
    assert not response["allowed"]
    assert response["status"] == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "spec: a, spec: b",
        "details": {
            "group": "resource.k8s.io",
            "kind": "ResourceClaim",
            "name": "mine",
            "causes": [
                {"reason": "FieldValueInvalid", "message": "a", "field": "spec"},
                {"reason": "FieldValueInvalid", "message": "b", "field": "spec"},
            ],
        },
    }
    assert page.answers == [("ResourceClaim", "refused")]


async def test_many_and_long_refusals_are_cut() -> None:
    response = await Counted().review(object={"spec": [f"{n:04}" * 500 for n in range(30)]})
    message = response["status"]["message"]
    assert message.endswith("and 10 more")
    assert len(message) < 20 * 520
    assert len(response["status"]["details"]["causes"]) == 20


async def test_what_stood_there_already_is_a_warning() -> None:
    response = await Counted().review(object={"spec": ["old", "new"]}, oldObject={"spec": ["old"]})
    assert response["status"]["message"] == "spec: new"
    assert response["warnings"] == ["spec: old"]
    response = await Counted().review(object={"spec": ["old"]}, oldObject={"spec": ["old"]})
    assert response == {"allowed": True, "warnings": ["spec: old"]}


@pytest.mark.parametrize("request_", [{}, {"object": None, "oldObject": {}}, {"object": "x"}, {"kind": 5}])
async def test_a_review_without_an_object_is_allowed(request_: Any) -> None:
    assert await Counted().review(**request_) == {"allowed": True}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe{", "cannot be read"),
        (b"[]", "no apiVersion, no kind"),
        (b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}', "v1beta1"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "Pod"}', "Pod"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "a request that has a uid"),
        (b'{"a": "\\ud800"}', "half a surrogate pair"),
        (b"[" * 10_000 + b"]" * 10_000, "nested deeper"),
        (b"[" * 1_000_000, "nested deeper"),
    ],
)
async def test_what_is_no_review_gets_a_clear_answer(body: bytes, words: str) -> None:
    page = Counted()
    answer = await page.post(body)
    assert answer.status == 400
    assert words in answer.body.decode()
    assert page.answers == [("other", "unreadable")]


async def test_an_object_nested_too_deep_is_refused_under_its_uid() -> None:
    deep = b'{"a":' * 1_700 + b"1" + b"}" * 1_700
    head = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"%b","object":'
    answer = await Counted().post(head % UID.encode() + deep + b"}}")
    response = json.loads(answer.body)["response"]
    assert (response["uid"], response["allowed"]) == (UID, False)
    assert "nested deeper than 200 levels" in response["status"]["message"]


async def test_kinds_that_nobody_asked_for_are_counted_together() -> None:
    page = Counted()
    for n in range(3):
        await page.review(kind={"kind": f"Made{n}"})
    assert page.answers == [("other", "allowed")] * 3
