"""Hostile requests: what stands in their lines, headers, queries and bodies."""

from __future__ import annotations

import json
from collections.abc import Iterator

from fuzz.hostile.documents import json_text


def query(size: int) -> Iterator[bytes]:
    """Many parameters, the same one many times, escapes of escapes, long names and values."""
    yield b"&" * size
    yield b"".join(b"k%d=v&" % n for n in range(size))
    yield b"limit=1&" * size
    yield b"%25" * size
    yield b"%" * size
    yield b"labelSelector=" + b"a," * size
    yield b"fieldManager=" + b"x" * size
    yield b"limit=" + b"9" * size
    yield b"resourceVersion=" + b"9" * size + b"&watch=1"
    yield b"timeoutSeconds=" + b"9" * size
    yield b"command=a&" * size
    yield b"sinceSeconds=" + b"9" * 12 + b"&tailLines=" + b"9" * 12
    yield b"sinceTime=" + b"9" * size


def label_selectors(size: int) -> Iterator[bytes]:
    """Many terms, long sets, blanks and brackets without end."""
    yield b",".join(b"k%d=v" % n for n in range(size))
    yield b"a in (" + b",".join(b"v%d" % n for n in range(size)) + b")"
    yield b"a in (" + b"b," * size
    yield b"a in " + b"(" * size
    yield b"!" * size
    yield b"," * size
    yield b" " * size + b"a"
    yield b"a" * size + b"=b"
    yield b"a>" + b"9" * size
    yield b"a=b" + b"=" * size


def field_selectors(size: int) -> Iterator[bytes]:
    """Many terms, escapes, signs."""
    yield b",".join(b"metadata.name=n%d" % n for n in range(size))
    yield b"metadata.name=" + b"\\," * size
    yield b"metadata.name" + b"!" * size
    yield b"=" * size
    yield b"metadata.name=" + b"\\" * size
    yield b"spec" + b".a" * size + b"=b"


def paths(size: int) -> Iterator[bytes]:
    """Requests with long paths, steps back, escapes, many segments."""
    for line in (
        b"/" * size,
        b"/api" + b"/v1" * size,
        b"/.." * size,
        b"/%2e%2e" * size,
        b"/" + b"%2f" * size,
    ):
        yield b"GET " + line
    yield b"GET /api/v1/namespaces/" + b"x" * size + b"/pods"
    yield b"x" * size + b" /api"
    yield b"GET /api/v1/pods?" + b"a=b&" * size
    yield b"DELETE /api/v1/namespaces/default/configmaps?labelSelector=" + b"a," * size


def cel(size: int) -> Iterator[bytes]:
    """Depth, long chains, loops in loops, texts that grow, patterns, literals."""
    for deep in (b"(", b"[", b"!", b"-", b"{1:", b"self."):
        yield deep * size
    yield b"(" * size + b"true" + b")" * size
    yield b"true" + b" && true" * size
    yield b"true" + b" ? true : true" * size
    yield b"1" + b" + 1" * size
    yield b"self.words" + b".map(x, x)" * min(size, 200)
    yield b"self.words.all(a, " * 8 + b"true" + b")" * 8
    many = b"[" + b"1," * min(size, 3000) + b"1]"
    yield many + b".all(a, " + many + b".all(b, " + many + b".all(c, a == b)))"
    yield b"'" + b"x" * size + b"'.matches('" + b"(x+)+" * 20 + b"y')"
    yield b"'x'.matches('" + b"(" * size + b"')"
    yield b"'x'.matches('" + b"(x{1000}){1000}" + b"')"
    yield b"'a'" + b".replace('a', 'aaaaaaaaaa')" * 9 + b".size() < 9"
    yield b"[" + b"'a'," * size + b"'a'].join('b').size() < 9"
    yield b"self.size < " + b"9" * size
    yield b"quantity('" + b"9" * size + b"').isGreaterThan(quantity('1'))"
    yield b"self.map" + b".exists(k, k == 'a')" * min(size, 50)
    yield b"duration('" + b"9" * size + b"h') < duration('1s')"


def json_patches(size: int) -> Iterator[bytes]:
    """Copies that double, many operations, deep and long paths."""
    double = [
        {"op": "add", "path": "/data/a", "value": "x" * 100},
        {"op": "add", "path": "/b", "value": {"a": "x"}},
    ]
    double += [{"op": "copy", "from": "/b", "path": f"/b/{n}"} for n in range(40)]
    yield json.dumps(double).encode()
    copies = [{"op": "copy", "from": "/metadata", "path": f"/metadata/k{n}"} for n in range(40)]
    yield json.dumps(copies).encode()
    yield json.dumps([{"op": "add", "path": "/data/-", "value": 1}] * size).encode()
    yield json.dumps(
        [{"op": "add", "path": f"/metadata/labels/k{n}", "value": "v"} for n in range(size)]
    ).encode()
    yield json.dumps([{"op": "test", "path": "/a" * size, "value": 1}]).encode()
    yield json.dumps([{"op": "add", "path": "/" + "~1" * size, "value": 1}]).encode()
    yield json.dumps([{"op": "add", "path": "/spec/replicas", "value": int("9" * min(size, 4000))}]).encode()
    yield b'[{"op":"add","path":"/data","value":' + b"[" * size
    value = b'{"a":' * min(size, 400) + b"1" + b"}" * min(size, 400)
    yield b'[{"op":"add","path":"/data","value":' + value + b"}]"
    moved = [{"op": "move", "from": "/metadata", "path": "/metadata/a"}] * size
    yield json.dumps(moved).encode()


def object_patches(size: int) -> Iterator[bytes]:
    """Merge and strategic patches: depth, many keys, lists with directives, the same key in many elements."""
    yield from json_text(size)
    yield b'{"metadata":{"labels":{' + b"".join(b'"k%d":"v",' % n for n in range(size)) + b'"k":"v"}}}'
    yield b'{"metadata":{"labels":{' + b"".join(b'"k%d":null,' % n for n in range(size)) + b'"k":"v"}}}'
    containers = [{"name": f"c{n}", "image": "i"} for n in range(size)]
    for listed in (containers, [{"name": "c", "$patch": "delete"}] * size, [{"$patch": "replace"}] * size):
        yield json.dumps({"spec": {"template": {"spec": {"containers": listed}}}}).encode()
    order = [{"name": f"c{n}"} for n in range(size)]
    yield json.dumps({"spec": {"template": {"spec": {"$setElementOrder/containers": order}}}}).encode()
    finalizers = [f"a.b/f{n}" for n in range(size)]
    yield json.dumps({"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers}}).encode()
    ports = [{"containerPort": n % 65535 + 1} for n in range(size)]
    one = {"name": "c", "image": "i", "ports": ports, "env": [{"name": "A", "value": "$(A)" * 99}] * size}
    yield json.dumps({"spec": {"template": {"spec": {"containers": [one]}}}}).encode()


def headers(size: int) -> Iterator[bytes]:
    """Many headers, long ones, many choices of a media type, many groups."""
    yield b"".join(b"x-%d: y\n" % n for n in range(size))
    yield b"accept: " + b"application/json;q=0.1," * size
    yield b"accept: " + b"application/json" + b";a=b" * size
    yield b"impersonate-user: a\n" + b"impersonate-group: g\n" * size
    yield b"impersonate-user: a\n" + b"".join(b"impersonate-extra-k%d: v\n" % n for n in range(size))
    yield b"authorization: Bearer " + b"a." * size
    yield b"authorization: Bearer " + b"x" * size
    yield b"content-length: " + b"9" * size
    yield b"user-agent: " + b"(" * size
    yield b"content-type: application/json" + b";charset=" * size
    yield b"accept-encoding: " + b"gzip," * size


def tokens(size: int) -> Iterator[bytes]:
    """Tokens with many and with long parts."""
    yield b"." * size
    yield b"a." * size
    yield b"e30." + b"W1tb" * size + b".e30"
    yield b"x" * size


def scripts(size: int) -> Iterator[bytes]:
    """Depth, quotes and here-documents that do not end, expansions in expansions, long words."""
    for deep in (b"(", b"$(", b"`", b"{ ", b"if ", b"while ", b"$((", b"${a:-", b"! ", b"for a in ", b'"$('):
        yield deep * size
    yield b"a; " * size
    yield b"a | " * size
    yield b"a && " * size
    yield b"cat <<A <<B\n" * size
    yield b"if a; then " * min(size, 500) + b"b; " + b"fi; " * min(size, 500)
    yield b"x" * size
    yield b"'" + b"x" * size
    yield b"a=" + b"$a" * size
    yield b"1" + b"+(1" * size
