"""Sessions of the commands that read no snapshot: a server without controllers has a lab's cluster.

The clock of commands stands still where the snapshot was taken, so most ages do not grow.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

import yaml

from golden.clusters import CLUSTERS, ROOT, Body, lines_of
from golden.sessions import Command, Session
from support.api_stores import new_store
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import CUSTOM_RESOURCE

_PATIENCE_S: Final = 60
_EVERYWHERE: Final = (
    "top --once --view nodes",
    "top --once --view devices",
    "top --once --view pods",
    "top --once -o json",
    "metrics targets",
)
_OF_AN_OPERATOR: Final = (
    "operator status",
    "operator status -o wide",
    "operator status -o json",
    "operator plan {policy}",
    "operator plan {policy} -o json",
    "operator rollback --dry-run",
    "operator release --dry-run",
    "operator adopt --dry-run",
    "operator adopt --dry-run -o json",
    "controller --dry-run --once --no-elect",
    "controller --dry-run --once --no-elect --drivers --operand-image tonnage:1",
    "access explain --check",
    "operator bundle --file {folder}/bundle.tar -o json",
)
"""Asked where a lab has a policy, and of one cluster that has none: all of those get the same answer."""
_WITHOUT_DEFINITIONS: Final = (
    "controller --dry-run --once",
    "controller --upgrade-definitions --dry-run",
    "controller --upgrade-definitions",
    "controller --dry-run --once",
)
"""Asked of one cluster that has none of NVIDIA's kinds until the third command."""
_OF_THE_MOMENT: Final = {
    r'"takenAt": "[^"]+"': '"takenAt": "{time}"',
    r'"bytes": \d+': '"bytes": {number}',
    r'"sha256": "[0-9a-f]+"': '"sha256": "{hash}"',
    r'"age_s": [\d.]+': '"age_s": {seconds}',
    r" *\b\d\w* ago\b *": " {age} ",
    r" *\bAGE\b *": " AGE ",
}
"""Bundles have the hour of the machine, and `top` counts ages from the hour in the server's answers."""
WITHOUT_A_POLICY: Final = "pending-pod"
WITHOUT_DEFINITIONS: Final = "which-gpu"


def served_clusters(captured: list[str]) -> list[str]:
    """Of each lab the cluster of its last question."""
    return sorted({name.rpartition(".")[0]: name for name in sorted(captured)}.values())


@contextmanager
def served_session(cluster: str) -> Iterator[Session]:
    """What the commands that need an API server say of a lab's cluster."""
    lab = cluster.rpartition(".")[0]
    lines = lines_of(CLUSTERS / f"{cluster}.jsonl.gz")
    taken = datetime.fromisoformat(lines[0]["takenAt"])
    policy = ROOT / "labs" / lab / "cluster-policy.yaml"
    operator = policy.exists() or lab == WITHOUT_A_POLICY
    commands = list(_EVERYWHERE)
    if operator:
        file = policy if policy.exists() else ROOT / "labs/operator-install/cluster-policy.yaml"
        commands += [line.replace("{policy}", str(file.relative_to(ROOT))) for line in _OF_AN_OPERATOR]
    if lab == WITHOUT_DEFINITIONS:
        commands += _WITHOUT_DEFINITIONS
    policies = list(yaml.safe_load_all(policy.read_text())) if policy.exists() else []
    with (
        mock.patch.object(SystemClock, "now", return_value=taken),
        tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder,
        _served([*lines, *policies], Path(folder) / "kubeconfig", operator=operator) as port,
    ):
        yield Session(
            f"served/{cluster}",
            ROOT,
            tuple(Command(tuple(line.replace("{folder}", folder).split())) for line in commands),
            hidden={
                rf"127\.0\.0\.1:{port}\b": "127.0.0.1:{port}",
                **_OF_THE_MOMENT,
                r"/tmp/tn-[^/\s]+": "{state}",
            },
            environment={"KUBECONFIG": f"{folder}/kubeconfig"},
        )


@contextmanager
def _served(objects: list[Body], kubeconfig: Path, *, operator: bool) -> Iterator[int]:
    """The port; the server's loop runs in a thread, beside commands that have loops of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(_server_with(objects, operator=operator), loop).result(
        _PATIENCE_S
    )
    starting = server.start(Authority.generate(datetime.now(UTC)))
    endpoint = asyncio.run_coroutine_threadsafe(starting, loop).result(_PATIENCE_S)
    kubeconfig.write_text(kubeconfig_text(endpoint))
    try:
        yield int(endpoint.url.rpartition(":")[2])
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(_PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_PATIENCE_S)
        loop.close()


async def _server_with(objects: list[Body], *, operator: bool) -> ApiServer:
    server = ApiServer(SystemClock(), random=Random(7), store=new_store())
    api = server.local()
    await api.create(CUSTOM_RESOURCE, node_gpu_status_crd())
    if operator:
        for plural in ("clusterpolicies", "gpuclusters", "nvidiadrivers"):
            await api.create(CUSTOM_RESOURCE, nvidia_definition(plural))
    for number, obj in enumerate(objects):
        _bring(server, obj, number)
    return server


def _bring(server: ApiServer, obj: dict[str, Any], number: int) -> None:
    """Store it as it was, past admission and checks: it has been through them once."""
    group, _, version = obj["apiVersion"].rpartition("/")
    served = server.registry.find_kind(group, version, obj["kind"])
    if served is None:
        return  # the first and the last line of the snapshot
    meta = obj["metadata"]
    meta.setdefault("uid", f"00000000-0000-4000-8000-{number:012}")
    meta.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    meta.setdefault("generation", 1)
    resource, name = served.key, (meta.get("namespace", ""), meta["name"])
    before = server.store.get(resource, name)
    if before is None:
        server.store.create(resource, name, obj)
    else:
        server.store.update(resource, name, obj, read=before)
