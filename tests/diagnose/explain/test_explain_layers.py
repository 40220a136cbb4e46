"""Explanations of capacity, of kubelet and what follows, and how they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.explanations import (
    A100,
    GPU,
    H100,
    SHARED,
    TAINT,
    Body,
    assert_remedy_works,
    explained,
    explained_manifest,
    node,
    patched,
    places,
    pod,
    reasons_of,
    requiring,
    six_nodes,
)
from tonnage.diagnose.explain.explain import explain, find_pod
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.gpu.allocation import SharedRequestTooLarge
from tonnage.model.reasons.gpu.devices import GpuConfigRefused, ResourceRenamed
from tonnage.model.reasons.messages.symptoms import (
    KubeletOutOfResource,
    NoHealthyDevices,
    TopologyAffinity,
)
from tonnage.model.reasons.pod.claims import ClaimMissing
from tonnage.model.reasons.pod.pods import (
    ConditionDiffers,
    HeldAndIdle,
    KindNotRead,
    OtherScheduler,
    Preemption,
    ReleaseUnverified,
    SchedulingGated,
)
from tonnage.model.reasons.pod.scheduling import InsufficientResource, ResourceTooLarge
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import snapshot_from_documents


def fifth() -> tuple[Body, ...]:
    """SCH-9: one GPU of four replicas, all held."""
    holders = [pod(f"serve-{i}", {SHARED: "1"}, on="t4-0") for i in range(4)]
    return (node("t4-0", "Tesla-T4", devices={SHARED: "4"}), *holders)


def test_sch_9_the_four_holders_are_named() -> None:
    """SCH-9: the fifth pod on one GPU with four replicas."""
    explanation = explained("serve-4", *fifth(), pod("serve-4", {SHARED: "1"}))
    assert (explanation.verdict, explanation.layer) == (Verdict.NOT_NOW, Layer.SCHEDULER)
    assert "1 Insufficient nvidia.com/gpu.shared" in explanation.upstream_message
    assert explanation.needs == {SHARED: 1}
    facts = explanation.nodes[0].reasons[0].facts
    assert facts["holders"] == [{"pod": f"ml/serve-{i}", "amount": 1} for i in range(4)]
    assert (facts["requested"], facts["free"], facts["allocatable"]) == (1, 0, 4)
    [remedy] = explanation.remedies
    assert remedy.action.startswith("wait for 1 of serve-0, serve-1, serve-2, serve-3 on t4-0")
    assert remedy.effect == "fits t4-0"


def test_sch_10_victims_are_shown_before_they_are_evicted() -> None:
    """SCH-10: a high-priority pod meets a full pool."""
    low = pod("batch", on="a", priority=0)
    explanation = explained("train", node("a", A100, devices={GPU: "1"}), low, pod("train", priority=1000))
    assert explanation.verdict is Verdict.NOT_NOW
    assert explanation.placement.nominated == "a"
    assert explanation.placement.victims == ("batch",)
    assert explanation.upstream_message == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert explanation.reasons[0].code == Preemption.code


def test_sch_10_a_priority_class_that_would_help_is_offered_with_its_victims() -> None:
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "gpu-high"},
        "value": 1000,
    }
    full = (node("a", A100, devices={GPU: "1"}), pod("batch", on="a"))
    explanation = explained("train", high, *full, pod("train"))
    remedy = explanation.remedies[-1]
    assert remedy.patch == {"spec": {"priorityClassName": "gpu-high"}}
    assert remedy.effect == "fits a after evicting batch"
    manifest = pod("train", priorityClassName="gpu-high")
    assert explained_manifest(manifest, high, *full).placement.nominated == "a"


def test_a_renamed_resource_is_found_under_its_new_name() -> None:
    """SHR-2: `nvidia.com/gpu` asked, nodes advertise `nvidia.com/gpu.shared`."""
    nodes = (node("t4-0", "Tesla-T4", devices={SHARED: "4"}),)
    explanation = explained("p", *nodes, pod("p"))
    assert explanation.layer is Layer.PLUGIN
    assert explanation.reasons[0].code == ResourceRenamed.code
    assert "nvidia.com/gpu.shared on t4-0" in explanation.message
    corrected = patched(pod("p"), explanation.remedies[0].patch)
    assert corrected["spec"]["containers"][0]["resources"]["limits"] == {SHARED: "1"}
    assert places(corrected, *nodes) == "t4-0"


def test_sch_7_a_partitioned_node_is_told_by_its_profiles() -> None:
    """SCH-7: a whole-GPU pod after the node went all-1g.10gb."""
    nodes = (node("a", A100, devices={"nvidia.com/mig-1g.10gb": "7", GPU: "0"}),)
    explanation = explained("p", *nodes, pod("p"))
    assert explanation.reasons[0].code == ResourceRenamed.code
    assert "nvidia.com/mig-1g.10gb on a" in explanation.message


def test_a_request_larger_than_any_node_is_shrunk_to_what_is_free() -> None:
    nodes = (node("a", A100, devices={GPU: "8"}),)
    explanation = explained("p", *nodes, pod("p", {GPU: "9"}))
    assert reasons_of(explanation, "a") == [ResourceTooLarge.code]
    assert explanation.verdict is Verdict.NEVER
    assert explanation.remedies[0].action == "ask for 8 nvidia.com/gpu"
    assert_remedy_works(explanation, pod("p", {GPU: "9"}), *nodes)


def test_a_cordoned_node_is_not_now_and_the_uncordon_is_tried() -> None:
    explanation = explained("p", node("a", A100, devices={GPU: "8"}, unschedulable=True), pod("p"))
    assert explanation.verdict is Verdict.NOT_NOW
    assert explanation.remedies[0].action == "uncordon a: kubectl uncordon a"
    assert explanation.remedies[0].effect == "fits a"


def test_a_remedy_that_would_not_help_is_not_offered() -> None:
    """Tolerating the taint of a full node helps nobody."""
    full = (node("a", A100, devices={GPU: "1"}, taints=[TAINT]), pod("busy", on="a"))
    explanation = explained("p", *full, pod("p"))
    assert all("and wait for" in r.action for r in explanation.remedies)


# ---- other layers ----


def status_of(name: str, **status: Any) -> Body:
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": name},
        "status": status,
    }


@pytest.mark.parametrize(("used_mib", "idle"), [(3, True), (40000, False)])
def test_sch_8_idle_gpus_that_are_held_are_not_free(used_mib: int, idle: bool) -> None:
    """SCH-8: DCGM shows idle GPUs, and pods wait: what is allocated counts."""
    holder = {"resource": GPU, "ids": ["GPU-1"], "namespace": "web", "pod": "notebook", "container": "main"}
    device = {"uuid": "GPU-1", "resource": GPU, "memoryMiB": 81920, "holders": [holder]}
    status = status_of("a", devices=[{**device, "memoryUsedMiB": used_mib}])
    busy = pod("notebook", on="a")
    busy["metadata"]["namespace"] = "web"
    explanation = explained("p", node("a", A100, devices={GPU: "1"}), busy, pod("p"), status)
    assert (explanation.verdict, explanation.layer) == (Verdict.NOT_NOW, Layer.SCHEDULER)
    assert reasons_of(explanation, "a") == [InsufficientResource.code]
    messages = [reason.message for reason in explanation.reasons if reason.code == HeldAndIdle.code]
    assert bool(messages) is idle
    if idle:
        assert "on a 1 by web/notebook (3 of 81920 MiB used)" in messages[0]
    assert explanation.remedies[0].action.startswith("wait for web/notebook on a")


@pytest.mark.parametrize(
    ("minutes", "evidence"),
    [
        pytest.param(2, [], id="new"),
        pytest.param(90, ["by one reading 90 minutes after their start"], id="old"),
    ],
)
def test_that_a_gpu_is_idle_takes_more_than_a_moment(minutes: int, evidence: list[str]) -> None:
    holder = {"resource": GPU, "ids": ["GPU-1"], "namespace": "ml", "pod": "busy", "container": "main"}
    device = {"uuid": "GPU-1", "resource": GPU, "memoryMiB": 81920, "memoryUsedMiB": 3, "holders": [holder]}
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    busy = pod("busy", on="a")
    busy["status"]["startTime"] = (now - timedelta(minutes=minutes)).isoformat()
    objects = [node("a", A100, devices={GPU: "1"}), busy, pod("p"), status_of("a", devices=[device])]
    snapshot = snapshot_from_documents(objects, now=now)
    waiting = find_pod(snapshot, "ml", "p")
    assert waiting is not None
    messages = [r.message for r in explain(waiting, snapshot).reasons if r.code == HeldAndIdle.code]
    assert [words for message, words in zip(messages, evidence, strict=True) if words in message] == evidence


def test_a_running_pod_is_shown_with_its_devices() -> None:
    holder = {"resource": GPU, "ids": ["GPU-1"], "namespace": "ml", "pod": "p", "container": "main"}
    devices = [{"uuid": "GPU-1", "product": A100, "health": "Healthy", "holders": [holder]}]
    explanation = explained(
        "p", node("a", A100, devices={GPU: "1"}), pod("p", on="a"), status_of("a", devices=devices)
    )
    assert (explanation.verdict, explanation.phase) == (Verdict.RUNNING, "Running")
    assert explanation.placement.node == "a"
    assert explanation.placement.devices == {GPU: ("GPU-1",)}
    assert explanation.message == "runs on a with nvidia.com/gpu: GPU-1"


@pytest.mark.parametrize(
    ("reason", "message", "layer", "code"),
    [
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to rpc error: maximum request size for shared resources is 1",
            Layer.PLUGIN,
            SharedRequestTooLarge.code,
        ),
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices",
            Layer.HARDWARE,
            NoHealthyDevices.code,
        ),
        ("OutOfnvidia.com/gpu", "Node didn't have enough resource", Layer.KUBELET, KubeletOutOfResource.code),
        ("TopologyAffinityError", "Resources cannot be allocated", Layer.KUBELET, TopologyAffinity.code),
    ],
)
def test_kub_3_kub_4_kubelets_refusal_is_told_by_layer(
    reason: str, message: str, layer: Layer, code: str
) -> None:
    failed = pod("p", on="a")
    failed["status"] = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
    explanation = explained("p", node("a", A100, devices={GPU: "1"}), failed)
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, layer)
    assert explanation.reasons[0].code is code
    assert "delete the pod" in explanation.remedies[-1].action
    assert explanation.upstream_message == f"Pod was rejected: {message}"


def test_adm_5_two_shared_replicas_are_refused_before_kubelet_does() -> None:
    """ADM-5: more than one where `failRequestsGreaterThanOne` holds."""
    resources = [{"name": SHARED, "replicas": 4, "failRequestsGreaterThanOne": True}]
    shared = (node("t4-0", "Tesla-T4", devices={SHARED: "4"}), status_of("t4-0", resources=resources))
    explanation = explained("p", *shared, pod("p", {SHARED: "2"}))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.PLUGIN)
    assert "failRequestsGreaterThanOne" in explanation.message
    assert explained("p", *shared, pod("p", {SHARED: "1"})).verdict is Verdict.FITS


def test_a_refused_configuration_is_told_beside_the_refusal() -> None:
    config = {"source": "built-in", "key": "timeslice-4", "error": "replicas: at least 2"}
    explanation = explained(
        "p", node("a", A100, devices={GPU: "0"}), pod("p", {SHARED: "1"}), status_of("a", config=config)
    )
    messages = [r.message for r in explanation.reasons if r.code == GpuConfigRefused.code]
    assert messages == ["the agent of a reports: configuration refused, built-in kept: replicas: at least 2"]


def test_a_container_that_cannot_start_is_a_matter_of_the_runtime() -> None:
    """RUN-1: assigned, stuck, CDI name unknown."""
    stuck = pod("p", on="a")
    wait = {
        "reason": "CreateContainerError",
        "message": "CDI device injection failed: unresolvable CDI devices",
    }
    stuck["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "main", "state": {"waiting": wait}}],
    }
    explanation = explained("p", node("a", A100, devices={GPU: "1"}), stuck)
    assert (explanation.verdict, explanation.layer) == (Verdict.NOT_NOW, Layer.RUNTIME)
    assert "unresolvable CDI devices" in explanation.message


def test_gates_claims_and_other_schedulers_are_named_not_guessed() -> None:
    room = node("a", A100, devices={GPU: "8"})
    gated = explained("p", room, pod("p", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    assert (gated.verdict, gated.reasons[0].code) == (Verdict.NOT_NOW, SchedulingGated.code)
    claims = explained("p", room, pod("p", resourceClaims=[{"name": "gpu"}]))
    assert (claims.verdict, claims.reasons[0].code) == (Verdict.NOT_NOW, ClaimMissing.code)
    assert claims.upstream_message == ""
    served = pod("served", on="a", schedulerName="kai-scheduler")
    foreign = explained("p", room, served, pod("p", schedulerName="kai-scheduler"))
    assert (foreign.verdict, foreign.reasons[0].code) == (Verdict.UNKNOWN, OtherScheduler.code)
    assert explained("p", pod("p")).reasons[0].code == KindNotRead.code


def test_what_cannot_be_read_is_unknown_and_named() -> None:
    broken = node("a", A100, devices={GPU: "eight"})
    explanation = explained("p", broken, pod("p", {"cpu": "1"}))
    assert explanation.verdict is Verdict.UNKNOWN
    assert (
        "status.allocatable[nvidia.com/gpu]: 'eight' is not a quantity"
        in explanation.nodes[0].reasons[0].message
    )
    unread = explained("p", node("a", A100, devices={GPU: "8"}), pod("p", {GPU: "one"}))
    assert unread.verdict is Verdict.UNKNOWN
    assert "spec.containers[0].resources.limits[nvidia.com/gpu]" in unread.message


# ---- the answer as a whole ----


def event(about: str) -> Body:
    involved = {"kind": "Pod", "namespace": "ml", "name": about}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about}.1", "namespace": "ml"},
        "involvedObject": involved,
        "reason": "FailedScheduling",
        "message": "0/1 nodes are available: 1 node(s) lied.",
    }


SITUATIONS: dict[str, Callable[[], tuple[Body, ...]]] = {
    "SCH-1": lambda: (node("a", A100, devices={GPU: "8"}, taints=[TAINT]), pod("p")),
    "SCH-2": lambda: (*six_nodes(), pod("p", affinity=requiring(H100))),
    "SCH-3": lambda: (node("a", A100), pod("p")),
    "SCH-5": lambda: (node("a", A100, devices={GPU: "8"}), node("h", H100, devices={GPU: "8"}), pod("p")),
    "SCH-9": lambda: (*fifth(), pod("p", {SHARED: "1"})),
    "SCH-10": lambda: (node("a", A100, devices={GPU: "1"}), pod("b", on="a"), pod("p", priority=9)),
}


@pytest.mark.parametrize("case", SITUATIONS)
def test_events_and_conditions_change_nothing(case: str) -> None:
    objects = SITUATIONS[case]()
    bare = explained("p", *objects).to_json()
    for obj in objects:
        ready = {"type": "Ready", "status": "True", "message": "kubelet is posting ready status"}
        said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "nonsense"}
        obj["status"]["conditions"] = [ready if obj["kind"] == "Node" else said]
    explanation = explained("p", *objects, event("p"))
    beside = [reason for reason in explanation.reasons if reason.code == ConditionDiffers.code]
    assert len(beside) == 1  # that the condition is nonsense is told, and decides nothing
    assert (
        replace(explanation, reasons=tuple(r for r in explanation.reasons if r not in beside)).to_json()
        == bare
    )


@pytest.mark.parametrize("case", SITUATIONS)
def test_the_json_has_every_key_of_the_contract(case: str) -> None:
    body = explained("p", *SITUATIONS[case]()).to_json()
    assert list(body) == [
        "subject", "verdict", "layer", "phase", "needs", "message", "upstream_message", "nodes", "placement",
        "reasons", "remedies",
    ]  # fmt: skip
    assert body["subject"] == {"kind": "Pod", "namespace": "ml", "name": "p"}
    placement: Any = body["placement"]
    assert {"node", "scores", "nominated", "victims"} <= set(placement)
    nodes: Any = body["nodes"]
    for entry in nodes:
        assert list(entry) == ["node", "verdict", "reasons"]
        for reason in entry["reasons"]:
            assert {"code", "layer", "facts", "message", "remedy", "source"} <= set(reason)
    remedies: Any = body["remedies"]
    assert all(list(remedy) == ["action", "effect", "patch"] for remedy in remedies)


def test_text_groups_nodes_that_share_their_reasons() -> None:
    lines = explanation_lines(explained("train", *six_nodes(), pod("train", affinity=requiring(H100))))
    assert lines[0] == (
        "Pod ml/train: NOT_NOW, something must end, be freed or be repaired first (layer: scheduler)"
    )
    assert any(line.strip().startswith("h100-0, h100-1, h100-2, h100-3: NOT_NOW") for line in lines)
    assert any("also wants nvidia.com/gpu.product" in line for line in lines)
    assert lines[-2] == "In Kubernetes' words:"
    assert max(map(len, lines)) < 400


@pytest.mark.parametrize(
    ("version", "told"), [("1.31", True), ("1.34.1", True), ("1.34.2", False), ("1.37", False)]
)
def test_a_release_that_nobody_was_asked_of_is_marked(version: str, *, told: bool) -> None:
    answer = explain(Pod("p", "default"), Snapshot(), version=version)
    assert (ReleaseUnverified.code in {reason.code for reason in answer.reasons}) == told
