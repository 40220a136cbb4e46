"""Long lists over HTTP, a page at a time: pages, expiry on the way, answers that are no list."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
import pytest

from tonnage.adapters.kubernetes.http import HttpKubernetes
from tonnage.model.errors import ApiError, ClusterError
from tonnage.wire.kinds import POD, RESOURCE_CLAIM
from tonnage.wire.objects import Pod

PAGES = {
    "": {"metadata": {"continue": "2"}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]},
    "2": {"metadata": {}, "items": [{"metadata": {"name": "c"}}]},
}
WHOLE = {"items": [{"metadata": {"name": name}} for name in "abcd"]}
EXPIRED = {
    "kind": "Status",
    "code": 410,
    "reason": "Expired",
    "message": "too old",
    "metadata": {"continue": "x"},
}


def client(answers: dict[str, Any], asked: list[str]) -> HttpKubernetes:
    """A server whose answers are by continue token; `whole` is the list without a limit."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        parameters = dict(request.url.params)
        key = parameters.get("continue", "") if "limit" in parameters else "whole"
        asked.append(key)
        body = answers[key]
        return httpx2.Response(body.get("code", 200), content=json.dumps(body).encode())

    transport = httpx2.MockTransport(answer)
    return HttpKubernetes(httpx2.AsyncClient(transport=transport, base_url="https://c"))


def name_of(text: bytes) -> str:
    return str(json.loads(text)["metadata"]["name"])


async def test_every_page_is_read() -> None:
    asked: list[str] = []
    assert [*await client(PAGES, asked).read_all(POD, name_of)] == ["a", "b", "c"]
    assert asked == ["", "2"]


async def test_what_is_kept_is_made_before_the_next_page_is_read() -> None:
    asked: list[str] = []
    kept: list[str] = []

    def keep(pod: Pod) -> Pod:
        kept.append(f"{pod.metadata.name} after {len(asked)}")
        return Pod(api_version=pod.api_version, kind=pod.kind)

    listing = await client(PAGES, asked).list(POD, keep=keep)
    assert kept == ["a after 1", "b after 1", "c after 2"]
    assert listing.items == [Pod(api_version="v1", kind="Pod")] * 3


async def test_a_list_that_expires_is_read_whole() -> None:
    asked: list[str] = []
    answers = {**PAGES, "2": EXPIRED, "whole": WHOLE}
    assert [*await client(answers, asked).read_all(POD, name_of)] == ["a", "b", "c", "d"]
    assert asked == ["", "2", "whole"]


async def test_an_object_that_cannot_be_read_is_no_answer() -> None:
    answers = {"": {"items": [{"metadata": 7}]}}
    with pytest.raises(ClusterError, match="cannot be read"):
        await client(answers, []).read_all(POD, lambda text: msgspec.json.decode(text, type=POD.type))


async def test_an_empty_list_and_a_refusal() -> None:
    assert [*await client({"": {"items": None}}, []).read_all(POD, name_of)] == []
    refused = {"": {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}}
    with pytest.raises(ApiError, match="no"):
        await client(refused, []).read_all(POD, name_of)


async def test_where_a_list_could_go_on_is_told_with_the_expiry() -> None:
    with pytest.raises(ApiError) as caught:
        await client({"whole": EXPIRED}, []).get_raw("/api/v1/pods")
    assert getattr(caught.value, "resume", "") == "x"


async def _streamed(text: bytes) -> AsyncIterator[bytes]:
    yield text


DEEP = b'{"a":' * 5000 + b"[" * 3000 + b'"}]"' + b"]" * 3000 + b"}" * 5000
"""Deeper than anything is read. A server takes it: the parameters of a claim have room for 5,000 levels."""
DEEP_CLAIM = b'{"metadata":{"name":"deep"},"spec":{"parameters":%s,"after":"}"}}' % DEEP
DEEP_LIST = b'{"metadata":{},"items":[%s,{"metadata":{"name":"flat"}}]}' % DEEP_CLAIM
DEEP_EVENT = b'{"type":"ADDED","object":%s}\n' % DEEP_CLAIM


async def test_an_object_that_is_nested_too_deeply_hides_no_other_and_loses_only_its_depths() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if "watch" in dict(request.url.params):
            return httpx2.Response(200, content=_streamed(DEEP_EVENT))
        whole = request.url.path.endswith("/resourceclaims")
        return httpx2.Response(200, content=DEEP_LIST if whole else DEEP_CLAIM)

    transport = httpx2.MockTransport(answer)
    server = HttpKubernetes(httpx2.AsyncClient(transport=transport, base_url="https://c"))
    listing = (await server.list(RESOURCE_CLAIM)).items
    assert [(claim.metadata.name, claim.spec.get("after")) for claim in listing] == [
        ("deep", "}"),
        ("flat", None),
    ]
    assert [*await server.read_all(RESOURCE_CLAIM, name_of)] == ["deep", "flat"]
    claim = await server.get(RESOURCE_CLAIM, "deep", "ml")
    assert claim.spec["parameters"]["a"]["a"]["a"]
    [event] = [event async for event in server.watch(RESOURCE_CLAIM, resource_version="1")]
    assert (event.object.metadata.name, event.object.spec["after"]) == ("deep", "}")
