"""A silent agent is told from one that lives, whatever the clocks of nodes and readers say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tonnage.diagnose.agent_silence import report_age, silent_agents
from tonnage.diagnose.explain.explain import explain, explain_manifest
from tonnage.diagnose.status import fleet
from tonnage.diagnose.topo.topology import fleet_topology, node_json
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

GPU = "nvidia.com/gpu"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
Body = dict[str, Any]


def node(name: str) -> Body:
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU: "2"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def report(name: str, age: timedelta | None) -> Body:
    devices = [
        {"uuid": f"GPU-{i}", "index": i, "product": "Tesla T4", "resource": GPU, "health": "Healthy"}
        for i in range(2)
    ]
    heartbeat = {} if age is None else {"heartbeatAt": timestamp(NOW - age)}
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": name},
        "status": {"updatedAt": timestamp(NOW), "devices": devices, **heartbeat},
    }


def pod(amount: int, on: str = "") -> Body:
    container = {"name": "c", "image": "i:v1", "resources": {"limits": {GPU: str(amount)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"containers": [container], **({"nodeName": on} if on else {})},
        "status": {"phase": "Running" if on else "Pending"},
    }


def cluster(*objects: Body, now: datetime | None = NOW) -> Snapshot:
    return snapshot_from_documents([{"kind": "List", "items": list(objects)}], now=now)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


@pytest.mark.parametrize(
    ("age", "silent"),
    [
        pytest.param(minutes(1), False, id="it gave a heartbeat a minute ago"),
        pytest.param(minutes(3), False, id="two heartbeats were lost"),
        pytest.param(minutes(3.1), True, id="three heartbeats were lost"),
        pytest.param(minutes(-30), False, id="the reader's clock is half an hour behind"),
        pytest.param(None, None, id="an older agent gives none"),
    ],
)
def test_an_agent_is_silent_after_three_minutes(age: timedelta | None, silent: bool | None) -> None:
    snapshot = cluster(node("a"), report("a", age))
    assert report_age(snapshot.gpu["a"], NOW).to_json()["silent"] is silent
    [row] = fleet(snapshot)
    assert row.in_order is (silent is not True)


def test_a_list_of_objects_is_as_new_as_its_newest_heartbeat() -> None:
    hour = timedelta(hours=1)
    old = cluster(node("a"), report("a", hour), now=None)
    assert silent_agents(old, ["a"]) == ()
    mixed = cluster(node("a"), report("a", hour), node("b"), report("b", hour - minutes(9)), now=None)
    assert silent_agents(mixed, ["a", "b"]) == ("a",)


def test_status_says_since_when_what_it_shows_is_old() -> None:
    [row] = fleet(cluster(node("a"), report("a", minutes(12))))
    assert row.health == "agent silent for 12m (since 2026-05-01T11:48:00Z)"
    assert row.to_json()["agent"] == {"heartbeat_at": "2026-05-01T11:48:00Z", "age_s": 720, "silent": True}


def test_explain_says_it_of_the_nodes_that_a_pod_may_get() -> None:
    snapshot = cluster(node("a"), report("a", minutes(12)), node("b"), report("b", minutes(1)))
    manifests = {n: manifests_from_documents([pod(n)])[0] for n in (1, 4)}
    short = explain_manifest(manifests[4], snapshot)
    assert short.verdict is Verdict.NEVER
    [silent] = [reason for reason in short.reasons if reason.code == "agent-silent"]
    assert silent.facts == {"nodes": ["a"], "age_s": 720}
    alone = explain_manifest(manifests[1], cluster(node("a"), report("a", minutes(12))))
    assert (alone.verdict, [r.code for r in alone.reasons]) == (Verdict.FITS, ["agent-silent"])
    alive = explain_manifest(manifests[1], cluster(node("a"), report("a", minutes(1))))
    assert (alive.verdict, alive.reasons) == (Verdict.FITS, ())


@pytest.mark.parametrize(("age", "codes"), [(12, ["agent-silent"]), (1, [])])
def test_explain_of_a_running_pod_says_that_its_devices_are_as_they_were(age: int, codes: list[str]) -> None:
    snapshot = cluster(node("a"), report("a", minutes(age)), pod(1, on="a"))
    [running] = snapshot.pods
    assert [reason.code for reason in explain(running, snapshot).reasons] == codes


def test_topo_says_how_old_links_are() -> None:
    [old, new] = fleet_topology(
        cluster(node("a"), report("a", minutes(12)), node("b"), report("b", minutes(1)))
    ).nodes
    assert node_json(old)["agent"] == {
        "heartbeat_at": "2026-05-01T11:48:00Z",
        "age_s": 720,
        "silent": True,
    }
    assert (old.agent.words, new.agent.words) == (
        "agent silent for 12m (since 2026-05-01T11:48:00Z)",
        "",
    )
