"""What the server says of itself over HTTP, with the headers by which clients keep it."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

import pytest

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
NOT_KEPT = "no-cache, private"


@pytest.mark.parametrize(
    ("path", "headers", "kept"),
    [
        ("/apis", {"accept": AGGREGATED}, "public"),
        ("/apis", {}, NOT_KEPT),
        ("/apis/apps/v1", {}, NOT_KEPT),
        ("/.well-known/openid-configuration", {}, "public, max-age=3600"),
        ("/openid/v1/jwks", {}, "public, max-age=3600"),
        ("/openapi/v3", {}, NOT_KEPT),
    ],
)
async def test_clients_are_told_how_long_they_may_keep_what_they_read(
    running: Any, path: str, headers: dict[str, str], kept: str
) -> None:
    answer = await running.http("GET", path, **headers)
    assert (answer.code, answer.headers["cache-control"]) == (200, kept)
    assert ("etag" in answer.headers) == (kept == "public")
    assert parsedate_to_datetime(answer.headers["date"]).tzinfo is not None


async def test_aggregated_groups_say_nothing_of_when_they_were_made(running: Any) -> None:
    answer = await running.http("GET", "/apis", accept=AGGREGATED)
    assert answer.out.endswith("}\n")
    assert answer.json["items"][0]["metadata"] == {"name": "apiregistration.k8s.io"}
    assert (await running.http("GET", "/api", accept=AGGREGATED)).json["items"][0]["metadata"] == {}
    apps = next(one for one in answer.json["items"] if one["metadata"]["name"] == "apps")
    found = next(one for one in apps["versions"][0]["resources"] if one["resource"] == "deployments")
    kinds = {one["subresource"]: one["responseKind"] for one in found["subresources"]}
    assert found["responseKind"] == kinds["status"] == {"group": "", "version": "", "kind": "Deployment"}
    assert kinds["scale"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    again = await running.http("GET", "/apis", accept=AGGREGATED, if_none_match=answer.headers["etag"])
    assert (again.code, "content-type" in again.headers) == (304, False)


async def test_documents_of_the_third_openapi_are_found_by_their_hash(running: Any) -> None:
    paths = (await running.http("GET", "/openapi/v3")).json["paths"]
    assert {"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version"} <= set(paths)
    for path in ("apis/apps/v1", "apis/apps"):
        url = paths[path]["serverRelativeURL"]
        told = await running.http("GET", url)
        assert (told.code, told.headers["cache-control"]) == (200, "public, immutable")
        assert url.endswith(told.headers["etag"].strip('"'))
        moved = await running.http("GET", f"/openapi/v3/{path}?hash=X")
        assert (moved.code, moved.headers["location"]) == (301, url)
    for nothing in ("/openapi/v3/", "/openapi/v3/apis/nope/v1"):
        lost = await running.http("GET", nothing)
        assert (lost.code, lost.out, "content-type" in lost.headers) == (404, "", False)


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("/apis", 406, "only the following media types are accepted"),
        ("/apis/apps", 406, "only the following media types are accepted"),
        ("/apis/apps/v1", 406, "406: Not Acceptable"),
        ("/api", 406, "406: Not Acceptable"),
        ("/apis/apps/v2", 404, "the server could not find the requested resource"),
    ],
)
async def test_who_wants_a_page_is_told_what_there_is(
    running: Any, path: str, code: int, message: str
) -> None:
    answer = await running.http("GET", path, accept="text/html")
    assert (answer.code, answer.json["message"][: len(message)]) == (code, message)


async def test_who_may_not_ask_is_refused_with_a_type_that_is_not_guessed(running: Any) -> None:
    stranger = await running.http("GET", "/api/v1/pods", token=None)
    assert (stranger.code, stranger.headers["x-content-type-options"]) == (403, "nosniff")
    protected = await running.http("DELETE", "/api/v1/namespaces/default")
    assert (protected.code, "x-content-type-options" in protected.headers) == (403, False)


async def test_the_server_counts_what_it_is_asked(running: Any) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    for _ in range(2):
        await running.http("POST", maps, {"metadata": {"name": "a"}})
    await running.http("GET", "/api/v1/pods?watch=1&timeoutSeconds=-1")
    await running.http("GET", "/apis/x.example/v1/things")
    answer = await running.http("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    head = (
        'apiserver_request_total{code="%s",component="apiserver",dry_run="",group="",resource="%s",scope="%s"'
    )
    told = answer.out.splitlines()
    posted = 'subresource="",verb="POST",version="v1"} 1'
    assert f"{head % (201, 'configmaps', 'namespace')},{posted}" in told
    assert f"{head % (409, 'configmaps', 'namespace')},{posted}" in told
    assert f'{head % (200, "pods", "cluster")},subresource="",verb="WATCH",version="v1"}} 1' in told
    assert 'apiserver_storage_objects{resource="configmaps"} ' in answer.out
    assert "things" not in answer.out
    checks = (await running.http("GET", "/metrics/slis")).out
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1\n' in checks
    assert (await running.http("DELETE", "/metrics")).out == "metrics reset\n"
    assert 'verb="POST"' not in (await running.http("GET", "/metrics")).out
    assert (await running.http("GET", "/metrics", token=None)).code == 403
