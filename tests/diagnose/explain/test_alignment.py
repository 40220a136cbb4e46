"""KUB-3: `TopologyAffinityError` said before it happens, and explained afterwards, with what would fit."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.diagnose.explain.explain import explain, explain_manifest, find_pod
from tonnage.diagnose.explain.replicas.answers import explain_together
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.messages.symptoms import TopologyAffinity
from tonnage.model.reasons.pod.kubelet import NumaUndecided
from tonnage.model.reasons.pod.scheduling import InsufficientResource
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents
from tonnage.reading.manifests import added_manifests

Body = dict[str, Any]
GPU = "nvidia.com/gpu"


def node(name: str, gpus: int = 4) -> Body:
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def status(
    name: str, policy: str = "single-numa-node", *, held: dict[int, str] | None = None, **kubelet: str
) -> Body:
    """Four GPUs, two on either NUMA node; `held` maps a GPU to the pod that has it."""
    devices = [
        {
            "uuid": f"GPU-{index}",
            "index": index,
            "resource": GPU,
            "numaNode": index // 2,
            "health": "Healthy",
            "holders": [
                {"namespace": "ml", "pod": pod, "container": "main", "resource": GPU, "ids": [f"GPU-{index}"]}
                for at, pod in (held or {}).items()
                if at == index
            ],
        }
        for index in range(4)
    ]
    policies = {
        "topologyManagerPolicy": policy,
        "topologyManagerScope": "container",
        "cpuManagerPolicy": "none",
        "memoryManagerPolicy": "None",
        **kubelet,
    }
    resources = [{"name": GPU, "devices": 4, "replicas": 1, "capacity": 4, "allocatable": 4}]
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": name},
        "status": {"devices": devices, "resources": resources, "kubelet": policies},
    }


def pod(name: str, *gpus: int, on: str = "", cpu: str = "", **more: Any) -> Body:
    exact = {"cpu": cpu, "memory": "1Gi"} if cpu else {}
    containers = [
        {"name": f"c{n}", "image": "cuda", "resources": {"limits": {GPU: str(count), **exact}}}
        for n, count in enumerate(gpus)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": name, **more.pop("metadata", {})},
        "spec": {"containers": containers, **({"nodeName": on} if on else {})},
        "status": more.pop("status", {"phase": "Running" if on else "Pending"}),
    }


def cluster(*objects: Body) -> Snapshot:
    return snapshot_from_documents([{"kind": "List", "items": list(objects)}], server_version="1.35")


def explained(name: str, *objects: Body) -> Explanation:
    snapshot = cluster(*objects)
    pod = find_pod(snapshot, "ml", name)
    assert pod is not None
    return explain(pod, snapshot)


def told(explanation: Explanation) -> str:
    return "\n".join(explanation_lines(explanation))


def test_kub_3_a_pod_that_no_numa_node_can_take_is_foretold() -> None:
    explanation = explained("wide", node("a"), status("a"), pod("wide", 4))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.KUBELET)
    assert explanation.placement.node == "a"
    text = told(explanation)
    assert "TopologyAffinityError" in text
    assert "NUMA node 0: 2 of 2 nvidia.com/gpu free; NUMA node 1: 2 of 2 nvidia.com/gpu free" in text
    assert [(r.action, r.effect) for r in explanation.remedies] == [
        ("ask for 2 nvidia.com/gpu", "fits a"),
        (
            "set topologyManagerPolicy: restricted in kubelet's configuration of a and restart it",
            "fits a; its devices may then be on different NUMA nodes, which is slower",
        ),
    ]


@pytest.mark.parametrize(
    ("gpus", "policy", "scope"),
    [
        pytest.param((2,), "single-numa-node", "container", id="as many as a NUMA node has"),
        pytest.param((4,), "restricted", "container", id="a policy that takes the fewest that would do"),
        pytest.param((4,), "best-effort", "container", id="a policy that keeps nothing out"),
        pytest.param((4,), "none", "container", id="no alignment at all"),
        pytest.param((2, 2), "single-numa-node", "container", id="two containers, each aligned for itself"),
    ],
)
def test_kub_3_near_misses_fit(gpus: tuple[int, ...], policy: str, scope: str) -> None:
    objects = (node("a"), status("a", policy, topologyManagerScope=scope), pod("wide", *gpus))
    assert explained("wide", *objects).verdict is Verdict.FITS


def test_kub_3_a_scope_of_the_pod_counts_its_containers_together() -> None:
    objects = (node("a"), status("a", topologyManagerScope="pod"), pod("pair", 2, 2))
    assert explained("pair", *objects).layer is Layer.KUBELET


def test_kub_3_what_holders_leave_is_a_matter_of_time_and_they_are_named() -> None:
    """Two are free, but one on either NUMA node."""
    held = {0: "x", 2: "y"}
    holders = [pod("x", 1, on="a"), pod("y", 1, on="a")]
    explanation = explained("two", node("a"), status("a", held=held), *holders, pod("two", 2))
    assert (explanation.verdict, explanation.layer) == (Verdict.NOT_NOW, Layer.KUBELET)
    assert ("wait for x on a to end, or end it", "fits a") in [
        (r.action, r.effect) for r in explanation.remedies
    ]


def test_kub_3_another_node_whose_kubelet_takes_it_is_named_and_tried() -> None:
    """Both are equal for the scheduler, so which of them it takes cannot be said."""
    objects = (node("a"), node("b"), status("a"), status("b", "none"), pod("wide", 4))
    explanation = explained("wide", *objects)
    assert explanation.verdict is Verdict.UNKNOWN
    assert "the kubelet of b would take it" in explanation.message
    assert explanation.remedies[0].effect == "fits b"
    term = explanation.remedies[0].patch["spec"]["affinity"]["nodeAffinity"]  # type: ignore[call-overload,index]
    assert "'values': ['b']" in str(term)


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        pytest.param((), "it has no NodeGPUStatus", id="no report"),
        pytest.param(
            (status("a", "unknown"),), "its topology manager policy is unknown", id="a policy unknown"
        ),
        pytest.param(
            (status("a"), pod("x", 1, on="a")),
            "its NodeGPUStatus does not name all devices of ml/x",
            id="a pod whose devices are not told yet",
        ),
        pytest.param(
            (status("a", cpuManagerPolicy="static", topologyManagerPolicy="restricted"),),
            "cannot tell what its CPU manager (policy static) says",
            id="a manager whose NUMA nodes nobody reports",
        ),
    ],
)
def test_what_nobody_tells_leaves_the_schedulers_verdict_and_is_said(
    objects: tuple[Body, ...], why: str
) -> None:
    explanation = explained("some", node("a"), pod("some", 2, cpu="4"), *objects)
    assert explanation.verdict is Verdict.FITS
    assert [r.code for r in explanation.reasons] == [NumaUndecided.code]
    assert why in told(explanation)


def test_a_pod_of_one_gpu_is_told_nothing_of_numa_nodes() -> None:
    assert explained("one", node("a"), pod("one", 1)).reasons == ()


def test_kub_3_the_failed_pod_is_explained_with_the_layout_and_what_would_fit() -> None:
    failed = {
        "phase": "Failed",
        "reason": "TopologyAffinityError",
        "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
    }
    owner = {"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}
    gone = pod("wide", 4, on="a", status=failed, metadata=owner)
    explanation = explained("wide", node("a"), status("a"), gone)
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.KUBELET)
    text = told(explanation)
    for part in (
        "not scheduled again: its Job train creates a new one, which fails the same way",
        "NUMA node 0: 2 of 2 nvidia.com/gpu free",
        "single-numa-node",
        "ask for 2 nvidia.com/gpu",
    ):
        assert part in text


def test_kub_3_a_failed_pod_on_a_node_without_report_says_so() -> None:
    gone = pod("wide", 4, on="a", status={"phase": "Failed", "reason": "TopologyAffinityError"})
    text = told(explained("wide", node("a"), gone))
    assert "Tonnage does not know its NUMA nodes" in text
    assert "no controller creates a new one" in text


def test_kub_3_a_manifest_is_judged_by_the_kubelet_too() -> None:
    snapshot = cluster(node("a"), status("a"))
    [manifest] = manifests_from_documents([pod("wide", 3)])
    assert explain_manifest(manifest, snapshot).layer is Layer.KUBELET


def test_kub_3_a_full_node_that_would_not_take_it_idle_either_is_never_and_says_so() -> None:
    """Behind the want of GPUs stands the topology manager: to wait is no remedy, to ask for less is."""
    holders = [pod("x", 2, on="a")]
    explanation = explained("wide", node("a"), status("a", held={0: "x", 1: "x"}), *holders, pod("wide", 4))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.SCHEDULER)
    [found] = explanation.nodes
    assert [(r.code, r.hidden) for r in found.reasons] == [
        (InsufficientResource.code, False),
        (TopologyAffinity.code, True),
    ]
    assert next((r.action, r.effect) for r in explanation.remedies) == ("ask for 2 nvidia.com/gpu", "fits a")


def test_a_remedy_of_the_scheduler_counts_only_if_the_kubelet_takes_the_pod() -> None:
    """The taint alone keeps the pod away, and behind it the kubelet would."""
    tainted = node("a")
    tainted["spec"] = {"taints": [{"key": "t", "value": "", "effect": "NoSchedule"}]}
    assert explained("wide", tainted, status("a", "none"), pod("wide", 4)).remedies[0].effect == "fits a"
    [both] = explained("wide", tainted, status("a"), pod("wide", 4)).remedies
    assert both.action == "tolerate the taint t:NoSchedule; and ask for 2 nvidia.com/gpu"
    assert both.effect.startswith("fits a (all of these are needed")


@pytest.mark.parametrize("held", [1, 2])
def test_what_an_idle_node_refuses_is_refused_whoever_holds_its_devices(held: int) -> None:
    """KUB-3: also where the node's report names other pods than the cluster has; no remedy passes over it."""
    gpu_status = status("a", held=dict.fromkeys(range(held), "some-uid"))
    explanation = explained("wide", node("a"), gpu_status, pod("other", held, on="a"), pod("wide", 3))
    assert explanation.verdict is Verdict.NEVER
    assert "TopologyAffinityError" in told(explanation)
    assert explanation.remedies
    assert all(
        "ask for" in remedy.action or "set topology" in remedy.action for remedy in explanation.remedies
    )
    assert ("even if the node were idle" in told(explanation)) is (held == 1)


def init(body: Body, gpus: int) -> Body:
    body["spec"]["initContainers"] = [
        {"name": "i", "image": "cuda", "resources": {"limits": {GPU: str(gpus)}}}
    ]
    return body


@pytest.mark.parametrize(
    ("first", "verdict"),
    [(3, Verdict.NEVER), (2, Verdict.FITS)],
)
def test_kub_3_what_every_choice_ends_in_is_certain(first: int, verdict: Verdict) -> None:
    """Devices of an init container on both NUMA nodes bind the next one to both, whichever they are."""
    explanation = explained("p", node("a"), status("a", "restricted"), init(pod("p", 1), first))
    assert explanation.verdict is verdict
    assert ("TopologyAffinityError" in told(explanation)) is (verdict is Verdict.NEVER)


def six(name: str, policy: str = "single-numa-node") -> Body:
    """Six GPUs, three on either NUMA node."""
    made = status(name, policy)
    first = made["status"]["devices"][0]
    made["status"]["devices"] = [
        {**first, "uuid": f"GPU-{index}", "index": index, "numaNode": index // 3} for index in range(6)
    ]
    made["status"]["resources"][0].update(devices=6, capacity=6, allocatable=6)
    return made


def workload(kind: str, count: int, gpus: int) -> Body:
    """A workload of so many pods."""
    job = kind == "Job"
    spec = {**pod("x", gpus)["spec"], **({"restartPolicy": "Never"} if job else {})}
    counts = {"parallelism": count, "completions": count} if job else {"replicas": count}
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    selector = {} if job else {"selector": {"matchLabels": labels}}
    return {
        "apiVersion": "batch/v1" if job else "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "ml"},
        "spec": {**counts, **selector, "template": template},
    }


def together(manifest: Body, *objects: Body) -> Explanation:
    manifests, snapshot = added_manifests([manifest], cluster(*objects), "ml")
    [answer] = explain_together(manifests, snapshot)
    return answer


@pytest.mark.parametrize(
    ("kind", "count", "gpus", "policy", "verdict", "opening"),
    [
        pytest.param(
            "Deployment",
            3,
            2,
            "single-numa-node",
            Verdict.NEVER,
            "2 of 3 pods fit; the third does not start: the scheduler, which ignores NUMA nodes, takes a",
            id="each NUMA node takes one of two, and has one left",
        ),
        pytest.param(
            "Job",
            3,
            2,
            "restricted",
            Verdict.NOT_NOW,
            "2 of 3 pods fit; the third does not start: ",
            id="pods that end make room",
        ),
        pytest.param(
            "StatefulSet",
            4,
            2,
            "single-numa-node",
            Verdict.NEVER,
            "2 of 4 pods fit; web-2 does not start, and the next is created once it is ready: ",
            id="in order",
        ),
        pytest.param(
            "Deployment",
            2,
            2,
            "single-numa-node",
            Verdict.FITS,
            "both pods fit: 2 on a",
            id="one on either NUMA node",
        ),
        pytest.param(
            "Deployment",
            6,
            1,
            "single-numa-node",
            Verdict.FITS,
            "all 6 pods fit: 6 on a",
            id="single devices are aligned with themselves",
        ),
        pytest.param(
            "Deployment", 3, 2, "best-effort", Verdict.FITS, "all 3 pods fit: 3 on a", id="no alignment"
        ),
    ],
)
def test_kub_3_every_replica_is_put_to_the_kubelet(
    kind: str, count: int, gpus: int, policy: str, verdict: Verdict, opening: str
) -> None:
    answer = together(workload(kind, count, gpus), node("a", 6), six("a", policy))
    assert answer.verdict is verdict
    assert answer.message.startswith(opening)
    assert answer.layer is (None if verdict is Verdict.FITS else Layer.KUBELET)


def test_nobody_is_told_to_wait_for_pods_that_their_workload_makes_again() -> None:
    actions = {
        kind: [r.action for r in together(workload(kind, 3, 2), node("a", 6), six("a")).remedies]
        for kind in ("Deployment", "Job")
    }
    waits = "wait for web-new-0 on a to end, or end it"
    assert (waits in actions["Deployment"], waits in actions["Job"]) == (False, True)


def test_a_remedy_says_what_it_brings_to_all_pods() -> None:
    answer = together(workload("Deployment", 3, 2), node("a", 6), six("a"))
    effects = {remedy.action: remedy.effect for remedy in answer.remedies}
    assert effects["ask for 1 nvidia.com/gpu"] == "fits a; all 3 pods fit"
    answer = together(workload("Deployment", 3, 4), node("a", 6), six("a"))
    effects = {remedy.action: remedy.effect for remedy in answer.remedies}
    assert effects["ask for 3 nvidia.com/gpu"] == "fits a; 2 of 3 pods fit"
