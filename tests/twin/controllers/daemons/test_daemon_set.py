"""DaemonSets: the plan in tables, and the controller on the twin's API server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.daemons import daemon_set as daemon_set_module
from tonnage.twin.controllers.daemons.daemon_set import DaemonSetController
from tonnage.twin.controllers.daemons.plan import by_node, node_of, plan, status_of
from tonnage.twin.controllers.daemons.template import DaemonPlacement, Placements
from tonnage.wire.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, POD
from tonnage.wire.objects import (
    Condition,
    DaemonSet,
    Node,
    NodeSpec,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
    WorkloadSpec,
)

Cluster = Any


def _daemon(**spec: Any) -> DaemonSet:
    return DaemonSet(spec=WorkloadSpec(template={"spec": {"containers": [], **spec}}))


def _taint(effect: str, key: str = "gpu") -> Taint:
    return Taint(key=key, effect=effect)


_FITS = [
    pytest.param(_daemon(), [], DaemonPlacement(True, True), id="an ordinary node gets a pod"),
    pytest.param(
        _daemon(), [_taint("NoSchedule")], DaemonPlacement(False, True), id="NoSchedule lets a pod stay"
    ),
    pytest.param(_daemon(), [_taint("NoExecute")], DaemonPlacement(False, False), id="NoExecute does not"),
    pytest.param(
        _daemon(tolerations=[{"operator": "Exists"}]),
        [_taint("NoExecute")],
        DaemonPlacement(True, True),
        id="a toleration of everything covers it",
    ),
    pytest.param(
        _daemon(),
        [
            _taint("NoExecute", "node.kubernetes.io/not-ready"),
            _taint("NoExecute", "node.kubernetes.io/unreachable"),
        ],
        DaemonPlacement(True, True),
        id="daemons run on nodes that are not ready",
    ),
    pytest.param(
        _daemon(),
        [_taint("NoSchedule", "node.kubernetes.io/unschedulable")],
        DaemonPlacement(True, True),
        id="daemons run on cordoned nodes",
    ),
    pytest.param(
        _daemon(),
        [_taint("NoSchedule", "node.kubernetes.io/not-ready")],
        DaemonPlacement(False, True),
        id="a node that has never been ready gets none yet",
    ),
    pytest.param(
        _daemon(nodeSelector={"gpu": "a100"}), [], DaemonPlacement(True, True), id="its selector matches"
    ),
    pytest.param(
        _daemon(nodeSelector={"gpu": "t4"}), [], DaemonPlacement(False, False), id="its selector does not"
    ),
    pytest.param(
        _daemon(nodeName="other"), [], DaemonPlacement(False, False), id="it is made for one other node"
    ),
    pytest.param(
        _daemon(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                        ]
                    }
                }
            }
        ),
        [],
        DaemonPlacement(True, True),
        id="one of its affinity terms matches",
    ),
]


@pytest.mark.parametrize(("daemon_set", "taints", "expected"), _FITS)
def test_which_nodes_get_a_pod(daemon_set: DaemonSet, taints: list[Taint], expected: DaemonPlacement) -> None:
    node = Node(metadata=ObjectMeta(name="n", labels={"gpu": "a100"}), spec=NodeSpec(taints=taints))
    assert Placements(daemon_set).on(node) == expected


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    for name in ("a100-0", "a100-1", "a100-2"):
        await cluster.node(name, {"gpu": "a100"})
        await cluster.api.patch(NODE, name, {"spec": {"taints": None}})
    cluster.start(DaemonSetController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


def _body(cluster: Cluster, image: str = "agent:1", **spec: Any) -> JsonObject:
    body: JsonObject = {
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": cluster.template(image), **spec}
    }
    return body


async def _daemon_set(cluster: Cluster) -> DaemonSet:
    [daemon_set] = await cluster.all(DAEMON_SET)
    assert isinstance(daemon_set, DaemonSet)
    return daemon_set


async def _roll(cluster: Cluster, image: str) -> None:
    patch = {"spec": {"template": cluster.template(image)}}
    await cluster.api.patch(DAEMON_SET, "web", patch, namespace="default")


async def test_a_pod_per_node_bound_by_affinity_with_the_daemons_tolerations(running: Cluster) -> None:
    await running.apply(DAEMON_SET, "web", _body(running))
    await running.go_on()
    pods = await running.pods()
    assert sorted(node_of(pod) for pod in pods) == ["a100-0", "a100-1", "a100-2"]
    assert all(pod.spec.node_name == "" for pod in pods), "binding is the scheduler's work"
    [revision] = await running.all(CONTROLLER_REVISION)
    digest = revision.metadata.labels["controller-revision-hash"]
    assert revision.metadata.name == f"web-{digest}"
    assert {pod.metadata.labels["controller-revision-hash"] for pod in pods} == {digest}
    tolerated = {(t.key, t.effect) for t in pods[0].spec.tolerations}
    assert ("node.kubernetes.io/unschedulable", "NoSchedule") in tolerated
    assert ("node.kubernetes.io/unreachable", "NoExecute") in tolerated
    status = (await _daemon_set(running)).status
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (3, 3)
    assert (status.updated_number_scheduled, status.number_available, status.number_unavailable) == (3, 3, 0)
    assert status.observed_generation == (await _daemon_set(running)).metadata.generation


async def test_the_status_counts_nodes_whose_pods_the_server_refuses(cluster: Cluster) -> None:
    await cluster.node("a100-0")
    await cluster.api.patch(NODE, "a100-0", {"spec": {"taints": None}})
    refusing = cluster.refusing_pods('pods "web-x" is forbidden: exceeded quota: gpu')
    cluster.start(DaemonSetController(refusing, cluster.clock, cluster.informers).run())
    await cluster.apply(DAEMON_SET, "web", _body(cluster))
    await cluster.clock.advance(1)
    status = (await _daemon_set(cluster)).status
    assert (status.desired_number_scheduled, status.number_unavailable, status.observed_generation) == (
        1,
        1,
        1,
    )


async def test_nodes_that_come_get_a_pod_and_labels_that_go_take_it_away(running: Cluster) -> None:
    await running.apply(
        DAEMON_SET, "web", _body(running, template=running.template(nodeSelector={"gpu": "a100"}))
    )
    await running.go_on()
    await running.node("a100-3", {"gpu": "a100"})
    await running.api.patch(NODE, "a100-3", {"spec": {"taints": None}})
    await running.node("cpu-0")
    await running.api.patch(NODE, "a100-0", {"metadata": {"labels": {"gpu": None}}})
    await running.go_on()
    assert sorted(node_of(pod) for pod in await running.pods()) == ["a100-1", "a100-2", "a100-3"]


async def test_a_pod_that_is_deleted_is_made_again_on_its_node(running: Cluster) -> None:
    await running.apply(DAEMON_SET, "web", _body(running))
    await running.go_on()
    gone = (await running.pods())[0]
    await running.api.delete(POD, gone.metadata.name, namespace="default")
    await running.go_on()
    pods = await running.pods()
    assert sorted(node_of(pod) for pod in pods) == ["a100-0", "a100-1", "a100-2"]
    assert gone.metadata.uid not in {pod.metadata.uid for pod in pods}


async def test_a_failed_pod_is_killed_and_replaced_ever_more_slowly(running: Cluster) -> None:
    await running.apply(DAEMON_SET, "web", _body(running))
    await running.go_on()
    for _ in range(2):
        victim = next(pod for pod in await running.pods() if node_of(pod) == "a100-1")
        await running.set_pod(victim, ready=False, phase="Failed")
        await running.clock.advance(0.4)
    told = await running.events("FailedDaemonPod")
    assert len(told) == 1, "the second failure within a second waits"
    assert told[0].endswith("on node a100-1, will try to kill it")
    await running.go_on(10)
    assert {pod.status.phase for pod in await running.pods()} == {"Running"}


async def test_a_rolling_update_misses_one_node_at_a_time(running: Cluster) -> None:
    await running.apply(DAEMON_SET, "web", _body(running))
    await running.go_on()
    await _roll(running, "agent:2")
    fewest = 3
    for _ in range(40):
        await running.clock.advance(0.1)
        ready = sum(
            any(c.type == "Ready" and c.status == "True" for c in p.status.conditions)
            for p in await running.pods()
        )
        fewest = min(fewest, ready)
        await running.make_ready()
    assert fewest == 2
    assert {pod.spec.containers[0].image for pod in await running.pods()} == {"agent:2"}
    assert (await _daemon_set(running)).status.updated_number_scheduled == 3
    assert [revision.revision for revision in await running.all(CONTROLLER_REVISION)] in ([1, 2], [2, 1])


async def test_on_delete_waits_for_a_person(running: Cluster) -> None:
    await running.apply(DAEMON_SET, "web", _body(running, updateStrategy={"type": "OnDelete"}))
    await running.go_on()
    await _roll(running, "agent:2")
    await running.go_on()
    assert {pod.spec.containers[0].image for pod in await running.pods()} == {"agent:1"}
    first = next(pod for pod in await running.pods() if node_of(pod) == "a100-0")
    await running.api.delete(POD, first.metadata.name, namespace="default")
    await running.go_on()
    images = {node_of(pod): pod.spec.containers[0].image for pod in await running.pods()}
    assert images == {"a100-0": "agent:2", "a100-1": "agent:1", "a100-2": "agent:1"}


async def test_a_surge_runs_the_new_pod_before_the_old_one_goes(running: Cluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await running.apply(DAEMON_SET, "web", _body(running, updateStrategy=strategy))
    await running.go_on()
    await _roll(running, "agent:2")
    most = 0
    for _ in range(60):
        await running.clock.advance(0.1)
        pods = await running.pods()
        most = max(most, len(pods))
        served = {
            node_of(p)
            for p in pods
            if any(c.type == "Ready" and c.status == "True" for c in p.status.conditions)
        }
        assert served == {"a100-0", "a100-1", "a100-2"}
        await running.make_ready()
    assert most == 4
    assert {pod.spec.containers[0].image for pod in await running.pods()} == {"agent:2"}


async def test_a_revision_has_the_annotations_of_its_daemon_set(running: Cluster) -> None:
    await running.apply(DAEMON_SET, "web", _body(running))
    await running.clock.settle()
    [revision] = await running.all(CONTROLLER_REVISION)
    assert revision.metadata.annotations == {"deprecated.daemonset.template.generation": "1"}


def _daemon_pod(name: str, node: str, revision: str, *, ready: bool = True) -> Pod:
    condition = Condition(type="Ready", status="True" if ready else "False")
    metadata = ObjectMeta(name=name, uid=name, labels={"controller-revision-hash": revision})
    return Pod(
        metadata=metadata,
        spec=PodSpec(node_name=node),
        status=PodStatus(phase="Running", conditions=[condition]),
    )


def _on(node: str, *taints: Taint) -> Node:
    return Node(metadata=ObjectMeta(name=node), spec=NodeSpec(taints=list(taints)))


@pytest.mark.parametrize(
    ("limits", "ready", "deleted"),
    [
        pytest.param({"maxUnavailable": 1}, ["a", "b"], {"a"}, id="it takes part in the limit"),
        pytest.param({"maxUnavailable": 2}, ["a", "b"], {"a", "b"}, id="as long as that allows"),
        pytest.param({"maxSurge": 1}, ["a", "b"], {"b"}, id="with a surge it goes, others are enough"),
        pytest.param({"maxSurge": 1}, ["b"], set(), id="or stays while they are not"),
        pytest.param({"maxSurge": 1}, [], {"b"}, id="unless it is of no use itself"),
    ],
)
def test_an_update_and_an_old_pod_on_a_node_that_should_have_none(
    limits: JsonObject, ready: list[str], deleted: set[str]
) -> None:
    strategy: JsonObject = {"type": "RollingUpdate", "rollingUpdate": limits}
    daemon = DaemonSet(spec=WorkloadSpec(template={"spec": {"containers": []}}, update_strategy=strategy))
    fits = Placements(daemon).on_all([_on("a"), _on("b", _taint("NoSchedule"))])
    pods = [_daemon_pod(name, name, "old", ready=name in ready) for name in ("a", "b")]
    found = plan(daemon, fits, by_node(pods), "new", datetime(2026, 1, 1, tzinfo=UTC))
    assert {pod.metadata.name for pod in found.delete} == deleted


def test_the_status_counts_the_older_of_two_pods_on_a_node() -> None:
    pods = [_daemon_pod("new", "a", "new", ready=False), _daemon_pod("old", "a", "old")]
    pods[0].metadata.creation_timestamp = "2026-01-01T00:00:01Z"
    daemon = DaemonSet(spec=WorkloadSpec(template={"spec": {"containers": []}}))
    fits = Placements(daemon).on_all([_on("a")])
    status, _ = status_of(daemon, fits, by_node(pods), "new", datetime(2026, 1, 1, tzinfo=UTC))
    assert (status.number_ready, status.updated_number_scheduled) == (1, 0)
    pods[0].status.conditions = [Condition(type="Ready", status="True")]
    pods[0].status.conditions[0].last_transition_time = "2026-01-01T00:00:00Z"
    daemon.spec.min_ready_seconds = 5
    _, again_s = status_of(daemon, fits, by_node(pods), "new", datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert again_s == 4, "the younger one is available by then, and the older one may go"


async def test_going_back_to_an_old_template_reuses_its_revision_with_a_new_number(running: Cluster) -> None:
    await running.apply(DAEMON_SET, "web", _body(running))
    await running.go_on()
    for image in ("agent:2", "agent:1"):
        await _roll(running, image)
        await running.go_on(4)
    revisions = await running.all(CONTROLLER_REVISION)
    assert sorted(revision.revision for revision in revisions) == [2, 3]
    assert {pod.spec.containers[0].image for pod in await running.pods()} == {"agent:1"}


async def test_many_changes_of_a_large_set_are_looked_at_together(
    running: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(120):
        await running.node(f"many-{number}")
        await running.api.patch(NODE, f"many-{number}", {"spec": {"taints": None}})
    await running.apply(DAEMON_SET, "web", _body(running))
    await running.go_on()
    looks = 0

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return plan(*arguments)

    monkeypatch.setattr(daemon_set_module, "plan", counted)
    for pod in await running.pods():
        await running.set_pod(pod, ready=False)
        await running.clock.settle()
    assert looks == 0
    await running.clock.advance(1)
    assert 0 < looks < 5
    assert (await _daemon_set(running)).status.number_ready == 0
