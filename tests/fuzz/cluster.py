"""What says how a cluster is and how to reach it: snapshots, kubeconfigs, an API server's answers, notes."""

from __future__ import annotations

import asyncio
import gzip
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx2

from fuzz.settings import in_file
from tonnage.adapters.kubernetes.credentials import ExecAuth
from tonnage.adapters.kubernetes.http import HttpKubernetes
from tonnage.adapters.kubernetes.kubeconfig import target as cluster_of
from tonnage.adapters.kubernetes.kubeconfig_entries import CredentialProgram
from tonnage.adapters.snapshots.cluster_file import read_objects
from tonnage.adapters.snapshots.kinds import CAPTURED
from tonnage.adapters.snapshots.limit import Meter, SizeLimit
from tonnage.adapters.snapshots.objects import ObjectReader, lists_in, load_list
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.agent.config.selection import _texts
from tonnage.cli.cluster import read_snapshot
from tonnage.cli.lab.checks import Observation, checks_of
from tonnage.cli.lab.consent import _objects
from tonnage.cli.locations.state import StateFolder
from tonnage.decide.cluster.adopt.node_steps import next_adoption, next_release
from tonnage.decide.cluster.hami import ALLOCATED, REGISTER, devices_of
from tonnage.decide.node.mig.pause import ANNOTATION, NodeNow, restore, resume
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.lab.review import chart_problem, plain_names
from tonnage.documents.lab.steps import Expectation
from tonnage.model.adoption import NOTE
from tonnage.model.errors import ApiError, ClusterError, ConfigError
from tonnage.model.json import JsonObject
from tonnage.reading.adoption import adoption_facts_from
from tonnage.reading.documents import manifest_of
from tonnage.wire.decode import decoded_json
from tonnage.wire.kinds import CONFIG_MAP, NODE, POD
from tonnage.wire.objects import ConfigMap, Node, ObjectMeta

Target = Callable[[bytes], None]
_KINDS: Final = (("v1", "Node"), ("v1", "Pod"), ("apps/v1", "ReplicaSet"), ("v1", "PersistentVolumeClaim"))
_CAPTURED_POD: Final = next(kind for kind in CAPTURED if kind.kind == "Pod")
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_NOTED: Final = ("deployment.kubernetes.io/revision", "volume.kubernetes.io/selected-node")


def _cluster(file: Path) -> None:
    for read in (_snapshot, lambda path: list(read_objects(path)), _large_list):
        with suppress(ConfigError):
            read(file)


def _snapshot(file: Path) -> None:
    """The cluster, and the pods that its workloads make."""
    for workload in read_snapshot(file).workloads:
        with suppress(ConfigError):
            manifest_of(workload)


def _large_list(file: Path) -> None:
    """As the file would be read if it were larger."""
    content, meter = file.read_bytes(), Meter(SizeLimit(), "x")
    load_list(content, meter)
    with suppress(ValueError):
        for _ in lists_in(content, meter) or ():
            pass


cluster_file = contextmanager(in_file("cluster", _cluster))
kubeconfig = contextmanager(in_file("config", lambda file: cluster_of(file, None, {})))


@contextmanager
def packed_cluster_file() -> Iterator[Target]:
    """Bytes that should be gzip, and what unpacks as they are."""
    with cluster_file() as target:

        def packed(data: bytes) -> None:
            target(b"\x1f\x8b" + data)
            target(gzip.compress(data, 1))

        yield packed


@contextmanager
def api_answers() -> Iterator[Target]:
    """An answer to each kind of question, and the code that it comes with out of the first byte."""
    content, code = b"", 200

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(code, stream=httpx2.ByteStream(content))

    with asyncio.Runner() as runner:
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer), base_url="http://x")

        def target(data: bytes) -> None:
            nonlocal content, code
            content, code = data[1:], (200, 200, 200, 404, 410, 503)[data[0] % 6] if data else 200
            runner.run(_ask(HttpKubernetes(client)))

        yield target
        runner.run(client.aclose())


async def _ask(api: HttpKubernetes) -> None:
    reader = ObjectReader()
    questions: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: api.get(NODE, "n"),
        lambda: api.get_raw("/version"),
        lambda: api.list(NODE),
        lambda: api.read_all(POD, lambda text: reader.read_known(text, POD)),
        lambda: _watched(api.watch(NODE, resource_version="1")),
        lambda: api.create_subresource(CONFIG_MAP, "m", "token", {}, namespace="default"),
    )
    for question in questions:
        with suppress(ApiError, ClusterError):
            await question()


async def _watched(changes: AsyncIterator[object]) -> None:
    async for _ in changes:
        pass


def config_map(data: bytes) -> None:
    """A ConfigMap of the cluster, of which each key's text is a configuration."""
    with suppress(ValueError):
        for text in _texts(decoded_json(data, ConfigMap)).values():
            with suppress(ConfigError):
                parse_device_plugin_config(text, source="x")


@contextmanager
def exec_credential() -> Iterator[Target]:
    """What a program says that a kubeconfig names."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder, asyncio.Runner() as runner:
        file = Path(folder) / "said"
        program = CredentialProgram("client.authentication.k8s.io/v1", "cat", args=[str(file)])

        def target(data: bytes) -> None:
            file.write_bytes(data)
            with suppress(ClusterError):
                runner.run(ExecAuth(program)._ask())

        yield target


@contextmanager
def notes() -> Iterator[Target]:
    """Annotations of nodes and pods, which whoever may patch these writes."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        file = Path(folder) / "list.json"

        def target(data: bytes) -> None:
            text = data.decode("utf-8", "replace")
            node = NodeNow("1", {}, {ANNOTATION: text})
            restore(node)
            resume(node)
            noted = Node(metadata=ObjectMeta(name="n", annotations={NOTE: text}))
            for decide in (next_adoption, next_release):
                decide(adoption_facts_from(noted, None, (), _NOW))
            file.write_bytes(_noted(text))
            snapshot = read_snapshot(file)
            for each in snapshot.nodes:
                devices_of(each.hami, snapshot.pods)

        yield target


def _noted(text: str) -> bytes:
    """A List of objects with the text in every annotation that is read."""
    notes = dict.fromkeys((f"hami.io/{REGISTER}", f"hami.io/{ALLOCATED}", *_NOTED), text)
    items: list[object] = [
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": "n", "namespace": "d", "annotations": notes},
        }
        for version, kind in _KINDS
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


@contextmanager
def running_cluster() -> Iterator[Target]:
    """What a state folder says of the cluster that runs there."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        state = StateFolder(Path(folder) / "state")
        state.hold()

        def target(data: bytes) -> None:
            (state.path / "cluster.json").write_bytes(data)
            with suppress(ConfigError):
                state.running()

        yield target
        state.release()


def redaction(data: bytes) -> None:
    """A text that is a secret's value in a pod, and stands in its status."""
    text = data.decode("utf-8", "replace")
    container: JsonObject = {"name": "c", "image": "i", "env": [{"name": "A", "value": text}]}
    pod: JsonObject = {
        "metadata": {"name": "p", "namespace": "d", "annotations": {"a": text}},
        "spec": {"containers": [container]},
        "status": {"message": text, "reason": text},
    }
    for level in Level:
        Redactor(level, b"key").redacted(pod, _CAPTURED_POD)


lab_manifests = contextmanager(in_file("pod.yaml", _objects))


def lab_names(data: bytes) -> None:
    """Names of a lab's files, a line each."""
    files = frozenset(data.decode("utf-8", "replace").split("\n"))
    assert plain_names(files) <= files
    for name in sorted(files)[:3]:
        chart_problem(name, files)


def lab_output(data: bytes) -> None:
    """What a program of a lab prints, against what is expected of it."""
    expect = Expectation(json={"items[0].a": 1, "b": "c"}, contains=("x",), lines=3)
    checks_of(expect, Observation(0, data.decode("utf-8", "replace")))
