"""Sessions over clusters: the labs' as they were captured, and the states of the matrix of symptoms."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from golden.sessions import Command, Session
from support.matrix_rows import rows

HERE: Final = Path(__file__).parent
CLUSTERS: Final = HERE / "clusters"
ROOT: Final = HERE.parents[1]
_MOST_PODS: Final = 4
"""Of a cluster's pods with the same fate, so many are asked about."""
_CONTROLLED: Final = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")
Body = dict[str, Any]


def lab_clusters() -> list[str]:
    """The names of the captured clusters: a lab's, and which of its questions comes next."""
    return sorted(path.name.removesuffix(".jsonl.gz") for path in CLUSTERS.glob("*.jsonl.gz"))


def session_on(cluster: str) -> Session:
    """What every command that reads clusters says of a lab's."""
    file = f"tests/golden/clusters/{cluster}.jsonl.gz"
    lab = cluster.rpartition(".")[0]
    objects = _objects_of(CLUSTERS / f"{cluster}.jsonl.gz")
    manifests = sorted(path.relative_to(ROOT) for path in (ROOT / "labs" / lab).glob("*.yaml"))
    lines = [
        "status",
        "status -o wide",
        "status -o json",
        *_about_pods(objects),
        *_about_workloads(objects),
        *_about_claims(objects),
        *_about_nodes(objects),
        *(line for path in manifests if path.name != "lab.yaml" for line in _about_file(path)),
    ]
    commands = [Command((*line.split(), "--snapshot", file)) for line in lines]
    return Session(f"labs/{cluster}", ROOT, tuple(commands))


def _about_pods(objects: list[Body]) -> Iterator[str]:
    """Of pods with one owner and one phase a few: they share their answer."""
    seen: dict[tuple[str, str], int] = {}
    for one in objects:
        meta, status = one["metadata"], one.get("status", {})
        if one["kind"] != "Pod" or meta["namespace"].endswith("-system"):
            continue
        owner = str(meta.get("ownerReferences", [{}])[0].get("uid", meta["name"]))
        fate = owner, f"{status.get('phase')} {status.get('reason')}"
        seen[fate] = seen.get(fate, 0) + 1
        if seen[fate] > 1 or len(seen) > 3 * _MOST_PODS:
            continue
        asked = f"explain pod {meta['name']} -n {meta['namespace']}"
        yield asked
        if len(seen) <= _MOST_PODS:
            yield f"{asked} -o json"


def _about_workloads(objects: list[Body]) -> Iterator[str]:
    for one in objects:
        meta = one["metadata"]
        if one["kind"] in _CONTROLLED and not meta["namespace"].endswith("-system"):
            yield f"explain {one['kind'].lower()} {meta['name']} -n {meta['namespace']}"


def _about_claims(objects: list[Body]) -> Iterator[str]:
    """Of a cluster that has any."""
    if any(one["kind"] == "ResourceClaim" for one in objects):
        yield from (f"claims -o {form}" for form in ("text", "wide", "json"))


def _about_nodes(objects: list[Body]) -> Iterator[str]:
    nodes = [one["metadata"]["name"] for one in objects if one["kind"] == "Node"]
    first = {name.rpartition("-")[0]: name for name in reversed(nodes)}
    yield "topo"
    yield "explain --all-pending"
    yield "explain --all-pending -o json"
    yield "metrics cluster --once"
    for node in first.values():
        yield f"explain node {node}"
        yield f"topo {node}"
        yield f"topo {node} -o json"
        yield f"mig plan --node {node} --layout all-1g.10gb"
        yield f"doctor --root tests/golden/bad --devices none --node-name {node}"
        yield f"simulate --drain {node}"
    last = nodes[-1] if nodes else "none"
    yield f"simulate --add-nodes 1={last} -o json"
    yield f"simulate --set-sharing {last}=4"
    yield "simulate --replay"


def _about_file(path: Path) -> Iterator[str]:
    yield f"explain -f {path}"
    yield f"lint {path}"
    yield f"migrate dra {path}"


def lines_of(path: Path) -> list[Body]:
    """A snapshot's lines: what it is, the objects, and its end."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def _objects_of(path: Path) -> list[Body]:
    return [one for one in lines_of(path) if "metadata" in one and "name" in one["metadata"]]


MATRIX: Final = {
    state.name.replace(" ", "-"): state
    for row in rows()
    for state in (row.state, *row.near_misses)
    if "doctor" not in state.body
}
"""States of clusters, each with a question; a node's own folders stand in tests/diagnose alone."""


def _daemons(objects: list[Body]) -> Iterator[Body]:
    """A pod of the control plane, where a state has none: a list without pods answers nothing."""
    if any(obj["kind"] == "Pod" for obj in objects):
        return
    name, space = "kube-scheduler", "kube-system"
    containers = [{"name": name, "image": name}]
    spec = {"nodeName": "control-plane", "containers": containers}
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": space}, "spec": spec}


@contextmanager
def session_of_the_matrix(name: str) -> Iterator[Session]:
    """A state of the matrix, asked what it is there for, and what `status` says of it."""
    body = MATRIX[name].body
    ask, version = body["ask"], str(body.get("version", "1.35"))
    with tempfile.TemporaryDirectory() as folder:
        objects = [*body.get("objects", []), *_daemons(body.get("objects", []))]
        cluster = {"apiVersion": "v1", "kind": "List", "items": objects}
        (Path(folder) / "cluster.json").write_text(json.dumps(cluster, default=str))
        of = ("--snapshot", "cluster.json", "--server-version", version)
        if ask.get("kind") == "Message":
            commands = [Command(("explain", "message", str(ask["text"])))]
        elif "spec" in ask or "items" in ask:
            (Path(folder) / "asked.yaml").write_text(yaml.safe_dump(ask))
            commands = [
                Command(("explain", "-f", "asked.yaml", *of, *output)) for output in ((), ("-o", "json"))
            ]
            commands.append(Command(("lint", "asked.yaml", *of)))
        else:
            asked = ("explain", str(ask["kind"]).lower(), str(ask["name"]), "-n", str(ask["namespace"]))
            commands = [Command((*asked, *of, *output)) for output in ((), ("-o", "json"))]
        if ask.get("kind") != "Message":
            commands.append(Command(("status", *of)))
        yield Session(f"matrix/{name}", Path(folder), tuple(commands))
