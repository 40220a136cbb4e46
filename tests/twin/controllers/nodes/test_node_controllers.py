"""Nodes that fall silent, taints that follow, pods that have to go."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import micro_timestamp
from tonnage.twin.controllers.nodes.health import wanted_taints
from tonnage.twin.controllers.nodes.lifecycle import NodeLifecycleController
from tonnage.twin.controllers.nodes.taint_eviction import TaintEvictionController, eviction_in_s
from tonnage.twin.controllers.nodes.zones import NodeZones
from tonnage.twin.controllers.pod_garbage import PodGarbageController
from tonnage.wire.kinds import EVENT, LEASE, NODE, POD
from tonnage.wire.objects import Condition, Node, NodeSpec, NodeStatus, Taint, Toleration

Cluster = Any
_NOW = datetime(2026, 5, 1, tzinfo=UTC)
_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"


def _node(ready: str, *taints: Taint, unschedulable: bool = False, pressure: str = "False") -> Node:
    conditions = [Condition(type="MemoryPressure", status=pressure)]
    if ready:
        conditions.append(Condition(type="Ready", status=ready))
    return Node(
        spec=NodeSpec(taints=list(taints), unschedulable=unschedulable),
        status=NodeStatus(conditions=conditions),
    )


_OWN = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
_TAINTS = [
    pytest.param(_node("True", _OWN), {("nvidia.com/gpu", "NoSchedule")}, id="a ready node keeps its own"),
    pytest.param(
        _node("", Taint(key=_NOT_READY, effect="NoSchedule")),
        set(),
        id="a node that has never reported loses the taint that it was made with",
    ),
    pytest.param(
        _node("True", Taint(key=_NOT_READY, effect="NoSchedule"), Taint(key=_NOT_READY, effect="NoExecute")),
        set(),
        id="a node that became ready loses not-ready",
    ),
    pytest.param(
        _node("False"),
        {(_NOT_READY, "NoSchedule"), (_NOT_READY, "NoExecute")},
        id="a node that is not ready gets not-ready",
    ),
    pytest.param(
        _node("Unknown", Taint(key=_NOT_READY, effect="NoExecute"), _OWN),
        {(_UNREACHABLE, "NoSchedule"), (_UNREACHABLE, "NoExecute"), ("nvidia.com/gpu", "NoSchedule")},
        id="a silent node gets unreachable instead",
    ),
    pytest.param(
        _node("True", unschedulable=True, pressure="True"),
        {
            ("node.kubernetes.io/unschedulable", "NoSchedule"),
            ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        },
        id="cordons and pressure are taints too",
    ),
]


@pytest.mark.parametrize(("node", "expected"), _TAINTS)
def test_conditions_as_taints(node: Node, expected: set[tuple[str, str]]) -> None:
    taints = [(taint.key, taint.effect) for taint in wanted_taints(node, _NOW, evict=True)]
    assert set(taints) == expected
    assert sorted(taints, key=lambda one: one[1] == "NoExecute") == taints


_EVICTIONS = [
    ([], [], float("inf"), "no taint, no eviction"),
    ([Taint(key="a", effect="NoExecute")], [], 0.0, "what is not tolerated goes at once"),
    (
        [Taint(key="a", effect="NoExecute"), Taint(key="b", effect="NoExecute")],
        [
            Toleration(key="a", operator="Exists", effect="NoExecute", toleration_seconds=300),
            Toleration(key="b", operator="Exists", toleration_seconds=30),
        ],
        30.0,
        "the shortest of the tolerations counts",
    ),
    (
        [Taint(key="a", effect="NoExecute")],
        [Toleration(operator="Exists")],
        float("inf"),
        "a toleration without a time holds for ever",
    ),
    (
        [Taint(key="a", effect="NoExecute"), Taint(key="b", effect="NoExecute")],
        [Toleration(key="a", operator="Exists", toleration_seconds=300)],
        0.0,
        "every taint must be tolerated",
    ),
]


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [case[:3] for case in _EVICTIONS],
    ids=[case[3] for case in _EVICTIONS],
)
def test_when_a_pod_must_go(taints: list[Taint], tolerations: list[Toleration], expected: float) -> None:
    assert eviction_in_s(taints, tolerations) == expected


_STEADY = {"steady"}


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    """A cluster with a node that stays ready: where no node is, none loses its pods."""
    parts = cluster.api, cluster.clock, cluster.informers
    cluster.start(NodeLifecycleController(*parts, vouched=_STEADY.__contains__).run())
    cluster.start(TaintEvictionController(*parts).run())
    cluster.start(PodGarbageController(*parts, limit=2).run())
    await cluster.clock.settle()
    await cluster.node("steady")
    await cluster.clock.advance(10)
    return cluster


async def _taints(cluster: Cluster, name: str = "a100-0") -> set[tuple[str, str]]:
    node = await cluster.api.get(NODE, name)
    return {(taint.key, taint.effect) for taint in node.spec.taints}


async def _ready(cluster: Cluster, name: str = "a100-0") -> tuple[str, str, str]:
    node = await cluster.api.get(NODE, name)
    return next((c.status, c.reason, c.message) for c in node.status.conditions if c.type == "Ready")


async def _renew(cluster: Cluster) -> None:
    renewed: JsonObject = {"spec": {"renewTime": micro_timestamp(cluster.clock.now())}}
    await cluster.api.patch(LEASE, "a100-0", renewed, namespace="kube-node-lease")


async def _bound(cluster: Cluster, name: str, **spec: Any) -> None:
    await cluster.apply(POD, name, cluster.template(nodeName="a100-0", **spec))
    [pod] = [pod for pod in await cluster.all(POD) if pod.metadata.name == name]
    await cluster.set_pod(pod)


async def test_a_node_that_reports_ready_loses_its_taint_and_is_announced(running: Cluster) -> None:
    condition = {"type": "Ready", "status": "False"}
    await running.apply(NODE, "a100-0", {"status": {"conditions": [condition]}})
    await running.clock.advance(5)
    assert (_NOT_READY, "NoSchedule") in await _taints(running)
    await running.report("a100-0")
    await running.clock.advance(1)
    assert await _taints(running) == set()
    assert await running.events("RegisteredNode") == [
        "Node a100-0 event: Registered Node a100-0 in Controller"
    ]


async def test_a_lease_alone_keeps_a_node_alive(running: Cluster) -> None:
    await running.node("a100-0")
    await running.apply(LEASE, "a100-0", {"spec": {}}, namespace="kube-node-lease")
    for _ in range(20):
        await running.clock.advance(10)
        await _renew(running)
    assert (await _ready(running))[0] == "True"
    await running.clock.advance(49)
    assert (await _ready(running))[0] == "True"
    await running.clock.advance(2)
    assert (await _ready(running))[0] == "Unknown"


async def test_a_silent_node_is_unknown_tainted_and_its_pods_leave_after_their_time(running: Cluster) -> None:
    await running.node("a100-0")
    await _bound(running, "train")
    patient = {"key": _UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    await _bound(running, "daemon", tolerations=[patient])
    await running.clock.advance(51)
    assert await _ready(running) == ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    assert await _taints(running) == {(_UNREACHABLE, "NoSchedule"), (_UNREACHABLE, "NoExecute")}
    assert (
        await running.events("NodeNotReady")
        == [
            "Node a100-0 status is now: NodeNotReady",
            "Node is not ready",
            "Node is not ready",
        ]
        or len(await running.events("NodeNotReady")) == 3
    )
    train = await running.api.get(POD, "train", "default")
    assert {c.type: c.status for c in train.status.conditions}["Ready"] == "False"
    await running.clock.advance(290)
    assert (await running.api.get(POD, "train", "default")).metadata.deletion_timestamp is None
    await running.clock.advance(20)
    train = await running.api.get(POD, "train", "default")
    assert train.metadata.deletion_timestamp is not None
    disruption = next(c for c in train.status.conditions if c.type == "DisruptionTarget")
    assert (disruption.reason, disruption.message) == (
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
    )
    assert await running.events("TaintManagerEviction") == ["Marking for deletion Pod default/train"]
    assert (await running.api.get(POD, "daemon", "default")).metadata.deletion_timestamp is None


async def test_a_node_that_comes_back_in_time_keeps_its_pods(running: Cluster) -> None:
    await running.node("a100-0")
    await _bound(running, "train")
    await running.clock.advance(120)
    await running.report("a100-0")
    await running.clock.advance(20)
    assert await _taints(running) == set()
    assert await running.events("TaintManagerEviction") == ["Cancelling deletion of Pod default/train"]
    for _ in range(40):
        await running.clock.advance(10)
        await running.report("a100-0")
    assert (await running.api.get(POD, "train", "default")).metadata.deletion_timestamp is None


async def test_a_taint_that_a_person_sets_evicts_at_once(running: Cluster) -> None:
    await running.node("a100-0")
    await _bound(running, "train")
    taint = {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}}
    await running.api.patch(NODE, "a100-0", taint)
    await running.clock.advance(1)
    assert (await running.api.get(POD, "train", "default")).metadata.deletion_timestamp is not None


async def test_pods_of_a_node_that_is_gone_fail_and_go(running: Cluster) -> None:
    await running.node("a100-0")
    await _bound(running, "train")
    await running.api.delete(NODE, "a100-0")
    await running.clock.advance(39)
    assert [pod.metadata.name for pod in await running.pods()] == ["train"]
    await running.clock.advance(3)
    assert await running.all(POD) == []


async def test_a_node_that_returns_within_the_quarantine_keeps_its_pods(running: Cluster) -> None:
    await running.node("a100-0")
    await _bound(running, "train")
    await running.api.delete(NODE, "a100-0")
    await running.clock.advance(20)
    await running.node("a100-0")
    await running.clock.advance(45)
    assert [pod.metadata.name for pod in await running.pods()] == ["train"]


_PACES = [
    ("nnnn", [0.0], "the first of a zone goes at once"),
    ("nnnnyyyyyy", [0.0, 10.0, 10.0], "the others of a zone follow every ten seconds"),
    ("nnnnyy", [float("inf")], "of a small zone most of which is not ready none goes"),
    ("n" * 40 + "y" * 20, [0.0, 100.0], "of a large one they go slowly"),
]


@pytest.mark.parametrize(("letters", "expected"), [row[:2] for row in _PACES], ids=[row[2] for row in _PACES])
def test_how_fast_nodes_lose_their_pods(letters: str, expected: list[float]) -> None:
    zones = NodeZones()
    for number, letter in enumerate(reversed(letters + "y" * (letters == "nnnn") * 4)):
        node = _node("True" if letter == "y" else "False")
        node.metadata.name = f"n{number}"
        zones.take_in(node, 0.0)
    sick = _node("False")
    assert [zones.wait_s(sick, 1000.0) for _ in expected] == expected


def test_no_node_loses_its_pods_while_none_is_ready() -> None:
    zones, sick, well = NodeZones(), _node("False"), _node("True")
    sick.metadata.name, well.metadata.name = "sick", "well"
    assert zones.take_in(sick, 0.0)
    assert zones.wait_s(sick, 100.0) == float("inf")
    assert zones.take_in(well, 100.0)
    assert zones.wait_s(sick, 100.0) == 10.0, "who had to wait waits for a whole turn"
    assert zones.wait_s(sick, 110.0) == 0.0
    assert zones.forget("well", 110.0)
    assert zones.is_lost


async def test_where_no_node_is_ready_none_loses_its_pods(running: Cluster) -> None:
    await running.node("a100-0")
    await running.report("a100-0", "False")
    await running.clock.advance(5)
    assert (_NOT_READY, "NoExecute") in await _taints(running)
    await running.report("steady", "False")
    await running.clock.advance(15)
    assert await _taints(running) == {(_NOT_READY, "NoSchedule")}
    assert await _taints(running, "steady") == {(_NOT_READY, "NoSchedule")}


async def test_of_a_node_out_of_service_the_pods_that_are_to_go_are_gone(running: Cluster) -> None:
    await running.node("a100-0")
    everything = {"operator": "Exists"}
    await _bound(running, "train", tolerations=[everything])
    await running.api.patch(POD, "train", {"metadata": {"finalizers": ["a.b/c"]}}, namespace="default")
    await running.api.delete(POD, "train", namespace="default")
    taint = {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}
    await running.api.patch(NODE, "a100-0", taint)
    await running.clock.advance(1)
    assert (await running.api.get(POD, "train", "default")).status.phase == "Running"
    await running.report("a100-0", "False")
    await running.clock.advance(1)
    train = await running.api.get(POD, "train", "default")
    assert train.status.phase == "Failed"
    assert train.metadata.deletion_grace_period_seconds == 0


async def test_ended_pods_that_are_too_many_go_the_oldest_first(running: Cluster) -> None:
    await running.node("a100-0")
    for name in "abcd":
        await _bound(running, name)
        await running.clock.advance(1)
    for pod in await running.all(POD):
        await running.set_pod(pod, phase="Succeeded")
    await running.clock.advance(1)
    assert [pod.metadata.name for pod in await running.all(POD)] == ["c", "d"]


async def test_whose_pod_goes_before_its_time_is_told_that_it_need_not(running: Cluster) -> None:
    await running.node("a100-0")
    await _bound(running, "train")
    await running.report("a100-0", "False")
    await running.clock.advance(1)
    await running.api.delete(POD, "train", namespace="default", grace_period_s=0)
    await running.clock.advance(1)
    assert await running.events("TaintManagerEviction") == ["Cancelling deletion of Pod default/train"]


async def test_a_node_that_says_itself_that_it_is_not_ready_speaks_for_its_pods(running: Cluster) -> None:
    await running.node("a100-0")
    short = {"key": _NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    await _bound(running, "train", tolerations=[short])
    await running.report("a100-0", "False")
    await running.clock.advance(2)
    train = await running.api.get(POD, "train", "default")
    assert {c.type: c.status for c in train.status.conditions}["Ready"] == "True"
    assert await running.events("NodeNotReady") == []
    await running.clock.advance(5)
    [event] = [event for event in await running.all(EVENT) if event.reason == "TaintManagerEviction"]
    assert (event.involved_object.name, event.involved_object.uid) == ("train", "")
    train = await running.api.get(POD, "train", "default")
    [target] = [c for c in train.status.conditions if c.type == "DisruptionTarget"]
    assert (target.reason, target.observed_generation) == ("DeletionByTaintManager", 1)
