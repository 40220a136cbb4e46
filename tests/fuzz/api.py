"""What clients send to the twin's API server: whatever it is, the answer is its own and no defect's."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any, Final
from urllib.parse import quote

from support.kubelet_side import FastClock
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.authentication.users import ADMIN
from tonnage.twin.apiserver.ownership.last_applied import ANNOTATION
from tonnage.twin.apiserver.printers.tables import Tables
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.serving.http import ApiApplication
from tonnage.twin.apiserver.serving.kubelets.proxy import KubeletProxy
from tonnage.twin.apiserver.serving.streams import WatchStream
from tonnage.wire.kinds import CONFIG_MAP, CUSTOM_RESOURCE, DEPLOYMENT, Kind
from tonnage.wire.objects import Object

_SIGNING_REQUEST: Final = Kind(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    "certificatesigningrequests",
    False,
    Object,
)
_DEFECT: Final = re.compile(r"Internal error occurred: \w+")
"""What the server says of an exception that nobody expects."""
_NAMESPACED: Final = "/api/v1/namespaces/default"
_THINGS: Final = "/apis/fuzz.example/v1/namespaces/default/things"
_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
PLACES: Final = (
    f"{_NAMESPACED}/configmaps",
    f"{_NAMESPACED}/pods",
    f"{_NAMESPACED}/services",
    f"{_NAMESPACED}/resourcequotas",
    _DEPLOYMENTS,
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    f"{_NAMESPACED}/serviceaccounts/default/token",
    f"{_NAMESPACED}/pods/p/eviction",
    _THINGS,
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    f"{_NAMESPACED}/secrets",
    "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    f"{_NAMESPACED}/events",
)
_TYPES: Final = ("json", "yaml", "vnd.kubernetes.protobuf", "cbor")
OBJECTS: Final = (
    f"{_NAMESPACED}/configmaps/m",
    f"{_DEPLOYMENTS}/d",
    f"{_DEPLOYMENTS}/d/scale",
    f"{_DEPLOYMENTS}/d/status",
    f"{_THINGS}/t",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/status",
)
_LISTS: Final = (f"{_NAMESPACED}/configmaps", "/api/v1/pods", "/api/v1/events", _THINGS)
_TEMPLATE: Final[JsonObject] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
}
_SECRET: Final = b'{"metadata":{"name":"s"},"data":{"a":"YQ=="}}'
Target = Callable[[bytes], None]
Ask = Callable[..., tuple[int, bytes]]


def _schema(rule: str = "self.size < 9") -> JsonObject:
    spec: JsonObject = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 1},
            "words": {"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 9}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "when": {"type": "string", "format": "date-time"},
        },
        "x-kubernetes-validations": [{"rule": rule, "message": "no"}],
    }
    return {"type": "object", "properties": {"spec": spec}}


def _definition(schema: JsonObject, plural: str = "things") -> JsonObject:
    kind = plural[:-1].capitalize()
    names: JsonObject = {"plural": plural, "singular": plural[:-1], "kind": kind, "listKind": f"{kind}List"}
    version: JsonObject = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "selectableFields": [{"jsonPath": ".spec.size"}],
    }
    spec: JsonObject = {"group": "fuzz.example", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.fuzz.example"}, "spec": spec}


@contextmanager
def server() -> Iterator[Ask]:
    """A way to ask a server in this process as HTTP would, without the wire."""
    with asyncio.Runner() as runner:
        clock, random = FastClock(), Random(0)
        made = ApiServer(clock, random=random)
        made._security.authenticator.let_in({"t": ADMIN})
        tables = Tables(clock, made.store.shapes)
        proxy = KubeletProxy(made.store, _nobody)
        watches = WatchStream(made.verbs, tables, random)
        app = ApiApplication(made.verbs, tables, proxy, watches, made._security)
        runner.run(_filled(made))

        def ask(
            method: str,
            path: str,
            body: bytes = b"",
            content_type: str = "",
            query: bytes = b"",
            headers: Sequence[tuple[bytes, bytes]] = (),
        ) -> tuple[int, bytes]:
            scope = _scope(method, path, content_type, query)
            scope["headers"] += headers
            return runner.run(_answer(app, scope, body))

        yield ask


def _nobody() -> Any:
    raise AssertionError("no node has a kubelet")


async def _filled(server: ApiServer) -> None:
    api = server.local()
    await api.create(
        CONFIG_MAP, {"metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"x": "y"}}, namespace="default"
    )
    deployment: JsonObject = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": _TEMPLATE},
    }
    await api.create(DEPLOYMENT, deployment, namespace="default")
    spec: JsonObject = {"request": "Yw==", "signerName": "example.com/any", "usages": ["client auth"]}
    await api.create(_SIGNING_REQUEST, {"metadata": {"name": "c"}, "spec": spec})
    await api.create(CUSTOM_RESOURCE, _definition(_schema()))


def _scope(method: str, path: str, content_type: str, query: bytes) -> dict[str, Any]:
    headers = [(b"host", b"x"), (b"authorization", b"Bearer t")]
    if content_type:
        headers.append((b"content-type", content_type.encode()))
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "http_version": "1.1",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "state": {},
    }


async def _answer(app: ApiApplication, scope: Mapping[str, Any], body: bytes) -> tuple[int, bytes]:
    """The status code and the body; the client is gone once it has sent everything."""
    sent: list[dict[str, Any]] = []
    messages = iter(({"type": "http.request", "body": body},))

    async def receive() -> Any:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        sent.append(message)

    await app(dict(scope), receive, send)
    assert sent, "no answer"
    code: int = sent[0]["status"]
    said = b"".join(message.get("body", b"") for message in sent[1:])
    for name, value in sent[0]["headers"]:
        assert not {10, 13} & {*name, *value}, "a header is split"
    if code >= 500:
        message = json.loads(said).get("message", "")
        assert not _DEFECT.fullmatch(message), message
    if b"protobuf" not in dict(sent[0]["headers"]).get(b"content-type", b""):
        said.decode()
    return code, said


def _split(data: bytes, choices: int) -> tuple[int, bytes]:
    """A choice out of the first byte, and the rest."""
    return (data[0] % choices, data[1:]) if data else (0, b"")


@contextmanager
def bodies() -> Iterator[Target]:
    """A place, a content type, a body: tried, never kept."""
    with server() as ask:

        def target(data: bytes) -> None:
            place, rest = _split(data, len(PLACES))
            kind, body = _split(rest, len(_TYPES))
            ask("POST", PLACES[place], body, f"application/{_TYPES[kind]}", b"dryRun=All")

        yield target


def patches(content_type: str, query: bytes = b"") -> Callable[[], AbstractContextManager[Target]]:
    """Patches of one type to objects of some kinds: tried, never kept."""

    @contextmanager
    def made() -> Iterator[Target]:
        with server() as ask:
            thing = b'{"apiVersion":"fuzz.example/v1","kind":"Thing","metadata":{"name":"t"},'
            thing += b'"spec":{"words":["a"]}}'
            code, said = ask("POST", _THINGS, thing, "application/json")
            assert code == 201, said

            def target(data: bytes) -> None:
                place, body = _split(data, len(OBJECTS))
                ask("PATCH", OBJECTS[place], body, content_type, b"dryRun=All" + query)

            yield target

    return made


def parameter(name: str) -> Callable[[], AbstractContextManager[Target]]:
    """One parameter of a list's or a watch's query; nothing but the name means the whole query."""

    @contextmanager
    def made() -> Iterator[Target]:
        with server() as ask:

            def target(data: bytes) -> None:
                place, value = _split(data, len(_LISTS))
                query = f"{name}={quote(value)}".encode() if name else value.replace(b"\0", b"")
                ask("GET", _LISTS[place], query=query)

            yield target

    return made


@contextmanager
def requests() -> Iterator[Target]:
    """A method, a path and a query in one: `GET /api?x`. Nothing of it is kept but deletions."""
    with server() as ask:

        def target(data: bytes) -> None:
            line = data.decode("latin-1").replace("\0", "")
            method, _, rest = line.partition(" ")
            path, _, query = rest.partition("?")
            ask(method, f"/{path.removeprefix('/')}", query=query.encode("latin-1"))

        yield target


@contextmanager
def last_applied() -> Iterator[Target]:
    """The record that `kubectl apply` keeps in an annotation, and looks at when there is a conflict."""
    with server() as ask:
        path, applied = OBJECTS[0], "application/apply-patch+yaml"
        new = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"x":"other"}}'

        def target(data: bytes) -> None:
            note: JsonObject = {ANNOTATION: data.decode("utf-8", "replace")}
            body = json.dumps({"metadata": {"annotations": note}}).encode()
            code, _ = ask("PATCH", path, body, "application/merge-patch+json")
            if code == 200:
                ask("PATCH", path, new, applied, b"dryRun=All&fieldManager=kubectl")

        yield target


@contextmanager
def headers() -> Iterator[Target]:
    """Headers of a request, a line each, beside those that every request has."""
    with server() as ask:

        def target(data: bytes) -> None:
            pairs = [line.partition(b":") for line in data.split(b"\n")]
            given = [(name.strip().lower(), value.strip()) for name, _, value in pairs if name.strip()]
            for method, path in (("GET", "/api/v1/pods"), ("POST", f"{_NAMESPACED}/secrets")):
                ask(method, path, _SECRET, query=b"dryRun=All", headers=given)

        yield target


@contextmanager
def rules() -> Iterator[Target]:
    """A CEL rule of a definition: refused with it, or held against an object that is tried."""
    with server() as ask:
        definitions = PLACES[9]

        def target(data: bytes) -> None:
            rule = data.decode("utf-8", "replace")
            body = json.dumps(_definition(_schema(rule), "rules")).encode()
            code, _ = ask("POST", definitions, body, "application/json")
            if code != 201:
                return
            obj = b'{"apiVersion":"fuzz.example/v1","kind":"Rule","metadata":{"name":"t"},'
            obj += b'"spec":{"size":3,"words":["a","b"],"map":{"a":"b"}}}'
            path = _THINGS.replace("things", "rules")
            code, said = ask("POST", path, obj, "application/json", b"dryRun=All")
            assert code in (201, 422), said
            ask("DELETE", f"{definitions}/rules.fuzz.example")

        yield target
