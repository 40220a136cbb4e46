"""Requests that no client should send, byte for byte, and what a server answers to them."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from dataclasses import dataclass
from typing import Any

from support.connections import connection

MAPS = "/api/v1/namespaces/default/configmaps"
_JSON = "application/json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_MERGE, _STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
_JSON_PATCH, _APPLY = "application/json-patch+json", "application/apply-patch+yaml"
_MAP = f"{MAPS}/p"
_TOKEN = "/api/v1/namespaces/default/serviceaccounts/x/token"
_PATIENCE_S = 30
_OWN = re.compile(
    r"(?<=current: )[0-9]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|20(?!20)[0-9-]{8}T[0-9:]+Z"
    r'|(?<=resourceVersion\\":\\")[0-9]+'
)
"""What differs from run to run: versions, uids, times."""


@dataclass(frozen=True)
class BadRequest:
    """One of them. A body has its own length unless a header says otherwise."""

    name: str
    method: str = "POST"
    path: str = MAPS
    body: bytes = b""
    content_type: str = _JSON
    headers: tuple[tuple[str, str], ...] = ()

    def raw(self, token: str) -> bytes:
        """The request as it is sent."""
        headers = {"host": "x", "connection": "close", "authorization": f"Bearer {token}"}
        headers["content-length"] = str(len(self.body))
        if self.content_type:
            headers["content-type"] = self.content_type
        headers.update(self.headers)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{self.method} {self.path} HTTP/1.1\r\n{lines}\r\n".encode() + self.body


_VERSIONS = ("abc", "-1", "99999999", "1.5", "18446744073709551616", "+1")
_LISTED = (
    *(f"resourceVersion={version}" for version in _VERSIONS),
    *("watch=1&resourceVersion=abc", "watch=1&resourceVersionMatch=Exact", "watch=1&sendInitialEvents=true"),
    *("watch=1&resourceVersionMatch=NotOlderThan", "watch=1&sendInitialEvents=x&resourceVersionMatch=Exact"),
    *("resourceVersion=1&resourceVersionMatch=Nope", "resourceVersionMatch=Nope", "sendInitialEvents=true"),
    *("resourceVersion=0&resourceVersionMatch=Exact", "resourceVersionMatch=Exact&continue=x"),
    *("timeoutSeconds=x", "limit=1.5", "continue=abc", "continue=!!!", "continue=WzFd"),
)
_TOKENS = (
    '{"v":"meta.k8s.io/v1","rv":0,"start":"a"}',
    '{"v":"meta.k8s.io/v1","rv":5}',
    '{"v":"meta.k8s.io/v2","rv":5,"start":"a"}',
    '{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}',
    '{"v":"meta.k8s.io/v1","rv":1,"start":"/x/../../a"}',
    '{"v":"meta.k8s.io/v1","rv":-1,"start":"zz"}',
    '{"v":"meta.k8s.io/v1","rv":99999999,"start":"a"}',
    '{"rv":"x"}',
)


def _continued(body: str) -> str:
    """The path of a list that goes on where a token of this content says."""
    token = base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")
    return f"{MAPS}?limit=1&continue={token}"


MAP_TO_PATCH = BadRequest("a good one", body=b'{"metadata":{"name":"p"},"data":{"a":"b"}}')
"""Others need the map that this one makes."""
REMOVAL = BadRequest("its end", "DELETE", _MAP)
REQUESTS = (
    BadRequest("a body just over the limit", body=b'{"data":{"a":"' + b"x" * (3 << 20) + b'"}}'),
    BadRequest(
        "a map over a megabyte", body=b'{"metadata":{"name":"m"},"data":{"a":"%s"}}' % (b"x" * (1 << 21))
    ),
    BadRequest("invalid UTF-8 in a value", body=b'{"metadata":{"name":"u"},"data":{"a":"\xff\xfe"}}'),
    BadRequest("invalid UTF-8 at the start", body=b'\xff{"metadata":{"name":"u"}}'),
    BadRequest("a NUL in a name", body=b'{"metadata":{"name":"n\\u0000"}}'),
    BadRequest("half a surrogate pair", body=b'{"metadata":{"name":"s"},"data":{"a":"\\ud800"}}'),
    BadRequest("deep arrays", body=b'{"metadata":{"name":"d"},"data":' + b"[" * 20000 + b"]" * 20000 + b"}"),
    BadRequest("deep objects", body=b'{"a":' * 12000 + b"1" + b"}" * 12000),
    BadRequest("half an object", body=b'{"metadata":{"name":"h"'),
    BadRequest("two objects", body=b'{"metadata":{"name":"t"}}{"metadata":{"name":"t2"}}'),
    BadRequest("no body"),
    BadRequest("null", body=b"null"),
    BadRequest(
        "a number that is too large", body=b'{"metadata":{"name":"x","generation":99999999999999999999}}'
    ),
    BadRequest("plain text", body=b"hello", content_type="text/plain"),
    BadRequest("a form", body=b"a=b", content_type="application/x-www-form-urlencoded"),
    BadRequest("a content type that is none", body=b"{}", content_type="///"),
    BadRequest("CBOR", body=b"\xa0", content_type="application/cbor"),
    BadRequest("a patch of no patch's type", "PATCH", f"{MAPS}/x", b"{}"),
    BadRequest("a patch of no type", "PATCH", f"{MAPS}/x", b"{}", ""),
    BadRequest("bad protobuf", body=b"k8s\x00\xff\xff\xff", content_type=_PROTOBUF),
    BadRequest("protobuf without its mark", body=b"\x0a\x00", content_type=_PROTOBUF),
    BadRequest(
        "gzip that is none", body=b'{"metadata":{"name":"z"}}', headers=(("content-encoding", "gzip"),)
    ),
    BadRequest("a path that climbs", "GET", "/api/v1/../../etc/passwd"),
    BadRequest("an encoded climb", "GET", "/api/v1/namespaces/%2e%2e/configmaps"),
    BadRequest("an encoded slash in a name", "GET", f"{MAPS}/a%2fb"),
    BadRequest("double slashes", "GET", "//api/v1//nodes"),
    BadRequest("a dot in the path", "GET", "/api/v1/./nodes"),
    BadRequest("a NUL in the path", "GET", f"{MAPS}/a%00b"),
    BadRequest("a bad escape", "GET", f"{MAPS}/%zz"),
    BadRequest("a name of 300 letters", "GET", f"{MAPS}/{'a' * 300}"),
    BadRequest("an unknown method", "BREW"),
    BadRequest("TRACE", "TRACE"),
    BadRequest("OPTIONS", "OPTIONS"),
    BadRequest("HEAD of a list", "HEAD"),
    BadRequest("no such version", "GET", "/api/v9/nodes"),
    BadRequest("two lengths", headers=(("content-length", "2, 3"),)),
    BadRequest("a length below zero", headers=(("content-length", "-1"),)),
    BadRequest("a timeout that is no number", "GET", f"{MAPS}?watch=1&timeoutSeconds=x"),
    BadRequest("half a surrogate pair in a key", body=b'{"metadata":{"name":"s2"},"data":{"\\ud800":"x"}}'),
    BadRequest("half a merge patch", "PATCH", _MAP, b'{"data":', _MERGE),
    BadRequest("an empty merge patch", "PATCH", _MAP, b"", _MERGE),
    BadRequest("a list as merge patch", "PATCH", _MAP, b"[]", _MERGE),
    BadRequest("half a surrogate pair in a merge patch", "PATCH", _MAP, b'{"data":{"a":"\\ud800"}}', _MERGE),
    BadRequest("invalid UTF-8 in a merge patch", "PATCH", _MAP, b'{"data":{"a":"\xff"}}', _MERGE),
    BadRequest("half a strategic patch", "PATCH", _MAP, b'{"data":', _STRATEGIC),
    BadRequest("a directive of no kind", "PATCH", _MAP, b'{"$patch":5}', _STRATEGIC),
    BadRequest("half a JSON patch", "PATCH", _MAP, b'[{"op":"add","path"', _JSON_PATCH),
    BadRequest("a JSON patch that is none", "PATCH", _MAP, b"{}", _JSON_PATCH),
    BadRequest("a deep JSON patch", "PATCH", _MAP, b"[" * 20000 + b"]" * 20000, _JSON_PATCH),
    BadRequest("half of delete options", "DELETE", _MAP, b'{"prop'),
    BadRequest("a list as strategic patch", "PATCH", _MAP, b"[]", _STRATEGIC),
    BadRequest("single quotes", body=b"{'a':1}"),
    BadRequest("a key without its colon", body=b'{"a" 1}'),
    BadRequest("a comma too many", body=b'{"a":1,}'),
    BadRequest("a line's end in a string", body=b'{"a":"\n"}'),
    BadRequest("a word that is no value", body=b'{"a":x}'),
    BadRequest("half a token's request", path=_TOKEN, body=b'{"a'),
    BadRequest("half a scale", "PUT", "/apis/apps/v1/namespaces/default/deployments/x/scale", b'{"a'),
    BadRequest("half a status", "PUT", "/api/v1/namespaces/default/pods/x/status", b'{"a'),
    BadRequest("a list to put", "PUT", _MAP, b"[]"),
    BadRequest("a string to post", body=b'"a"'),
    BadRequest("a number to post", body=b"5"),
    BadRequest("half an eviction", path="/api/v1/namespaces/default/pods/x/eviction", body=b'{"a'),
    BadRequest("half a review", path="/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=b'{"a'),
    BadRequest("a limit below zero", "GET", f"{MAPS}?limit=-1"),
    BadRequest("a limit beyond 64 bits", "GET", f"{MAPS}?limit=99999999999999999999"),
    BadRequest("a manager of no letters", "PATCH", f"{_MAP}?fieldManager=%07", b"{}", _MERGE),
    BadRequest("XML is wanted", "GET", headers=(("accept", "application/xml"),)),
    *(BadRequest(f"a list with {query}", "GET", f"{MAPS}?{query}") for query in _LISTED),
    *(BadRequest(f"a list that goes on by {body}", "GET", _continued(body)) for body in _TOKENS),
    *(BadRequest(f"a map at {version}", "GET", f"{_MAP}?resourceVersion={version}") for version in _VERSIONS),
)


async def answer_to(request: BadRequest, port: int, token: str, context: ssl.SSLContext) -> list[Any]:
    """Code, reason and message; without a Status its kind, or the body's first words."""
    opening = asyncio.open_connection("127.0.0.1", port, ssl=context)
    async with connection(opening) as (reader, writer), asyncio.timeout(_PATIENCE_S):
        writer.write(request.raw(token))
        raw = await reader.read()
    head, _, body = raw.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in head.lower():
        body = b"".join(body.split(b"\r\n")[1::2])
    if body.startswith((b"k8s\0", b"apiVersion:")):
        return [int(head.split()[1]), "", body[:11].decode()]
    try:
        content = json.loads(body)
    except ValueError:
        return [int(head.split()[1]), "", body[:80].decode("latin-1")]
    said = _OWN.sub("#", content.get("message") or content.get("kind", ""))
    return [int(head.split()[1]), content.get("reason", ""), said]
