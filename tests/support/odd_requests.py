"""Requests with odd headers, options and bodies, in an order in which none spoils what a later one needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from support.bad_requests import MAPS, BadRequest

_META = "g=meta.k8s.io"
_MAP = f"{MAPS}/p"
_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


def _member(name: str, value: str) -> str:
    """An object of one member."""
    return f'{{"{name}":{value}}}'


_ACCEPTED = (
    *(
        "text/html",
        "application/cbor",
        "APPLICATION/JSON",
        "application/*",
        "foo",
        ";;;",
        "application/json-seq",
    ),
    *(
        "application/xml, application/json",
        "application/xml;q=1,*/*;q=0.1",
        "application/json;q=0",
        "*/*;q=x",
    ),
    *("application/yaml", "application/json;q=0.5,application/yaml;q=0.9", "application/json;stream=other"),
    *(f"application/json;as=Table;v={version};{_META}" for version in ("v1", "v1beta1", "v2")),
    *(f"application/json;as={kind};v=v1;{_META}" for kind in ("PartialObjectMetadata", "Foo")),
    f"application/json;as=PartialObjectMetadataList;v=v1;{_META}",
    *("application/json;as=Table", "application/json;as=Table;v=v1;g=foo", "application/json;sv=v1"),
    f"application/json;as=Table;v=v1;{_META},application/json",
    f"application/vnd.kubernetes.protobuf;as=Table;v=v1;{_META}",
    "application/vnd.kubernetes.protobuf",
)
_DELETIONS = (
    *(
        "[]",
        '"a"',
        "5",
        "x",
        '{"kind":"Pod","apiVersion":"v1"}',
        '{"kind":"DeleteOptions","apiVersion":"x/v1"}',
    ),
    *(_member("gracePeriodSeconds", value) for value in ("-1", "1.5", '"5"', "9223372036854775808")),
    *(_member("propagationPolicy", value) for value in ('"Foo"', '""', "5")),
    '{"propagationPolicy":"Orphan","orphanDependents":true}',
    *(_member("dryRun", value) for value in ('["x"]', '["All","x"]', '"All"', "[5]")),
    *(_member("preconditions", value) for value in ('{"resourceVersion":5}', "[]")),
    *('{"orphanDependents":"x"}', '{"gracePeriodSeconds":1', '{"foo":1}'),
)
_QUERIES = (
    *(
        "dryRun=",
        "dryRun=all",
        "dryRun=All&dryRun=x",
        "fieldValidation=strict",
        "fieldManager=a%0Ab",
        "timeout=x",
    ),
    *(
        "timeout=1",
        f"dryRun=x&fieldManager={'a' * 129}&fieldValidation=x",
        "force=true",
        "fieldManager=f&force=x",
    ),
    *("gracePeriodSeconds=", "propagationPolicy=", "propagationPolicy=Orphan&orphanDependents=1"),
)
_LISTS = (
    *(
        "limit=9223372036854775807",
        "limit=9223372036854775808",
        "limit=",
        "limit=%2B1",
        "limit=%zz",
        "limit=x;a=b",
    ),
    *("limit=1&limit=x", "labelSelector=%zz", "timeoutSeconds=", "timeout=1", "&&"),
)


_PATHS = (
    *("", "index.html", "nope", "api", "api/", "api/v1", "api//v1/pods", "/api/v1/configmaps", "api/v9/pods"),
    *(
        "apis",
        "apis/",
        "apis/apps",
        "apis/apps/v1",
        "apis/apps/v9",
        "apis/apps/v1/nope",
        "apis/nope/v1/nope/x",
    ),
    *("API/v1", "api/v1/Pods", "api/v1/configmaps/a", "api/v1/configmaps", "api/v1/namespaces/default/nodes"),
    *(
        "api/v1/namespaces/default/pods/x/nope",
        "api/v1/namespaces/default/pods/x/log/y",
        "api/v1/nodes/x/status",
    ),
    *(
        "apis/apps/v1/deployments/d/scale",
        "apis/authorization.k8s.io/v1/localsubjectaccessreviews",
        "version",
    ),
    *(
        "version/x",
        "healthz",
        "healthz/",
        "healthz/ping",
        "healthz/nope",
        "livez/poststarthook/rbac/bootstrap-roles",
    ),
    *("readyz/informer-sync", "livez/informer-sync", ".well-known", "openapi", "openid/v1", "api/v1/watch"),
)
_METADATA = (
    *(
        '"uid":"x"',
        '"resourceVersion":"1"',
        '"resourceVersion":"x"',
        '"resourceVersion":"0"',
        '"generation":-5',
    ),
    *(
        '"deletionTimestamp":"2020-01-01T00:00:00Z"',
        '"deletionGracePeriodSeconds":1',
    ),
    *('"ownerReferences":[{"apiVersion":"a/b/c","kind":"Pod","name":"p","uid":"1"}]', '"managedFields":[{}]'),
    *('"finalizers":"x"', '"labels":[]', '"namespace":"x"', '"name":"q"', '"selfLink":"x"'),
)
"""What stands in the metadata of maps named `m`."""
_KINDS_SAID = (
    *(
        '"kind":"Endpoints","apiVersion":"v1"',
        '"apiVersion":"v2"',
        '"kind":"configmap"',
        '"apiVersion":"a/b/c"',
    ),
    '"kind":"ConfigMapList","apiVersion":"v1"',
)
_SCALE = "/apis/apps/v1/namespaces/default/deployments/d/scale"
_SCALES = (
    *("{}", '{"metadata":{"name":"x"}}', '{"metadata":{"name":"d","namespace":"x"}}', '{"kind":"Pod"}', "[]"),
    *(
        '{"metadata":{"name":"d"},"spec":{"replicas":"x"}}',
        '{"metadata":{"name":"d"},"spec":{"replicas":-1}}',
    ),
    '{"metadata":{"name":"d"},"spec":{"replicas":1,"foo":1}}',
)
_HEALTH = (
    "livez?verbose",
    "readyz?verbose&exclude=etcd",
    "livez?verbose&exclude=x",
    "healthz?exclude=x",
)
_WATCHES = (
    *("watch=1&continue=x", "watch=1&resourceVersion=0&continue=x", "watch=1&limit=x", "watch=0&limit=1"),
    "watch=1&fieldSelector=nope%3Dx",
)


def requests() -> Iterator[BadRequest]:
    """All of them."""
    yield from _paths()
    yield from _options()
    yield from _bodies()


def _paths() -> Iterator[BadRequest]:
    """Whatever methods of whatever paths."""
    for path in _PATHS:
        for method in ("GET", "HEAD", "OPTIONS", "POST", "BREW"):
            if method == "GET" and path in ("", "index.html", "api", "api/", "version"):
                continue  # What is told there is the server's own.
            yield BadRequest(f"{method} /{path}", method, f"/{path}", b"{}" if method == "POST" else b"")
    for path in _HEALTH:
        yield BadRequest(f"GET /{path}", "GET", f"/{path}")
    for query in _WATCHES:
        yield BadRequest(f"a watch with {query}", "GET", f"{MAPS}?{query}")


def _options() -> Iterator[BadRequest]:
    """Odd headers, parameters and bodies of requests that are served."""
    good: dict[str, Any] = {"metadata": {"name": "p"}, "data": {"a": "b"}}
    yield _sent("POST", MAPS, good)
    for accept in _ACCEPTED:
        wanted = (("accept", accept),)
        for path in (_MAP, MAPS, f"{MAPS}/nope"):
            yield BadRequest(f"{accept} of {path}", "GET", path, headers=wanted)
        yield BadRequest(f"{accept} to make", "POST", MAPS, b'{"metadata":{"name":"p"}}', headers=wanted)
    for include in ("none", "x"):
        table = (("accept", _ACCEPTED[14]),)
        yield BadRequest(f"a table with {include}", "GET", f"{MAPS}?includeObject={include}", headers=table)
    for query in _QUERIES:
        yield _sent("POST", f"{MAPS}?{query}", good)
        yield _sent("PUT", f"{MAPS}/p?{query}", good)
        for patch in _TYPES:
            yield _patched(
                patch, f"{MAPS}/p?{query}", [] if patch == "json" else {**_typed(good), "data": {}}
            )
        yield BadRequest(f"DELETE with {query}", "DELETE", f"{MAPS}/nope?{query}")
    for body in _DELETIONS:
        yield BadRequest(f"DELETE by {body}", "DELETE", f"{MAPS}/nope", body.encode())
    for query in _LISTS:
        yield BadRequest(f"a list with {query}", "GET", f"{MAPS}?{query}")
        yield BadRequest(f"a map with {query}", "GET", f"{_MAP}?{query}")
    for content in ("application/json;foo", "/", "application/JSON", "application/json; charset=utf-8"):
        yield BadRequest(f"a body of {content}", "PUT", _MAP, json.dumps(good).encode(), content)
    yield BadRequest("a watch of one map", "GET", f"{_MAP}?watch=1")
    yield _sent("PUT", _MAP, {"data": {}})
    yield _sent("PUT", f"{MAPS}/nope", {"data": {}})
    yield _patched("merge", _MAP, {"metadata": {"name": None}})
    yield BadRequest("a body without the query's dry run", "DELETE", f"{_MAP}?dryRun=All", b"{}")
    yield BadRequest("what went although the query said to try", "GET", _MAP)


def _typed(obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", **obj}


def _sent(method: str, path: str, body: object) -> BadRequest:
    text = json.dumps(body)
    return BadRequest(f"{method} {path} {text}", method, path, text.encode())


def _patched(patch: str, path: str, body: object) -> BadRequest:
    text = json.dumps(body)
    return BadRequest(f"{patch} patch of {path} by {text}", "PATCH", path, text.encode(), _TYPES[patch])


def _bodies() -> Iterator[BadRequest]:
    """What bodies say of an object's metadata and kind, and of scales; of all nothing is kept."""
    yield _sent("POST", MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}})
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    yield _sent(
        "POST", "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "d"}, "spec": spec}
    )
    for said in (*(f'"metadata":{{"name":"m",{one}}}' for one in _METADATA), *_KINDS_SAID):
        body = f"{{{said}}}".encode()
        named = body if b'"name":"m"' in body else body[:-1] + b',"metadata":{"name":"m"}}'
        new = named.replace(b'"name":"m"', b'"name":"new"')
        yield BadRequest(f"a new map with {said}", "POST", f"{MAPS}?dryRun=All", new)
        yield BadRequest(f"a map with {said}", "PUT", f"{MAPS}/m?dryRun=All", named)
        for patch in ("merge", "strategic"):
            name = f"{patch} patch of a map with {said}"
            yield BadRequest(name, "PATCH", f"{MAPS}/m?dryRun=All", body, _TYPES[patch])
    yield BadRequest(
        "a map with a version that is kept", "POST", MAPS, b'{"metadata":{"name":"v","resourceVersion":"1"}}'
    )
    for scale in _SCALES:
        yield BadRequest(f"a scale of {scale}", "PUT", f"{_SCALE}?dryRun=All", scale.encode())
        if "replicas" not in scale and "kind" not in scale:
            name = f"patch of a scale by {scale}"
            yield BadRequest(name, "PATCH", f"{_SCALE}?dryRun=All", scale.encode(), _TYPES["merge"])
    for patch in ("merge", "strategic", "json"):
        yield BadRequest(f"null as {patch} patch", "PATCH", f"{MAPS}/m?dryRun=All", b"null", _TYPES[patch])
