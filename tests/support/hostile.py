"""Texts that steer terminals, wherever others write one: a cluster, its server, files and their names."""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

from support.deadlines import join

MARK: Final = "h0stile"
FORGED: Final = "FORGED LINE"
NASTY: Final = (
    f"{MARK}\n{FORGED}\r{FORGED}\u2028{FORGED}\x1b[2J\x1b]8;;x:y\x07link\x1b]8;;\x07\x9b1m\x85\x7f"
    "\u202eevil\u2066\u2069\u200e\u061c\u200b\u3164\ufeff\U000e0041\ue000\ufdd0] [a](http:b) <b>"
)
"""Clear screen, links of OSC 8 and Markdown, C1, bidirectional and invisible code points, line breaks."""
FILE: Final = f"{MARK}\n{FORGED}\x1b[2J\x9b1m\u202e\udcff"
"""A file's name, with a byte that is not UTF-8."""
_REFUSED: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_STRUCTURE: Final = frozenset(
    (
        "apiVersion",
        "kind",
        "uid",
        "resourceVersion",
        "phase",
        "health",
        "status",
        "operator",
        "effect",
        "type",
    )
)
_TYPED: Final = frozenset(("capacity", "allocatable", "limits", "requests", "computeCapability"))
"""What has no free text: a text there ends the reading, which is another test."""


def refused(text: str) -> list[str]:
    """The code points of a text that no terminal may get."""
    return [c for c in text if c != "\n" and (unicodedata.category(c) in _REFUSED or c == "\u3164")]


def forged_lines(text: str) -> list[str]:
    """Lines that somebody else's line break began."""
    return [row for row in text.split("\n") if row.startswith(FORGED)]


def poisoned(value: Any, *, names: bool) -> Any:
    """The same with all free text hostile; with `names` also names, namespaces and keys of labels."""
    if isinstance(value, str):
        return value + NASTY
    if isinstance(value, list):
        return [poisoned(each, names=names) for each in value]
    if not isinstance(value, dict):
        return value
    kept = _STRUCTURE if names else _STRUCTURE | {"name", "namespace", "nodeName", "pod"}
    return {
        key + NASTY if names and "/" in key else key: each
        if key in _TYPED or (key in kept and isinstance(each, str))
        else poisoned(each, names=names)
        for key, each in value.items()
    }


def _object(
    kind: str, name: str, body: Mapping[str, Any], *, version: str = "v1", spaced: bool = False
) -> Any:
    place = {"namespace": "default"} if spaced else {}
    notes = {"labels": {"nvidia.com/gpu.product": "A100"}, "annotations": {"a.b/note": "text"}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place, **notes}, **body}


def objects() -> list[Any]:
    """A small cluster with something wrong in all of it; every object once with hostile names too."""
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"}
    bad = [{"type": "Ready", "status": "False", "reason": "Reason", "message": "message"}]
    node = {
        "spec": {"taints": [{"key": "a.b/taint", "value": "value", "effect": "NoSchedule"}]},
        "status": {"capacity": amounts, "allocatable": {**amounts, "nvidia.com/gpu": "1"}, "conditions": bad},
    }
    held = {
        "namespace": "default",
        "pod": "train",
        "container": "c",
        "resource": "nvidia.com/gpu",
        "ids": ["GPU-0"],
    }
    device = {
        "uuid": "GPU-0",
        "index": 0,
        "product": "NVIDIA A100-SXM4-80GB",
        "memoryMiB": 81920,
        "resource": "nvidia.com/gpu",
        "replicas": 1,
        "health": "Unhealthy",
        "reason": "reason",
        "holders": [held],
    }
    container = {"name": "c", "image": "image", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/9 nodes",
    }
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
    deployment = {
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template},
        "status": {
            "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "R", "message": "m"}]
        },
    }
    event = {
        "involvedObject": {"kind": "Pod", "name": "train", "namespace": "default"},
        "reason": "FailedScheduling",
        "message": "message",
        "type": "Warning",
    }
    pod = {"spec": {"containers": [container], "nodeSelector": {"a.b/pool": "pool"}}}
    waiting = {"phase": "Pending", "conditions": [unscheduled]}
    running = {"spec": {**pod["spec"], "nodeName": "a100-0"}, "status": {"phase": "Running"}}
    grant = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "a100-0", "device": "gpu-0"}
    claim = {
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "class"}}]}},
        "status": {"allocation": {"devices": {"results": [grant]}}},
    }
    found = [
        _object("ResourceClaim", "claim", claim, version="resource.k8s.io/v1", spaced=True),
        _object("Node", "a100-0", node),
        _object("NodeGPUStatus", "a100-0", {"status": {"devices": [device]}}, version="tonnage.dev/v1alpha1"),
        _object("Pod", "train", {**pod, "status": waiting}, spaced=True),
        _object("Pod", "runs", running, spaced=True),
        _object("Deployment", "web", deployment, version="apps/v1", spaced=True),
        _object("Event", "e", event, spaced=True),
    ]
    return [*(poisoned(each, names=False) for each in found), *(poisoned(each, names=True) for each in found)]


@contextmanager
def hostile_server(version: str) -> Iterator[str]:
    """An API server at the address, whose every word is hostile; what it does not know it refuses so."""
    there = objects()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/version":
                self._answer(200, {"gitVersion": version, "major": "1", "minor": "35"})
                return
            kind = {
                "nodes": "Node",
                "pods": "Pod",
                "nodegpustatuses": "NodeGPUStatus",
                "deployments": "Deployment",
                "resourceclaims": "ResourceClaim",
            }
            wanted = kind.get(path.rpartition("/")[2])
            if wanted is None:
                refusal = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden"}
                self._answer(403, {**refusal, "message": NASTY, "code": 403})
                return
            items = [each for each in there if each["kind"] == wanted]
            self._answer(200, {"kind": f"{wanted}List", "apiVersion": "v1", "metadata": {}, "items": items})

        def _answer(self, code: int, body: Any) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing: the tests look at what is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        join(thread)
        server.server_close()


def write_kubeconfig(path: Path, server: str) -> None:
    """A kubeconfig with hostile names for that server."""
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": NASTY,
                "clusters": [{"name": NASTY, "cluster": {"server": server}}],
                "users": [{"name": NASTY, "user": {}}],
                "contexts": [{"name": NASTY, "context": {"cluster": NASTY, "user": NASTY}}],
            }
        )
    )
