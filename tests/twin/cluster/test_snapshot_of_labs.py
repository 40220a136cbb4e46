"""A snapshot answers as the cluster does that it was taken of, for every pod and manifest of every lab."""

from __future__ import annotations

import asyncio
import io
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.fleet import Fleet
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.kubernetes.client import connect
from tonnage.adapters.kubernetes.http import HttpKubernetes
from tonnage.adapters.snapshots.capture import Order, capture
from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.adapters.snapshots.live import read_live
from tonnage.adapters.snapshots.load import decompressed, load_captured
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.cli.lint.lint_context import read_pod, shapes
from tonnage.cli.locations.labs_and_scenarios import LabFolder, lab_names, load_lab, load_scenario
from tonnage.cli.up.programs import node_programs
from tonnage.diagnose.agent_silence import UNKNOWN_AGE
from tonnage.diagnose.cluster_view import ground_of
from tonnage.diagnose.explain.explain import explain, explain_manifest
from tonnage.diagnose.lint import rule_inputs as lint_cluster
from tonnage.diagnose.lint.lint import LintContext, lint
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.diagnose.status import FleetRow
from tonnage.diagnose.status import fleet as fleet_rows
from tonnage.documents.lab.review import manifest_files
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import makes_pods, manifests_from_documents, objects_in
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.cluster import Cluster
from tonnage.wire import kinds

PATIENCE_S = 180.0
CREATED = {
    kind.kind: kind
    for kind in (
        *(kinds.NAMESPACE, kinds.PRIORITY_CLASS, kinds.POD, kinds.DEPLOYMENT, kinds.SERVICE),
        *(kinds.RESOURCE_CLAIM, kinds.RESOURCE_CLAIM_TEMPLATE),
    )
}


def rows_without_ages(snapshot: Snapshot) -> list[FleetRow]:
    """A live cluster is read at another time than its snapshot."""
    return [replace(row, agent=UNKNOWN_AGE) for row in fleet_rows(snapshot)]


@asynccontextmanager
async def running(scenario: str) -> AsyncIterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    wanted = load_scenario(scenario)
    cluster = Cluster(
        wanted, SystemClock(), programs=node_programs(folder / "kubeconfig"), runtime_dir=folder
    )
    kubeconfig = folder / "kubeconfig"
    try:
        kubeconfig.write_text(kubeconfig_text(await cluster.serve()))
        await cluster.populate(kubeconfig)
        fleet = Fleet(cluster, kubeconfig)
        await fleet.until(lambda: _offers(fleet, sum(g.nodes * g.gpu.count for g in wanted.groups if g.gpu)))
        yield fleet
    finally:
        await cluster.stop()
        shutil.rmtree(folder)


async def _offers(fleet: Fleet, gpus: int) -> bool:
    nodes = (await fleet.api.list(kinds.NODE)).items
    published = (await fleet.api.list(kinds.NODE_GPU_STATUS)).items
    offered = [int(n) for node in nodes for name, n in node.status.allocatable.items() if "/gpu" in name]
    slices = (await fleet.api.list(kinds.RESOURCE_SLICE)).items
    claimed = {part.spec["nodeName"] for part in slices if part.spec.get("devices")}
    if claimed:  # what is offered as claims is no extended resource
        return len(claimed) == len(published)
    return sum(offered) >= gpus and len([n for n in offered if n]) == len(published)


def documents_of(lab: LabFolder) -> list[JsonObject]:
    """Every object of the lab's manifests, each once."""
    files = {file for step in lab.lab.steps for file in manifest_files(step.command)}
    texts = [(lab.folder / file).read_text() for file in sorted(files)]
    return [
        d
        for text in texts
        for d in yaml.load_all(text, yaml.CSafeLoader)
        if isinstance(d, dict) and "metadata" in d
    ]


async def submit(fleet: Fleet, documents: list[JsonObject]) -> int:
    """Create what can be created; how many pods and workloads the API server took."""
    taken = 0
    for document in documents:
        meta: Any = document["metadata"]
        namespace = meta.get("namespace", "default")
        with_namespace: JsonObject = {"metadata": {"name": namespace}}
        for kind, body, where in (
            (kinds.NAMESPACE, with_namespace, None),
            (CREATED.get(str(document["kind"])), document, namespace),
        ):
            try:
                if kind is not None:
                    await fleet.api.create(kind, body, namespace=where if kind.namespaced else None)
                    taken += kind is not kinds.NAMESPACE
            except ApiError as error:
                if error.code not in (400, 409, 422):
                    raise
    return taken


async def taken_of(fleet: Fleet, level: Level) -> tuple[Snapshot, Snapshot]:
    """The cluster read live, and out of a snapshot of the same moment."""
    async with connect(fleet.kubeconfig) as api:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                before, lines = await _still(api), list[bytes]()
                order = Order(level, datetime.now(UTC), "tonnage")
                await capture(api, order, Redactor(level, b"key"), lines.append, lambda *_: None)
                if _settled(before) == _settled(await read_live(api)):
                    break
    return before, load_captured(decompressed(io.BytesIO(b"".join(lines))), "snapshot", SizeLimit())[1]


async def _still(api: HttpKubernetes) -> Snapshot:
    """The cluster once nobody changes it."""
    before = await read_live(api)
    async with asyncio.timeout(PATIENCE_S):
        while _settled(before) != _settled(now := await read_live(api)):
            before = now
            await asyncio.sleep(0.1)  # it is this process's own work that is waited for
    return now


async def seen_by_jane(fleet: Fleet, namespace: str) -> tuple[Snapshot, Snapshot]:
    """The same by a user who may view that namespace alone."""
    subjects: list[JsonValue] = [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}]
    role: JsonObject = {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"}
    binding: JsonObject = {"metadata": {"name": "jane"}, "subjects": subjects, "roleRef": role}
    await fleet.api.create(kinds.ROLE_BINDING, binding, namespace=namespace)
    async with connect(fleet.kubeconfig, impersonation=(("Impersonate-User", "jane"),)) as api:
        lines = list[bytes]()
        order = Order(Level.VALUES, datetime.now(UTC), "tonnage", fallback=namespace)
        await capture(api, order, Redactor(Level.VALUES, b"key"), lines.append, lambda *_: None)
        live = await read_live(api, namespaces=(namespace,))
    return live, load_captured(decompressed(io.BytesIO(b"".join(lines))), "snapshot", SizeLimit())[1]


def answers_of(snapshot: Snapshot) -> dict[str, JsonObject]:
    return {str(pod.key): explain(pod, snapshot).to_json() for pod in snapshot.pods}


def lint_of(documents: list[JsonObject], snapshot: Snapshot) -> list[tuple[str, str]]:
    """What is found in the manifests against that cluster."""
    ground = ground_of(snapshot)
    given = LintContext(shapes(), read_pod, lint_cluster.LintCluster(ground, {}), ground.view.profile.minor)
    report = lint([Sheet("lab.yaml", yaml.safe_dump_all(documents))], given)
    return [(one.finding.code, one.finding.reason.message) for one in report.located]


def _settled(snapshot: Snapshot) -> object:
    waiting = [p for p in snapshot.pods if not p.node_name and not p.status.unschedulable_message]
    return (snapshot.pods, snapshot.nodes, snapshot.gpu) if not waiting else object()


LABS = [load_lab(name) for name in lab_names()]


SCENARIOS = sorted({lab.lab.scenario for lab in LABS if any(map(makes_pods, objects_in(documents_of(lab))))})
"""Those with pods."""


@pytest.mark.long
@pytest.mark.sampled("scenarios of labs, live and as a snapshot", share="1/3")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_every_pod_and_manifest_of_the_labs_is_explained_alike(scenario: str) -> None:
    documents = [d for lab in LABS if lab.lab.scenario == scenario for d in documents_of(lab)]
    async with running(scenario) as fleet:
        taken = await submit(fleet, documents)
        live, kept = await taken_of(fleet, Level.VALUES)
        own = max(sorted(namespaces := [pod.namespace for pod in live.pods]), key=namespaces.count)
        hers, kept_of_hers = await seen_by_jane(fleet, own)
    assert taken
    assert rows_without_ages(kept_of_hers) == rows_without_ages(hers)
    assert {pod.namespace for pod in hers.pods} == {own}
    assert answers_of(kept_of_hers) == answers_of(hers)
    assert {pod.key for pod in kept.pods} == {pod.key for pod in live.pods}
    assert rows_without_ages(kept) == rows_without_ages(live)
    assert lint_of(documents, kept) == lint_of(documents, live)
    others = {pod.key: pod for pod in kept.pods}
    for pod in live.pods:
        assert explain(others[pod.key], kept).to_json() == explain(pod, live).to_json()
    made = manifests_from_documents([*documents], classes=live.priority_classes)
    for manifest in made:
        assert explain_manifest(manifest, kept).to_json() == explain_manifest(manifest, live).to_json()
    assert scenario != "pending" or any(not explain(p, live).verdict.good for p in live.pods)


@pytest.mark.long
async def test_with_pseudonyms_the_verdicts_stay_what_they_were() -> None:
    lab = load_lab("pending-pod")
    async with running(lab.lab.scenario) as fleet:
        await submit(fleet, documents_of(lab))
        live, kept = await taken_of(fleet, Level.NAMES)
    names = {pod.key for pod in live.pods} & {pod.key for pod in kept.pods}
    assert names == set()
    answers = [
        sorted((a.verdict, str(a.layer), len(a.nodes), len(a.remedies), str(a.needs)) for a in told)
        for told in ([explain(pod, snapshot) for pod in snapshot.pods] for snapshot in (live, kept))
    ]
    assert answers[0] == answers[1]
    assert {Verdict.NOT_NOW.value, Verdict.RUNNING.value} <= {answer[0] for answer in answers[0]}
