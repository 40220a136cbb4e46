"""Explanations of admission and scheduling over whole clusters; each test names its case."""

from __future__ import annotations

from typing import Any

import pytest

from support.explanations import (
    A100,
    GPU,
    H100,
    PRODUCT,
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
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.admission import LimitMissing, ResourceNotInteger
from tonnage.model.reasons.pod.pods import ProductUndecided
from tonnage.model.reasons.pod.quota import QuotaKeyWithoutEffect
from tonnage.model.reasons.pod.scheduling import InsufficientResource, NodeAffinityMismatch, TaintNotTolerated
from tonnage.model.verdict import Verdict

# ---- admission ----


def test_adm_1_half_a_gpu_is_refused_at_admission() -> None:
    """ADM-1: `nvidia.com/gpu: 0.5`."""
    manifest = pod("half", {GPU: 0.5})
    explanation = explained_manifest(manifest, node("a", A100, devices={SHARED: "4"}))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    assert explanation.upstream_message == (
        'Pod "half" is invalid: [spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": '
        "must be an integer, spec.containers[0].resources.requests[nvidia.com/gpu]: "
        'Invalid value: "500m": must be an integer]'
    )
    [remedy] = explanation.remedies
    for word in ("shared resource", "MIG profile", "ResourceClaim"):
        assert word in remedy.action
    assert SHARED in remedy.effect


def test_adm_2_a_request_without_a_limit_is_refused_at_admission() -> None:
    """ADM-2: `nvidia.com/gpu` under requests only."""
    manifest = pod("p", {})
    manifest["spec"]["containers"][0]["resources"] = {"requests": {GPU: 1}}
    explanation = explained_manifest(manifest, node("a", A100, devices={GPU: "8"}))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    assert explanation.upstream_message == (
        'Pod "p" is invalid: spec.containers[0].resources.limits: Required value: '
        "Limit must be set for non overcommitable resources"
    )
    assert explanation.reasons[0].code == LimitMissing.code


def test_adm_3_unequal_request_and_limit_are_refused_at_admission() -> None:
    """ADM-3: request 1, limit 2."""
    manifest = pod("p", {GPU: 2})
    manifest["spec"]["containers"][0]["resources"]["requests"] = {GPU: 1}
    explanation = explained_manifest(manifest, node("a", A100, devices={GPU: "8"}))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    assert explanation.upstream_message == (
        'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "1": '
        "must be equal to nvidia.com/gpu limit of 2"
    )


def test_every_error_of_a_workloads_template_is_told_at_once() -> None:
    bad = pod("p", {GPU: "1500m"})
    bad["spec"]["initContainers"] = [{"name": "init", "resources": {"requests": {GPU: "1"}}}]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve"},
        "spec": {"template": {"spec": bad["spec"]}},
    }
    explanation = explained_manifest(deployment, node("a"))
    assert explanation.upstream_message.startswith('Deployment.apps "serve" is invalid: [spec.template.spec.')
    assert (
        "spec.template.spec.initContainers[0].resources.limits: Required value"
        in explanation.upstream_message
    )
    assert {r.code for r in explanation.reasons} == {ResourceNotInteger.code, LimitMissing.code}


def test_cpu_may_be_fractional_and_requests_below_limits() -> None:
    manifest = pod("p", {"cpu": "1500m", GPU: 1})
    manifest["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "0.5", "memory": "1.5Gi"}
    assert explained_manifest(manifest, node("a", devices={GPU: "1"})).verdict is Verdict.FITS


def quota(hard: Body, used: Body, **spec: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpu-quota", "namespace": "ml"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }


def test_adm_10_an_exhausted_quota_is_told_with_its_users() -> None:
    """ADM-10: the pod would never exist."""
    key = "requests.nvidia.com/gpu"
    full = (
        node("a", A100, devices={GPU: "16"}),
        pod("big", {GPU: "6"}, on="a"),
        quota({key: "8"}, {key: "6"}),
    )
    explanation = explained_manifest(pod("p", {GPU: "4"}), *full)
    assert (explanation.verdict, explanation.layer) == (Verdict.NOT_NOW, Layer.QUOTA)
    assert explanation.upstream_message == (
        'pods "p" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=4, '
        "used: requests.nvidia.com/gpu=6, limited: requests.nvidia.com/gpu=8"
    )
    assert "used by big" in explanation.message
    assert explained_manifest(pod("p", {GPU: "2"}), *full).verdict is Verdict.FITS
    assert explained_manifest(pod("p", {GPU: "9"}), *full).verdict is Verdict.NEVER


def test_adm_9_a_quota_on_limits_of_a_device_refuses_nothing() -> None:
    """ADM-9: `limits.nvidia.com/gpu` is accepted and never enforced."""
    room = node("a", A100, devices={GPU: "8"})
    useless = quota({"limits.nvidia.com/gpu": "1", "nvidia.com/gpu": "1"}, {})
    explanation = explained_manifest(pod("p", {GPU: "8"}), room, useless)
    assert explanation.verdict is Verdict.FITS
    aside = next(r for r in explanation.reasons if r.code == QuotaKeyWithoutEffect.code)
    assert aside.remedy == "write requests.nvidia.com/gpu"
    assert "limits.nvidia.com/gpu=1 is accepted and never enforced" in aside.message
    other = explained_manifest(pod("p", {"cpu": "1"}), room, useless)
    assert QuotaKeyWithoutEffect.code not in {r.code for r in other.reasons}


def test_a_pod_for_which_a_node_is_cleared_is_named_like_a_holder() -> None:
    coming = pod("coming", priority=100)
    coming["status"]["nominatedNodeName"] = "a"
    room = node("a", A100, devices={GPU: "1"})
    explanation = explained("p", room, coming, pod("p", priority=10))
    reason = explanation.nodes[0].reasons[0]
    assert reason.message.endswith("; kept for coming, for which the node is cleared")
    assert reason.facts["holders"] == [{"pod": "ml/coming", "amount": 1, "nominated": True}]
    better = explained("p", room, coming, pod("p", priority=101))
    assert better.verdict is Verdict.FITS, "it is kept only from pods that do not come before it"


def test_a_quota_on_cpu_makes_every_container_declare_it() -> None:
    room = node("a", A100, devices={GPU: "8"})
    explanation = explained_manifest(pod("p"), room, quota({"limits.cpu": "8"}, {"limits.cpu": "0"}))
    assert explanation.upstream_message == (
        'pods "p" is forbidden: failed quota: gpu-quota: must specify limits.cpu for: main'
    )
    assert explanation.layer is Layer.QUOTA


def test_a_scoped_quota_counts_the_pods_that_match() -> None:
    room = node("a", A100, devices={GPU: "8"})
    best_effort = quota({"pods": "1"}, {"pods": "1"}, scopes=["BestEffort"])
    assert explained_manifest(pod("p"), room, best_effort).layer is Layer.QUOTA
    measured = pod("p", {GPU: "1", "cpu": "1"})
    assert explained_manifest(measured, room, best_effort).verdict is Verdict.FITS


# ---- scheduler ----


def test_sch_1_an_untolerated_taint_is_named_and_the_toleration_offered() -> None:
    """SCH-1: a tainted GPU node with a free GPU."""
    nodes = (node("gpu-a", A100, devices={GPU: "8"}, taints=[TAINT]), node("cpu-a"))
    explanation = explained("train", *nodes, pod("train"))
    assert explanation.verdict is Verdict.NEVER
    assert explanation.layer is Layer.SCHEDULER
    assert explanation.upstream_message == (
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s). "
        "no new claims to deallocate, preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    reason = next(n for n in explanation.nodes if n.node == "gpu-a").reasons[0]
    assert reason.code == TaintNotTolerated.code
    assert reason.facts == {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    first = explanation.remedies[0]
    assert first.effect == "fits gpu-a"
    assert first.patch == {"spec": {"tolerations": [{**TAINT, "operator": "Equal"}]}}
    assert_remedy_works(explanation, pod("train"), *nodes)


def test_a_toleration_is_offered_in_place_of_one_that_the_server_may_refuse() -> None:
    comparing = {"key": "nvidia.com/gpu", "operator": "Gt", "value": "3", "effect": "NoSchedule"}
    other = {"key": "spot", "operator": "Exists"}
    tainted = node("gpu-a", A100, devices={GPU: "8"}, taints=[{**TAINT, "value": "5"}])
    explanation = explained("p", tainted, pod("p", tolerations=[comparing, other]))
    [first] = explanation.remedies
    assert first.patch == {"spec": {"tolerations": [other, {**TAINT, "operator": "Equal", "value": "5"}]}}
    assert first.action.endswith("in place of what compares values (operators Gt and Lt)")


def spread_pod(name: str, *, on: str = "", **constraint: Any) -> Body:
    chosen = {"labelSelector": {"matchLabels": {"app": "x"}}, "maxSkew": 1, "topologyKey": "zone"}
    whole = {**chosen, "whenUnsatisfiable": "DoNotSchedule", **constraint}
    made = pod(name, {}, on=on, topologySpreadConstraints=[whole])
    made["metadata"]["labels"] = {"app": "x"}
    return made


def test_too_few_domains_are_told_as_such_and_ways_round_them_offered() -> None:
    zones = [node("a"), node("b")]
    for zone in zones:
        zone["metadata"]["labels"]["zone"] = zone["metadata"]["name"]
    there = (*zones, spread_pod("one", on="a"), spread_pod("two", on="b"))
    asking = spread_pod("p", minDomains=3)
    explanation = explained("p", *there, asking)
    reason = explanation.nodes[0].reasons[0]
    assert "the minimum counts as 0, for minDomains wants 3 domains and 2 count" in reason.message
    assert (reason.facts["min_domains"], reason.facts["domains"]) == (3, 2)
    wider, softer = explanation.remedies
    assert wider.action == "raise maxSkew over zone to 2"
    for remedy in (wider, softer):
        changed = patched(asking, remedy.patch)
        assert places(changed, *there) == "a"
    [soft] = changed["spec"]["topologySpreadConstraints"]
    assert soft["whenUnsatisfiable"] == "ScheduleAnyway"
    assert "minDomains" not in soft, "the API server refuses it beside ScheduleAnyway"


def test_an_empty_domain_is_told_as_one_and_maxskew_raised_as_far_as_needed() -> None:
    zones = [node("a"), node("b", unschedulable=True)]
    for zone in zones:
        zone["metadata"]["labels"]["zone"] = zone["metadata"]["name"]
    there = (*zones, spread_pod("one", on="a"), spread_pod("two", on="a"))
    explanation = explained("p", *there, spread_pod("p"))
    reason = explanation.nodes[0].reasons[0]
    assert "the emptiest domain 0; one more exceeds maxSkew 1" in reason.message
    assert "min_domains" not in reason.facts
    assert any(r.action == "raise maxSkew over zone to 3" for r in explanation.remedies)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("1.33", "untolerated taint {nvidia.com/gpu: present}. preemption:"),
        ("1.34.1", "untolerated taint {nvidia.com/gpu: present}. no new claims to deallocate, preemption:"),
        ("1.34.2", "untolerated taint(s). no new claims to deallocate, preemption:"),
        ("1.36", "untolerated taint(s). no new claims to deallocate, preemption:"),
    ],
)
def test_the_text_is_that_of_the_release(version: str, text: str) -> None:
    tainted = node("a", A100, devices={GPU: "8"}, taints=[TAINT])
    assert text in explained("p", tainted, pod("p"), version=version).upstream_message


def test_sch_2_both_causes_are_shown_and_one_fix_alone_is_said_to_fail() -> None:
    """SCH-2: the taint hides the affinity; correcting only the toleration still fails."""
    new_pod = pod("train", affinity=requiring(H100))
    explanation = explained("train", *six_nodes(), new_pod)
    assert explanation.verdict is Verdict.NOT_NOW
    assert reasons_of(explanation, "a100-0") == [TaintNotTolerated.code, NodeAffinityMismatch.code]
    tainted = next(n for n in explanation.nodes if n.node == "a100-0")
    assert [reason.hidden for reason in tainted.reasons] == [False, True]
    assert all(reasons_of(explanation, f"h100-{i}") == [InsufficientResource.code] for i in range(4))

    tolerated = pod("train", affinity=requiring(H100), tolerations=[{"key": GPU, "operator": "Exists"}])
    assert explained("train", *six_nodes(), tolerated).verdict is Verdict.NOT_NOW

    both = explanation.remedies[0]
    assert both.effect == "fits a100-0 (all of these are needed)"
    corrected = patched(new_pod, both.patch)
    assert corrected["spec"]["affinity"] == requiring(H100, A100)
    assert places(corrected, *six_nodes()) == "a100-0"


def test_sch_3_a_node_without_the_plugin_is_no_matter_of_capacity() -> None:
    """SCH-3: GPUs by the labels, nothing advertised: the layer below the scheduler is named."""
    explanation = explained("p", node("a", A100), pod("p"))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.PLUGIN)
    assert "no node advertises nvidia.com/gpu" in explanation.message
    assert explanation.nodes[0].reasons[0].layer is Layer.PLUGIN
    assert "Insufficient nvidia.com/gpu" in explanation.upstream_message


def test_sch_3_without_driver_labels_the_driver_is_named() -> None:
    bare = node("a", A100)
    del bare["metadata"]["labels"]["nvidia.com/cuda.driver.major"]
    assert explained("p", bare, pod("p")).layer is Layer.DRIVER


def test_sch_3_capacity_without_allocatable_may_come_back() -> None:
    lost = node("a", A100, devices={GPU: "4"})
    lost["status"]["allocatable"][GPU] = "0"
    explanation = explained("p", lost, pod("p"))
    assert (explanation.verdict, explanation.layer) == (Verdict.NOT_NOW, Layer.PLUGIN)
    assert "capacity but nothing allocatable: a" in explanation.message


def test_sch_4_the_patch_that_widens_the_affinity_is_offered() -> None:
    """SCH-4: A100 demanded, only H100 free."""
    nodes = (node("h100-0", H100, devices={GPU: "8"}), node("cpu-0"))
    new_pod = pod("train", affinity=requiring(A100))
    explanation = explained("train", *nodes, new_pod)
    assert explanation.verdict is Verdict.NEVER
    reason = explanation.nodes[1].reasons[0]
    assert reason.code == NodeAffinityMismatch.code
    assert A100 in reason.message
    assert H100 in reason.message
    assert explanation.remedies[0].effect == "fits h100-0"
    assert patched(new_pod, explanation.remedies[0].patch)["spec"]["affinity"] == requiring(A100, H100)


def test_sch_4_a_node_selector_becomes_an_affinity_that_takes_both() -> None:
    nodes = (node("h100-0", H100, devices={GPU: "8"}),)
    new_pod = pod("train", nodeSelector={PRODUCT: A100})
    explanation = explained("train", *nodes, new_pod)
    corrected = patched(new_pod, explanation.remedies[0].patch)
    assert corrected["spec"]["nodeSelector"] == {}
    assert corrected["spec"]["affinity"] == requiring(A100, H100)
    assert places(corrected, *nodes) == "h100-0"


def test_sch_5_two_products_that_would_do_are_a_warning() -> None:
    """SCH-5: no affinity, A100 and H100 both free."""
    nodes = (node("a", A100, devices={GPU: "8"}), node("h", H100, devices={GPU: "8"}))
    explanation = explained("p", *nodes, pod("p"))
    assert explanation.verdict is Verdict.FITS
    assert explanation.layer is None
    [warning] = explanation.reasons
    assert warning.code == ProductUndecided.code
    assert A100 in warning.message
    assert H100 in warning.message
    assert set(explanation.placement.scores) == {"a", "h"}
    assert explained("p", *nodes, pod("p", affinity=requiring(A100))).reasons == ()


def test_nodes_with_equal_scores_are_told_together_and_of_many_rows_the_first() -> None:
    alike = [node(f"n{n:02}", A100, devices={GPU: "8"}) for n in range(30)]
    text = explanation_lines(explained("p", *alike, pod("p")))
    [row] = text[text.index("Scores:") + 1 :]
    assert row.startswith("  n00, n01, n02, n03, n04, n05 and 24 more: ")
    cpus = {"limits": {"cpu": "20", GPU: "1"}}
    asking = pod("p", containers=[{"name": "main", "image": "cuda", "resources": cpus}])
    for n, one in enumerate(alike):
        one["status"]["allocatable"]["cpu"] = str(20 + 2 * n)
    explanation = explained("p", *alike, asking)
    text = explanation_lines(explanation)
    rows = text[text.index("Scores:") + 1 :]
    named = [name for row in rows[:-1] for name in row.partition(":")[0].strip().split(", ")]
    assert len(rows) == 21
    assert rows[-1] == f"  and {30 - len(named)} more nodes"
    totals = {name: scores["total"] for name, scores in explanation.placement.scores.items()}
    assert [totals[name] for name in named] == sorted(totals.values(), reverse=True)[: len(named)]
