"""Hostile texts that people and programs keep in files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Final

_MOST_DOUBLINGS: Final = 26


def yaml(size: int) -> Iterator[bytes]:
    """Aliases that double or repeat a long text, depth, merge keys, keys given twice, huge numbers, tags."""
    doublings = min(2 * size.bit_length(), _MOST_DOUBLINGS)
    yield b"a0: &a0 [x, x]\n" + b"".join(
        b"a%d: &a%d [*a%d, *a%d]\n" % (n + 1, n + 1, n, n) for n in range(doublings)
    )
    yield b"a0: &a0 {x: x}\n" + b"".join(
        b"a%d: &a%d {<<: [*a%d, *a%d], k%d: x}\n" % (n + 1, n + 1, n, n, n) for n in range(doublings)
    )
    yield b"- &a " + b"x" * size + b"\n" + b"- *a\n" * size
    yield b"a: &a [*a]\n"
    for deep in (b"[", b"{a: ", b"- ", b"? ", b"!!seq [", b"&a ["):
        yield deep * size
    yield b"\n".join(b" " * n + b"a:" for n in range(min(size, 1000)))
    yield b"".join(b"k%d: 1\n" % n for n in range(size)) + b"k0: 1\n"
    yield b"same: 1\n" * size
    yield b"base: &b {" + b", ".join(b"k%d: 1" % n for n in range(size)) + b"}\nall: {<<: [" + b"*b," * 60
    yield (
        b"a: "
        + b"9" * size
        + b"\nb: 0x"
        + b"f" * size
        + b"\nc: 1e"
        + b"9" * size
        + b"\nd: 1_0:"
        + b"59:" * size
    )
    yield b"a: |\n" + b" x\n" * size
    yield b"a: '" + b"''" * size
    yield b'a: "' + b"\\u00e9\\\n" * size
    yield b"---\na: 1\n" * size
    yield b"%TAG !" + b"a" * size + b"! x\n---\na"
    yield b"# " + b"\xe2\x80\xa8" * size
    yield b"? " + b"x" * size + b"\n: &x " + b"y" * size


def json_text(size: int) -> Iterator[bytes]:
    """Depth, keys given twice among many, huge numbers, halves of characters, long texts."""
    for deep in (b"[", b'{"a":', b'[{"":'):
        yield deep * size
    yield b"[" * size + b"]" * size
    yield b'{"a":' * size + b"1" + b"}" * size
    yield b"{" + b"".join(b'"k%d":1,' % n for n in range(size)) + b'"k0":1}'
    yield b"{" + b'"a":1,' * size + b'"a":1}'
    yield b'{"a":' + b"9" * size + b"}"
    yield b'{"a":1e' + b"9" * size + b',"b":-0.' + b"0" * size + b"1}"
    yield b'{"a":"' + b"\\ud800" * size + b'"}'
    yield b'"' + b"\\" * size
    yield b"[" + b"1," * size + b"1]"
    yield b"[" + b"{}," * size + b"{}]"
    yield b" " * size + b"{}"


def objects(size: int) -> Iterator[bytes]:
    """Lists of objects: in each other, of odd kinds, with many labels, wide quantities, long selectors."""
    yield b'{"apiVersion":"v1","kind":"List","items":[' * size
    yield b'{"apiVersion":"v1","kind":"List","items":[' * 60 + b"{}" + b"]}" * 60
    for kind in ("Pod", "Node", "ConfigMap"):
        for rest in _BODIES:
            body = rest(size)
            yield json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": "n"}} | body).encode()
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}"}} for n in range(size)]
    yield json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}).encode()


_BODIES: Final[tuple[Callable[[int], dict[str, object]], ...]] = (
    lambda size: {"metadata": {"name": "n", "labels": {f"k{n}": "v" for n in range(size)}}},
    lambda size: {"metadata": {"name": "n", "annotations": {"a": "x" * size * 20}}},
    lambda size: {"spec": {"containers": [{"name": f"c{n}", "image": "i"} for n in range(size)]}},
    lambda size: {"spec": {"containers": [{"name": "c", "image": "i"}] * size}},
    lambda size: {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "9" * size}}}]}},
    lambda _size: {"status": {"capacity": {"cpu": "1e9999999", "nvidia.com/gpu": "999999999999999999999"}}},
    lambda size: {"spec": {"nodeSelector": {"a" * size: "b" * size}, "tolerations": [{"key": "a"}] * size}},
    lambda size: {"data": {f"k{n}": "v" for n in range(size)}},
)


def snapshot_lines(size: int) -> Iterator[bytes]:
    """Snapshots with long, deep and odd lines, without an end, or with counts that cannot be."""
    head = b'{"apiVersion":"tonnage.dev/v1alpha1","kind":"Snapshot","format":1,"serverVersion":"v1.35.0"}\n'
    yield head + b'{"apiVersion":"v1","kind":"Pod","metadata":' + b'{"a":' * size + b"\n"
    yield head + b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"' + b"x" * size + b'"}}\n'
    yield head + b"".join(b'{"apiVersion":"v%d","kind":"K"}\n' % n for n in range(size))
    yield head + b"{}\n" * size
    yield (
        head
        + b'{"apiVersion":"tonnage.dev/v1alpha1","kind":"SnapshotEnd","objects":{"Pod":{"objects":'
        + b"9" * size
    )
    yield head * size
    for start, end in ((b"[", b"]"), (b'{"a":', b"}")):
        value = start * size + b"1" + end * size
        yield (
            head
            + b'{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"x":'
            + value
            + b"}}\n"
        )


def packed(size: int) -> Iterator[bytes]:
    """What unpacks to a thousand times as much, in one stream and in many, and what ends early."""
    zeros = b"\0" * (size * 1000)
    yield gzip.compress(zeros, 9)
    yield gzip.compress(b"\n" * (size * 1000), 9)
    yield gzip.compress(b'{"a":1}\n' * (size * 100), 9)
    yield gzip.compress(b"x", 9) * min(size, 2000)
    yield gzip.compress(zeros, 9)[:-9]
    yield gzip.compress(gzip.compress(zeros, 9), 9)


def toml(size: int) -> Iterator[bytes]:
    """Depth, dotted keys, long arrays and texts, tables given twice."""
    yield b"a = " + b"[" * size
    yield b"a = " + b"{a = " * size
    yield b".".join([b"a"] * size) + b" = 1\n"
    yield b"[" + b".".join([b"a"] * size) + b"]\n"
    yield (b".".join([b"a"] * 190) + b" = 1\n") * min(size, 500)
    yield b"".join(b"[t%d.a.b.c]\nx = 1\n" % n for n in range(size))
    yield b"[[t]]\nx = 1\n" * size
    yield b"imports = [" + b'"*",' * size + b"]\n"
    yield b'a = """' + b'"' * size
    yield b"a = " + b"9" * size + b"\n"
    yield b"# >>> tonnage 000000000000: x\n" * size
    yield (b"# >>> tonnage 000000000000: x\n" + b"a = 1\n" * 58) * min(size, 500)
    runtime = b'[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.r%d]\nruntime_type = "a"\n'
    yield b"version = 2\n" + b"".join(runtime % n for n in range(size))


def csv(size: int) -> Iterator[bytes]:
    """Many columns, long fields, quotes that do not close."""
    machines = b"sn,cpu_milli,memory_mib,gpu,model\n"
    jobs = b"cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    for head in (machines, jobs):
        yield head + b'"' * size
        yield head + b"," * size + b"\n"
        yield head + b"1,1,1,1,1\n" * size
        yield head + b"9" * size + b",1,1,1,1\n"
    yield b"sn," * size + b"\n" + b"1," * size
    yield jobs + b"1,1,1,1," + b"V100|" * size + b"\n"


def words(size: int) -> Iterator[bytes]:
    """Text of any kind: without line ends, of line ends alone, of digits, of signs that patterns repeat."""
    for word in (
        b"x",
        b"\n",
        b"9",
        b" ",
        b",",
        b":",
        b"a=b,",
        b"\0",
        b"\xff",
        b"-",
        b"GPU-0,",
        b"(",
        b"0-9,",
    ):
        yield word * size
    yield b"0-" + b"9" * min(size, 12)
    yield b"1e" + b"9" * min(size, 12)
    yield b"9" * min(size, 4000) + b"Ei"
    yield "²".encode() * size
