"""Where paths and methods lead: to old paths of watches, to custom kinds, to objects that are not there."""

from __future__ import annotations

from typing import Any

import pytest

_MERGE = "application/merge-patch+json"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_NAMES = {"plural": "foos", "kind": "Foo"}
_VERSION = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    "subresources": {"status": {}},
}
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "foos.example.org"},
    "spec": {"group": "example.org", "scope": "Namespaced", "names": _NAMES, "versions": [_VERSION]},
}
_FOO = {"apiVersion": "example.org/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": {"b": 1, "a": 2}}
_ALL = "/apis/example.org/v1/foos"
_HERE = "/apis/example.org/v1/namespaces/default/foos"
_NO_METHOD = "the server does not allow this method on the requested resource"
_NO_VERB = 'is not supported on resources of kind "foos.example.org"'


@pytest.fixture
async def served(running: Any) -> Any:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await running.http("POST", definitions, _DEFINITION)).code == 201
    assert (await running.http("POST", _HERE, _FOO)).code == 201
    return running


async def test_old_paths_of_watches_only_watch(running: Any) -> None:
    configured = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    await running.http("POST", "/api/v1/namespaces/default/configmaps", configured)
    old = "/api/v1/watch/namespaces/default/configmaps/c"
    for method in ("DELETE", "PUT", "POST", "PATCH"):
        refused = await running.http(method, old, b"{}", content_type=_MERGE)
        assert (refused.code, refused.json["message"]) == (405, _NO_METHOD), method
    assert (await running.http("GET", "/api/v1/namespaces/default/configmaps/c")).code == 200
    for lost in ("/api/v1/watch/componentstatuses", "/api/v1/watch/namespaces/default/pods/p/log"):
        assert (await running.http("GET", lost)).code == 404


async def test_a_patch_of_what_is_not_there_is_told_so_whatever_it_says(running: Any) -> None:
    for body, kind in ((b"[]", _MERGE), (b"nothing", "application/json-patch+json")):
        lost = await running.http("PATCH", "/api/v1/namespaces/default/pods/p", body, content_type=kind)
        assert (lost.code, lost.json["message"]) == (404, 'pods "p" not found')


async def test_custom_kinds_know_no_strategic_patch_whether_they_are_there_or_not(served: Any) -> None:
    for name in ("f", "none"):
        kind = "application/strategic-merge-patch+json"
        refused = await served.http("PATCH", f"{_HERE}/{name}", b"{}", content_type=kind)
        assert refused.code == 415, name


async def test_paths_of_custom_kinds_count_by_what_a_method_would_do(served: Any) -> None:
    rows = [
        ("GET", _ALL, 200, '"items":[{"apiVersion"'),
        ("HEAD", _ALL, 200, ""),
        ("HEAD", f"{_HERE}/f/status", 200, ""),
        ("GET", f"{_HERE}/f/status/more", 200, '"kind":"Foo"'),
        ("POST", _ALL, 404, "404 page not found"),
        ("DELETE", _ALL, 404, "404 page not found"),
        ("GET", f"{_ALL}/f", 404, "404 page not found"),
        ("GET", "/apis/example.org/v1/namespaces/default/bars", 404, "404 page not found"),
        ("POST", f"{_HERE}/other", 409, '"foos.example.org \\"f\\" already exists"'),
        ("PUT", _HERE, 400, "name must be provided"),
        ("PATCH", _HERE, 400, "name must be provided"),
        ("OPTIONS", f"{_HERE}/f", 405, f" {_NO_VERB}".replace('"', '\\"')),
        ("POST", f"{_HERE}/f/status", 405, f"create {_NO_VERB}".replace('"', '\\"')),
        ("POST", "/apis/example.org/v1", 200, "APIResourceList"),
        ("POST", "/apis/apiregistration.k8s.io", 405, _NO_METHOD),
    ]
    for method, path, code, said in rows:
        body = _FOO if method in ("POST", "PUT", "PATCH") else None
        kind = _MERGE if method == "PATCH" else "application/json"
        answer = await served.http(method, path, body, content_type=kind)
        assert (answer.code, said in answer.out) == (code, True), (method, path, answer.out)


async def test_custom_objects_and_lists_are_told_in_the_order_of_names(served: Any) -> None:
    told = await served.http("GET", _HERE)
    assert list(told.json) == ["apiVersion", "items", "kind", "metadata"]
    assert list(told.json["metadata"]) == ["continue", "resourceVersion"]
    assert list(told.json["items"][0]) == ["apiVersion", "kind", "metadata", "spec"]
    assert list(told.json["items"][0]["spec"]) == ["a", "b"]
    part = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
    alone = await served.http("GET", f"{_HERE}/f", accept=part.format(""))
    assert list(alone.json["metadata"])[:3] == ["name", "namespace", "uid"]
    refused = await served.http("GET", f"{_HERE}/f", accept=part.format("List"))
    assert (refused.code, refused.json["message"]) == (500, "content is not a list")


async def test_parts_of_the_control_plane_have_no_version_and_no_pages(running: Any) -> None:
    listed = (await running.http("GET", "/api/v1/componentstatuses?limit=1")).json
    assert (listed["metadata"], len(listed["items"])) == ({}, 3)
    assert {tuple(one["metadata"]) for one in listed["items"]} == {("name",)}
    alone = (await running.http("GET", "/api/v1/componentstatuses/etcd-0", accept=_TABLE)).json
    assert (alone["metadata"], alone["rows"][0]["object"]["metadata"]) == ({}, {"name": "etcd-0"})


@pytest.mark.parametrize(("plural", "rows"), [("limitranges", None), ("pods", [])])
async def test_rows_of_empty_tables_are_those_of_their_printer(running: Any, plural: str, rows: Any) -> None:
    table = await running.http("GET", f"/api/v1/{plural}", accept=_TABLE)
    assert table.json["rows"] == rows


async def test_extension_servers_find_the_authority_of_clients(running: Any) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    told = (await running.http("GET", path)).json
    assert told["data"] == {"client-ca-file": running.endpoint.ca_pem.decode()}


async def test_bodies_of_another_kind_than_the_server_within_knows_are_told_of(served: Any) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod"}
    for path, said in (
        (_HERE, "the API version in the data (v1) does not match the expected API version (example.org/v1)"),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            (
                'Pod in version "v1" cannot be handled as a APIService: no kind "Pod" is registered for '
                'version "v1" in scheme "pkg/runtime/scheme.go:111"'
            ),
        ),
    ):
        refused = await served.http("POST", path, pod)
        assert (refused.code, refused.json["message"]) == (400, said)
