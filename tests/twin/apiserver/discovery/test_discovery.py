"""What the server says of itself over HTTP, with the headers by which clients keep it."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
import yaml

from tonnage.decide.kubernetes.api.encoding.protobuf_writer import encode_envelope
from tonnage.model.json import JsonObject

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


async def test_groups_come_in_the_form_that_clients_take(running: Any) -> None:
    protobuf = "application/vnd.kubernetes.protobuf"
    one = await running.http("GET", "/apis/batch", accept=protobuf)
    assert one.headers["content-type"] == protobuf
    assert "APIGroup\x12" in one.out
    assert "\n\x08batch/v1\x12\x02v1" in one.out
    plain = await running.http("GET", "/apis", accept=AGGREGATED)
    turned = "application/yaml;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io, application/json"
    written = await running.http("GET", "/apis", accept=turned)
    assert written.headers["content-type"] == AGGREGATED.replace("json", "yaml", 1)
    assert yaml.load(written.out, yaml.CSafeLoader) == plain.json
    assert written.headers["etag"] == plain.headers["etag"]
    older = await running.http("GET", "/apis", accept=AGGREGATED.replace("v2", "v2beta1"))
    assert older.code == 406


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


COUNTED = "apiserver_request_total{"
POD = "/api/v1/namespaces/default/pods/x"


@pytest.mark.parametrize(
    ("method", "path", "counted"),
    [
        ("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", "201 All/configmaps/resource//POST"),
        ("POST", "/api/v1/namespaces/default/configmaps?dryRun=x", "422 invalid/configmaps/resource//POST"),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dx", "200 /pods/cluster//LIST"),
        ("GET", "/api/v1/pods?watch=1&timeoutSeconds=-1", "200 /pods/cluster//WATCH"),
        ("GET", "/api/v1/watch/pods?timeoutSeconds=-1", "200 /pods/cluster//WATCH"),
        ("DELETE", "/api/v1/namespaces/default/pods", "200 /pods/namespace//DELETE"),
        ("GET", f"{POD}/log", "404 /pods/resource/log/CONNECT"),
        ("POST", f"{POD}/exec", "404 /pods/resource/exec/CONNECT"),
        ("GET", f"{POD}/nope", ""),
        ("FOO", POD, ""),
        ("HEAD", "/api/v1/pods", ""),
        ("GET", "/apis/x.example/v1/things", ""),
        ("HEAD", "/healthz", "200 ////healthz/GET"),
        ("FOO", "/readyz", "200 ////readyz/other"),
        ("GET", "/version", ""),
        ("GET", "/nope", ""),
    ],
)
async def test_the_server_counts_what_led_somewhere(
    running: Any, method: str, path: str, counted: str
) -> None:
    body = {"metadata": {"name": "a"}} if method == "POST" else None
    await running.http(method, path, body)
    told = (await running.http("GET", "/metrics")).out.splitlines()
    rows = [dict(re.findall(r'(\w+)="([^"]*)"', row)) for row in told if row.startswith(COUNTED)]
    order = ("dry_run", "resource", "scope", "subresource", "verb")
    found = [f"{row['code']} {'/'.join(row[key] for key in order)}" for row in rows]
    assert found == ([counted] if counted else [])


async def test_the_server_counts_nothing_of_those_it_does_not_let_in(running: Any) -> None:
    await running.http("GET", "/api/v1/pods", token=None)
    told = (await running.http("GET", "/metrics")).out
    assert COUNTED not in told
    assert 'apiserver_storage_objects{resource="namespaces"} ' in told
    checks = (await running.http("GET", "/metrics/slis")).out
    assert 'kubernetes_healthcheck{name="ping",type="livez"} 1\n' in checks
    await running.http("GET", "/api/v1/pods")
    assert (await running.http("DELETE", "/metrics")).out == "metrics reset\n"
    assert COUNTED not in (await running.http("GET", "/metrics")).out
    assert (await running.http("GET", "/metrics", token=None)).code == 403


async def test_documents_of_openapi_are_files_that_clients_may_have(running: Any) -> None:
    for path, vary in (("/openapi/v2", "Accept"), ("/openapi/v3/apis/apps/v1", "Accept")):
        first = await running.http("GET", path)
        tag = first.headers["etag"]
        assert (first.code, first.headers["accept-ranges"], first.headers["vary"]) == (200, "bytes", vary)
        for known, code in ((f'"x", {tag}', 304), (f"W/{tag}", 304), ("*", 304), ('"x"', 200)):
            assert (await running.http("GET", path, if_none_match=known)).code == code
        refused = await running.http("GET", path, accept="text/html")
        assert (refused.code, refused.out) == (406, "")


async def test_metadata_of_custom_objects_comes_in_protobuf_too(running: Any) -> None:
    names = {"plural": "things", "kind": "Thing"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec: Any = {"group": "example.org", "scope": "Cluster", "names": names, "versions": [version]}
    made: Any = {"metadata": {"name": "things.example.org"}, "spec": spec}
    kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await running.http("POST", kinds, made)).code == 201
    path, protobuf = "/apis/example.org/v1/things", "application/vnd.kubernetes.protobuf"
    partial = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    answer = await running.http("GET", path, accept=f"{protobuf};{partial}")
    assert (answer.code, answer.headers["content-type"]) == (200, protobuf)
    empty = await running.http("GET", path, accept=f"application/json;{partial}")
    assert empty.json["items"] is None
    refused = await running.http("GET", path, accept="application/cbor")
    assert (refused.code, refused.json["message"].endswith(f"application/yaml, {protobuf}")) == (406, True)


def test_verbs_of_a_kind_are_a_message_of_their_own_in_protobuf() -> None:
    kind: JsonObject = {
        "name": "as",
        "singularName": "a",
        "namespaced": True,
        "kind": "A",
        "verbs": ["get", "list"],
    }
    listed: JsonObject = {"kind": "APIResourceList", "groupVersion": "v1", "resources": [kind]}
    resource = b"\n\x02as\x10\x01\x1a\x01A\x22\x0b\n\x03get\n\x04list\x32\x01aB\x00J\x00R\x00"
    message = b"\n\x02v1\x12" + bytes([len(resource)]) + resource
    envelope = b"\n\x13\n\x00\x12\x0fAPIResourceList\x12" + bytes([len(message)]) + message
    assert encode_envelope(listed) == b"k8s\x00" + envelope + b"\x1a\x00\x22\x00"
