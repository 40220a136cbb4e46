"""The server's face to strangers and to clients that misbehave."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import CONFIG_MAP

MAPS = "/api/v1/namespaces/default/configmaps"
_ENDING = {"deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"}


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/version", "/healthz", "/openapi/v3", "/nonsense"])
@pytest.mark.parametrize(
    "token",
    ["wrong", "tok\u00e9n", "a.b.c", "e30.e30." + "x" * 100_000],
    ids=["a wrong token", "no ASCII", "nearly a web token", "a long one"],
)
async def test_a_wrong_token_gets_401_everywhere(running: Any, path: str, token: str | None) -> None:
    answer = await running.http("GET", path, token=token)
    assert answer.code == 401
    assert (answer.json["kind"], answer.json["reason"], answer.json["code"]) == (
        "Status",
        "Unauthorized",
        401,
    )


@pytest.mark.parametrize("path", ["/version", "/readyz", "/nonsense", "/api/v1/nodes", "/openapi/v2"])
async def test_a_timeout_that_is_none_is_refused_before_anything_else(running: Any, path: str) -> None:
    answer = await running.http("GET", f"{path}?timeout=invalid", token="wrong")
    assert answer.code == 400
    assert answer.json["message"] == (
        'invalid timeout specified in the request URL - time: invalid duration "invalid"'
    )


async def test_a_body_of_100_mb_is_refused_before_it_is_read(running: Any) -> None:
    head = f"POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {running.http.token}\r\n"
    async with running.http.open() as (reader, writer), asyncio.timeout(60):
        writer.write(f"{head}content-length: 104857600\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")


async def test_a_body_without_end_is_refused_once_it_is_too_large(running: Any) -> None:
    head = f"POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {running.http.token}\r\n"
    chunk = b"40000\r\n" + b"x" * 0x40000 + b"\r\n"
    sent = 0
    async with running.http.open() as (reader, writer), asyncio.timeout(60):
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        first = asyncio.ensure_future(reader.readline())
        try:
            while not first.done() and sent < 400:
                writer.write(chunk)
                sent += 1
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        assert (await first).startswith(b"HTTP/1.1 413 ")
    assert sent < 400
    assert (await running.http("GET", "/healthz")).out == "ok"


@pytest.mark.parametrize(
    ("body", "headers", "code", "words"),
    [
        pytest.param(b"{", {}, 400, "json parse error", id="half a JSON object"),
        pytest.param(b"[]", {}, 400, "cannot unmarshal array into Go value", id="no object"),
        pytest.param(b"[" * 100_000, {}, 400, "max depth", id="nested without end"),
        pytest.param(
            b"k8s\x00\xff",
            {"content_type": "application/vnd.kubernetes.protobuf"},
            400,
            "",
            id="bad protobuf",
        ),
        pytest.param(
            b"a: &a [*a]", {"content_type": "application/yaml"}, 400, "YAML", id="YAML that contains itself"
        ),
        pytest.param(b"x", {"content_type": "text/plain"}, 415, "unknown format", id="plain text"),
        pytest.param(
            b'{"kind":"Secret","apiVersion":"v1"}',
            {},
            400,
            "cannot be handled as a ConfigMap",
            id="another kind",
        ),
        pytest.param(
            b'{"metadata":{"name":"a","namespace":"b"}}', {}, 400, "does not match", id="another namespace"
        ),
        pytest.param(
            b'{"metadata":{"name":"a","resourceVersion":"1"}}', {}, 500, "should not be set", id="a version"
        ),
        pytest.param(b'{"metadata":{"name":"A_"}}', {}, 422, "metadata.name: Invalid value", id="a bad name"),
        pytest.param(b"{}", {}, 422, "name or generateName is required", id="no name"),
        pytest.param(
            b'{"metadata":{"name":7}}', {}, 400, "cannot unmarshal number into Go", id="a wrong type"
        ),
    ],
)
async def test_bad_bodies_are_refused_with_a_status(
    running: Any, body: bytes, headers: dict[str, str], code: int, words: str
) -> None:
    answer = await running.http("POST", MAPS, body, **headers)
    assert answer.code == answer.json["code"] == code
    assert words in answer.json["message"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        pytest.param("GET", "/apis/apps/v1/nonsense", 404, id="no such resource"),
        pytest.param("GET", "/api/v1/namespaces/default/nodes", 404, id="a namespace for a cluster's kind"),
        pytest.param("GET", "/api/v1/namespaces/default/pods/x/nonsense", 404, id="no such subresource"),
        pytest.param("PUT", MAPS, 405, id="PUT of a collection"),
        pytest.param("POST", f"{MAPS}/x", 405, id="POST of an object"),
        pytest.param("POST", "/api", 405, id="POST of discovery"),
        pytest.param("GET", f"{MAPS}?limit=x", 400, id="a limit that is no number"),
        pytest.param("GET", f"{MAPS}?continue=x", 400, id="a made-up continue token"),
        pytest.param("GET", f"{MAPS}?continue={'W1tb' * 1000}", 400, id="a token of brackets"),
        pytest.param("GET", f"{MAPS}?resourceVersion=x", 400, id="a made-up version"),
        pytest.param("GET", f"{MAPS}?labelSelector=a%3D%3D%3D", 400, id="half a selector"),
        pytest.param("DELETE", f"{MAPS}/x?propagationPolicy=x", 422, id="an unknown propagation"),
        pytest.param("DELETE", "/api/v1/namespaces/default", 403, id="a namespace that must live"),
        pytest.param("GET", f"{MAPS}/x?export=1", 400, id="a parameter of old"),
        pytest.param("POST", "/api/v1/watch/namespaces/default/configmaps", 405, id="POST of a watch"),
    ],
)
async def test_bad_requests_are_refused_with_a_status(
    running: Any, method: str, path: str, code: int
) -> None:
    answer = await running.http(method, path)
    assert (answer.code, answer.json["kind"], answer.json["code"]) == (code, "Status", code)


@pytest.mark.parametrize("path", ["/nonsense", "/apis/nothing.example/v1/x", "/apis/nothing.example"])
async def test_paths_outside_every_group_are_refused_in_plain_text(running: Any, path: str) -> None:
    answer = await running.http("GET", path)
    assert (answer.code, answer.out) == (404, "404 page not found\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


async def test_unknown_fields_warn_are_refused_or_pass_as_asked(running: Any) -> None:
    body = {"metadata": {"name": "a"}, "dato": {"x": "y"}}
    warned = await running.http("POST", f"{MAPS}?dryRun=All", body)
    assert (warned.code, warned.headers["warning"]) == (201, '299 - "unknown field \\"dato\\""')
    strict = await running.http("POST", f"{MAPS}?fieldValidation=Strict", body)
    assert strict.code == 400
    assert 'strict decoding error: unknown field "dato"' in strict.json["message"]
    ignored = await running.http("POST", f"{MAPS}?fieldValidation=Ignore", body)
    assert (ignored.code, "warning" in ignored.headers) == (201, False)


async def test_writes_with_a_stale_version_or_uid_conflict(running: Any) -> None:
    await running.http("POST", MAPS, {"metadata": {"name": "a"}})
    old = (await running.http("GET", f"{MAPS}/a")).json
    assert (await running.http("PUT", f"{MAPS}/a", {**old, "data": {"x": "1"}})).code == 200
    stale = await running.http("PUT", f"{MAPS}/a", {**old, "data": {"x": "2"}})
    assert (stale.code, stale.json["reason"]) == (409, "Conflict")
    preconditions = {"preconditions": {"uid": "another"}}
    assert (await running.http("DELETE", f"{MAPS}/a", preconditions)).code == 409
    again = await running.http("POST", MAPS, {"metadata": {"name": "a"}})
    assert (again.code, again.json["reason"]) == (409, "AlreadyExists")
    assert again.json["message"] == 'configmaps "a" already exists'


async def test_an_update_that_changes_nothing_keeps_the_version(running: Any) -> None:
    created = (await running.http("POST", MAPS, {"metadata": {"name": "a"}})).json
    same = (await running.http("PUT", f"{MAPS}/a", created)).json
    assert same["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_a_body_is_read_before_its_object_is_missed(running: Any) -> None:
    body = {"metadata": {"name": "a"}, "spec": {}}
    answer = await running.http("PUT", "/api/v1/namespaces/none/finalize", body)
    words = "the name of the object (a) does not match the name on the URL (none)"
    assert (answer.code, answer.json["message"]) == (400, words)


async def test_a_streaming_list_marks_where_the_present_ends(running: Any) -> None:
    await running.http("POST", MAPS, {"metadata": {"name": "a"}})
    streaming = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    for query in (f"{streaming}&allowWatchBookmarks=true", "allowWatchBookmarks=true"):
        added, bookmark = await _watched(running, query)
        assert (added["type"], bookmark["type"]) == ("ADDED", "BOOKMARK")
        assert set(bookmark["object"]["metadata"]) == {"resourceVersion", "annotations"}
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert [one["type"] for one in await _watched(running, streaming)] == ["ADDED"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("resourceVersion=999999", []),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999", [504]),
        ("sendInitialEvents=false&resourceVersionMatch=NotOlderThan", []),
    ],
)
async def test_a_watch_that_begins_later_is_told_nothing_of_before(
    running: Any, query: str, told: list[int]
) -> None:
    await running.http("POST", MAPS, {"metadata": {"name": "a"}})
    assert [one["object"]["code"] for one in await _watched(running, query)] == told


async def _watched(running: Any, query: str) -> list[Any]:
    """What a watch tells that is over at once."""
    answer = await running.http("GET", f"{MAPS}?watch=1&timeoutSeconds=-1&{query}")
    return [msgspec.json.decode(line) for line in answer.out.splitlines() if line.startswith("{")]


async def test_a_bookmark_has_what_its_kind_always_writes(running: Any) -> None:
    path = "/apis/apps/v1/deployments?watch=1&timeoutSeconds=-1&allowWatchBookmarks=true"
    (line,) = [one for one in (await running.http("GET", path)).out.splitlines() if one.startswith("{")]
    obj = msgspec.json.decode(line)["object"]
    template = {"metadata": {}, "spec": {"containers": None}}
    assert obj["spec"] == {"selector": None, "template": template, "strategy": {}}
    assert obj["status"] == {}


async def test_pages_end_where_as_many_match_as_are_wanted(running: Any) -> None:
    for name in "abc":
        labels = {"odd": "1"} if name in "ac" else {"even": "1"}
        await running.http("POST", MAPS, {"metadata": {"name": name, "labels": labels}})
    first = (await running.http("GET", f"{MAPS}?limit=1&labelSelector=even")).json
    token = first["metadata"].pop("continue")
    assert [one["metadata"]["name"] for one in first["items"]] == ["b"]
    assert "remainingItemCount" not in first["metadata"]
    rest = (await running.http("GET", f"{MAPS}?limit=1&labelSelector=even&continue={token}")).json
    assert (rest["items"], "continue" in rest["metadata"]) == ([], False)
    everything = (await running.http("GET", f"{MAPS}?limit=1&resourceVersion=0")).json
    assert (len(everything["items"]), "continue" in everything["metadata"]) == (3, False)


async def test_a_token_goes_on_in_other_lists_by_its_key(running: Any) -> None:
    for name in "ab":
        await running.http("POST", MAPS, {"metadata": {"name": name}})
    token = (await running.http("GET", f"{MAPS}?limit=1")).json["metadata"]["continue"]
    whole = (await running.http("GET", f"/api/v1/configmaps?limit=1&continue={token}")).json
    assert whole["items"][0]["metadata"]["name"] == "a"
    gone = (await running.http("DELETE", f"{MAPS}?limit=1")).json["metadata"]
    assert (gone["remainingItemCount"], "continue" in gone) == (1, True)


async def test_watchers_see_what_a_deletion_makes_of_an_object_before_it_goes(running: Any) -> None:
    version = (await running.http("GET", MAPS)).json["metadata"]["resourceVersion"]
    await running.http("POST", MAPS, {"metadata": {"name": "plain"}})
    await running.http("DELETE", f"{MAPS}/plain")
    await running.http("POST", MAPS, {"metadata": {"name": "held", "finalizers": ["x.io/f"]}})
    await running.http("DELETE", f"{MAPS}/held")
    held = (await running.http("GET", f"{MAPS}/held")).json
    await running.http("PUT", f"{MAPS}/held", {**held, "metadata": {**held["metadata"], "finalizers": []}})
    seen = await _watched(running, f"resourceVersion={version}")
    facts = [(one["type"], sorted(one["object"]["metadata"].keys() & _ENDING)) for one in seen]
    assert facts == [
        ("ADDED", []),
        ("DELETED", []),
        ("ADDED", ["finalizers"]),
        ("MODIFIED", sorted(_ENDING)),
        ("DELETED", sorted(_ENDING)),
    ]


async def test_watchers_see_a_pod_end_before_it_goes(running: Any) -> None:
    version = (await running.http("GET", MAPS)).json["metadata"]["resourceVersion"]
    await running.pod("p", nodeName="n")
    pods = "/api/v1/namespaces/default/pods"
    await running.http("DELETE", f"{pods}/p?gracePeriodSeconds=-1")
    await running.http("DELETE", f"{pods}/p?gracePeriodSeconds=0")
    watch = await running.http("GET", f"{pods}?watch=1&timeoutSeconds=-1&resourceVersion={version}")
    seen = [msgspec.json.decode(line) for line in watch.out.splitlines() if line.startswith("{")]
    facts = [(one["type"], one["object"]["metadata"].get("deletionGracePeriodSeconds")) for one in seen]
    assert facts == [("ADDED", None), ("MODIFIED", 1), ("MODIFIED", 0), ("DELETED", 0)]


@pytest.mark.parametrize("size", [10, 200_000], ids=["one piece", "several pieces"])
async def test_a_list_that_is_sent_in_pieces_is_whole(running: Any, size: int) -> None:
    for name in "abc":
        body: JsonObject = {"metadata": {"name": name}, "data": {"key": name * size}}
        await running.api.create(CONFIG_MAP, body, namespace="default")
    answer = await running.http("GET", MAPS)
    assert [one["data"]["key"] for one in answer.json["items"]] == [name * size for name in "abc"]
    assert int(answer.headers["content-length"]) == len(answer.out)


async def test_clients_that_leave_or_stall_in_the_middle_leave_no_traceback(
    running: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(3):
        head = f"GET {MAPS}?watch=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {running.http.token}\r\n\r\n"
        async with running.http.open() as (reader, writer):  # its end comes without a word
            writer.write(head.encode())
            await reader.readline()
    await running.api.create(CONFIG_MAP, {"metadata": {"name": "a"}}, namespace="default")
    assert (await running.http("GET", f"{MAPS}/a")).code == 200
    await running.server.stop()
    assert caplog.records == []


async def test_a_port_in_use_is_an_error_with_a_remedy(running: Any) -> None:
    other = ApiServer(SystemClock())
    with pytest.raises(ConfigError) as caught:
        await other.start(running.authority, port=running.http.port)
    (problem,) = caught.value.problems
    assert problem.what == f"port {running.http.port} is in use"
    assert "--port" in problem.remedy


async def test_a_server_can_stop_and_start_again_with_its_objects() -> None:
    server = ApiServer(SystemClock())
    authority = Authority.generate(datetime.now(UTC))
    first = await server.start(authority)
    await server.local().create(CONFIG_MAP, {"metadata": {"name": "a"}}, namespace="default")
    await server.stop()
    second = await server.start(authority, token="known")
    assert second.token == "known" != first.token
    assert (await server.local().get(CONFIG_MAP, "a", "default")).metadata.name == "a"
    await server.stop()


def test_no_token_shows_in_a_representation(running: Any) -> None:
    assert running.endpoint.token not in repr(running.endpoint)
    assert running.endpoint.token in kubeconfig_text(running.endpoint)


async def test_health_version_and_classic_discovery(running: Any) -> None:
    assert (await running.http("GET", "/readyz")).out == "ok"
    told = (await running.http("GET", "/readyz?verbose&exclude=etcd&exclude=nothing")).out.splitlines()
    assert (told[0], told[2], told[-1]) == ("[+]ping ok", "[+]etcd excluded: ok", "readyz check passed")
    assert told[-2] == 'warn: some health checks cannot be excluded: no matches for "nothing"'
    assert (await running.http("GET", "/livez/poststarthook/rbac/bootstrap-roles")).out == "ok"
    assert (await running.http("GET", "/livez/informer-sync")).code == 404
    version = (await running.http("GET", "/version")).json
    assert (version["major"], version["minor"], version["gitVersion"][:6]) == ("1", "35", "v1.35.")
    groups = (await running.http("GET", "/apis")).json["groups"]
    assert {"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}.items() <= next(
        group for group in groups if group["name"] == "apps"
    ).items()
    names = {one["name"] for one in (await running.http("GET", "/api/v1")).json["resources"]}
    assert {"pods", "pods/log", "pods/exec", "nodes/status"} <= names


async def test_discovery_is_not_sent_again_while_it_stays_the_same(running: Any) -> None:
    accept = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    first = await running.http("GET", "/apis", **accept)
    assert first.headers["content-type"] == accept["accept"]
    again = await running.http("GET", "/apis", **accept, if_none_match=first.headers["etag"])
    assert (again.code, again.out) == (304, "")


async def test_items_of_built_in_lists_leave_their_type_to_the_list(running: Any) -> None:
    listed = (await running.http("GET", "/api/v1/namespaces")).json
    assert (listed["kind"], listed["apiVersion"]) == ("NamespaceList", "v1")
    assert all({"kind", "apiVersion"}.isdisjoint(item) for item in listed["items"])
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    roles = (await running.http("GET", path)).json["items"]
    assert all({"kind", "apiVersion"}.isdisjoint(item) for item in roles)
    await running.http("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
    gone = (await running.http("DELETE", "/api/v1/namespaces/default/configmaps")).json["items"]
    assert all({"kind", "apiVersion"}.isdisjoint(item) for item in gone)
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    await running.http("POST", "/api/v1/namespaces/default/events", event)
    renamed = (await running.http("GET", "/apis/events.k8s.io/v1/namespaces/default/events")).json
    assert [{"kind", "apiVersion"}.isdisjoint(item) for item in renamed["items"]] == [True]


@pytest.mark.parametrize(("version", "sizes"), [("1.1", True), ("1.0", False)])
async def test_a_watch_is_told_in_chunks_where_the_client_knows_them(
    running: Any, version: str, sizes: bool
) -> None:
    token = f"authorization: Bearer {running.http.token}"
    async with running.http.open() as (reader, writer), asyncio.timeout(30):
        writer.write(f"GET {MAPS}?watch=1 HTTP/{version}\r\nhost: x\r\n{token}\r\n\r\n".encode())
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        for number in range(2):
            name = f"m{number}"
            await running.api.create(CONFIG_MAP, {"metadata": {"name": name}}, namespace="default")
            size = int(await reader.readline(), 16) if sizes else None
            line = await reader.readline()
            assert json.loads(line)["object"]["metadata"]["name"] == name
            if sizes:
                assert (len(line), await reader.readline()) == (size, b"\r\n")


@pytest.mark.parametrize("query", ["", "?pretty=1"])
async def test_what_could_be_markup_is_escaped_as_go_does(running: Any, query: str) -> None:
    text = "<a href='x'>\u2028&"
    escaped = b"\\u003ca href='x'\\u003e\\u2028\\u0026"
    for body in ({"metadata": {"name": "m", "annotations": {"a": text}}}, {"data": {"a<b&": "1"}}):
        await running.http("POST", MAPS, body)
    for path in (f"{MAPS}/m{query}", f"{MAPS}{query}", f"{MAPS}?watch=1&timeoutSeconds=1", f"{MAPS}/a%26b"):
        answer = await running.http("GET", path)
        assert not {"<", ">", "&", "\u2028"} & set(answer.out), path
        assert escaped.decode() in answer.out or path.endswith("a%26b"), path
