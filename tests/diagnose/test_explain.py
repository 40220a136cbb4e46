"""Explanations over whole clusters, built as the API server would give them; each test names its case."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tonnage.adapters.reading_documents import manifests_from_documents, snapshot_from_documents
from tonnage.decide.cluster.scheduling import schedule
from tonnage.diagnose.explain import explain, explain_manifest, find_pod
from tonnage.diagnose.render import explanation_lines
from tonnage.model.cluster import Pod, Snapshot
from tonnage.model.symptoms import Symptom
from tonnage.model.verdict import Code, Explanation, Layer, Verdict

Body = dict[str, Any]
A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
GPU, SHARED = "nvidia.com/gpu", "nvidia.com/gpu.shared"
PRODUCT = "nvidia.com/gpu.product"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}

MERGED_BY = {"containers": "name", "initContainers": "name", "topologySpreadConstraints": "topologyKey"}


def node(name: str, product: str = "", *, devices: Body | None = None, taints: Any = (), **spec: Any) -> Body:
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", **(devices or {})}
    labels = {"kubernetes.io/hostname": name}
    if product:
        labels |= {"nvidia.com/gpu.present": "true", PRODUCT: product, "nvidia.com/cuda.driver.major": "550"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": dict(amounts), "capacity": dict(amounts)},
    }


def pod(name: str, needs: Body | None = None, *, on: str = "", **spec: Any) -> Body:
    limits = {GPU: "1"} if needs is None else needs
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "main", "image": "cuda", "resources": {"limits": limits}}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def requiring(*products: str) -> Body:
    expression = {"key": PRODUCT, "operator": "In", "values": list(products)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def cluster(*objects: Body) -> Snapshot:
    return snapshot_from_documents([{"kind": "List", "items": list(objects)}], server_version="1.35")


def explained(name: str, *objects: Body, version: str = "") -> Explanation:
    snapshot = cluster(*objects)
    found = find_pod(snapshot, "ml", name)
    assert found is not None
    return explain(found, snapshot, version=version)


def explained_manifest(manifest: Body, *objects: Body) -> Explanation:
    snapshot = cluster(*objects)
    [made] = manifests_from_documents([manifest], classes=snapshot.priority_classes)
    return explain_manifest(made, snapshot)


def patched(manifest: Body, patch: Body) -> Body:
    """A strategic merge patch applied as the API server would, as far as remedies use it."""

    def merge(into: Body, part: Body) -> None:
        for key, value in part.items():
            if value is None:
                into.pop(key, None)
            elif key in MERGED_BY:
                name = MERGED_BY[key]
                for item in value:
                    merge(next(c for c in into[key] if c[name] == item[name]), item)
            elif isinstance(value, dict) and isinstance(into.get(key), dict):
                merge(into[key], value)
            else:
                into[key] = copy.deepcopy(value)

    result = copy.deepcopy(manifest)
    merge(result, patch)
    return result


def places(manifest: Body, *objects: Body) -> str | None:
    [made] = manifests_from_documents([manifest])
    return schedule(made.pod, cluster(*objects)).chosen


def assert_remedy_works(explanation: Explanation, manifest: Body, *objects: Body) -> None:
    remedy = next(r for r in explanation.remedies if r.patch)
    assert places(patched(manifest, remedy.patch), *objects) is not None


def reasons_of(explanation: Explanation, name: str) -> list[str]:
    [found] = [n for n in explanation.nodes if n.node == name]
    return [reason.code for reason in found.reasons]


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
    assert explanation.reasons[0].code is Code.LIMIT_MISSING


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
    assert {r.code for r in explanation.reasons} == {Code.NOT_AN_INTEGER, Code.LIMIT_MISSING}


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
    aside = next(r for r in explanation.reasons if r.code is Code.QUOTA_WITHOUT_EFFECT)
    assert aside.remedy == "write requests.nvidia.com/gpu"
    assert "limits.nvidia.com/gpu=1 is accepted and never enforced" in aside.message
    other = explained_manifest(pod("p", {"cpu": "1"}), room, useless)
    assert Code.QUOTA_WITHOUT_EFFECT not in {r.code for r in other.reasons}


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
    assert reason.code is Code.TAINT
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
    for each in zones:
        each["metadata"]["labels"]["zone"] = each["metadata"]["name"]
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
    for each in zones:
        each["metadata"]["labels"]["zone"] = each["metadata"]["name"]
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


def six_nodes() -> tuple[Body, ...]:
    """SCH-2: one tainted A100 node with room, five H100 nodes of which four are full and one is cordoned."""
    full = [node(f"h100-{i}", H100, devices={GPU: "1"}) for i in range(4)]
    holders = [pod(f"busy-{i}", on=f"h100-{i}") for i in range(4)]
    tainted = node("a100-0", A100, devices={GPU: "8"}, taints=[TAINT])
    return (tainted, node("cpu-0"), *full, *holders)


def test_sch_2_both_causes_are_shown_and_one_fix_alone_is_said_to_fail() -> None:
    """SCH-2: the taint hides the affinity; correcting only the toleration still fails."""
    wanted = pod("train", affinity=requiring(H100))
    explanation = explained("train", *six_nodes(), wanted)
    assert explanation.verdict is Verdict.NOT_NOW
    assert reasons_of(explanation, "a100-0") == [Code.TAINT, Code.NODE_AFFINITY]
    tainted = next(n for n in explanation.nodes if n.node == "a100-0")
    assert [reason.hidden for reason in tainted.reasons] == [False, True]
    assert all(reasons_of(explanation, f"h100-{i}") == [Code.INSUFFICIENT] for i in range(4))

    tolerated = pod("train", affinity=requiring(H100), tolerations=[{"key": GPU, "operator": "Exists"}])
    assert explained("train", *six_nodes(), tolerated).verdict is Verdict.NOT_NOW

    both = explanation.remedies[0]
    assert both.effect == "fits a100-0 (all of it is needed: no part alone is enough)"
    corrected = patched(wanted, both.patch)
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
    wanted = pod("train", affinity=requiring(A100))
    explanation = explained("train", *nodes, wanted)
    assert explanation.verdict is Verdict.NEVER
    reason = explanation.nodes[1].reasons[0]
    assert reason.code is Code.NODE_AFFINITY
    assert A100 in reason.message
    assert H100 in reason.message
    assert explanation.remedies[0].effect == "fits h100-0"
    assert patched(wanted, explanation.remedies[0].patch)["spec"]["affinity"] == requiring(A100, H100)


def test_sch_4_a_node_selector_becomes_an_affinity_that_takes_both() -> None:
    nodes = (node("h100-0", H100, devices={GPU: "8"}),)
    wanted = pod("train", nodeSelector={PRODUCT: A100})
    explanation = explained("train", *nodes, wanted)
    corrected = patched(wanted, explanation.remedies[0].patch)
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
    assert warning.code is Code.PRODUCT_UNDECIDED
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
    assert explanation.reasons[0].code is Code.PREEMPTION


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
    assert explanation.reasons[0].code is Code.RESOURCE_RENAMED
    assert "nvidia.com/gpu.shared on t4-0" in explanation.message
    corrected = patched(pod("p"), explanation.remedies[0].patch)
    assert corrected["spec"]["containers"][0]["resources"]["limits"] == {SHARED: "1"}
    assert places(corrected, *nodes) == "t4-0"


def test_sch_7_a_partitioned_node_is_told_by_its_profiles() -> None:
    """SCH-7: a whole-GPU pod after the node went all-1g.10gb."""
    nodes = (node("a", A100, devices={"nvidia.com/mig-1g.10gb": "7", GPU: "0"}),)
    explanation = explained("p", *nodes, pod("p"))
    assert explanation.reasons[0].code is Code.RESOURCE_RENAMED
    assert "nvidia.com/mig-1g.10gb on a" in explanation.message


def test_a_request_larger_than_any_node_is_shrunk_to_what_is_free() -> None:
    nodes = (node("a", A100, devices={GPU: "8"}),)
    explanation = explained("p", *nodes, pod("p", {GPU: "9"}))
    assert reasons_of(explanation, "a") == [Code.TOO_LARGE]
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
    assert reasons_of(explanation, "a") == [Code.INSUFFICIENT]
    told = [reason.message for reason in explanation.reasons if reason.code is Code.HELD_IDLE]
    assert bool(told) is idle
    if idle:
        assert "on a 1 by web/notebook (3 of 81920 MiB used)" in told[0]
    assert explanation.remedies[0].action.startswith("wait for web/notebook on a")


def test_a_running_pod_is_shown_with_its_devices() -> None:
    holder = {"resource": GPU, "ids": ["GPU-1"], "namespace": "ml", "pod": "p", "container": "main"}
    devices = [{"uuid": "GPU-1", "product": A100, "health": "Healthy", "holders": [holder]}]
    explanation = explained(
        "p", node("a", A100, devices={GPU: "1"}), pod("p", on="a"), status_of("a", devices=devices)
    )
    assert (explanation.verdict, explanation.phase) == (Verdict.FITS, "Running")
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
            Code.SHARED_REQUEST_TOO_LARGE,
        ),
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices",
            Layer.HARDWARE,
            Symptom.NO_HEALTHY_DEVICES,
        ),
        ("OutOfnvidia.com/gpu", "Node didn't have enough resource", Layer.KUBELET, Code.NODE_OUT_OF_RESOURCE),
        ("TopologyAffinityError", "Resources cannot be allocated", Layer.KUBELET, Code.TOPOLOGY_AFFINITY),
    ],
)
def test_kub_3_kub_4_kubelets_refusal_is_told_by_layer(
    reason: str, message: str, layer: Layer, code: Code | Symptom
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
    told = [r.message for r in explanation.reasons if r.code is Code.GPU_CONFIG_REFUSED]
    assert told == ["the agent of a reports: configuration refused, built-in kept: replicas: at least 2"]


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
    assert (gated.verdict, gated.reasons[0].code) == (Verdict.NOT_NOW, Code.GATED)
    claims = explained("p", room, pod("p", resourceClaims=[{"name": "gpu"}]))
    assert (claims.verdict, claims.reasons[0].code) == (Verdict.NOT_NOW, Code.CLAIM_MISSING)
    assert claims.upstream_message == ""
    served = pod("served", on="a", schedulerName="kai-scheduler")
    foreign = explained("p", room, served, pod("p", schedulerName="kai-scheduler"))
    assert (foreign.verdict, foreign.reasons[0].code) == (Verdict.UNKNOWN, Code.OTHER_SCHEDULER)
    assert explained("p", pod("p")).reasons[0].code is Code.NOT_READ


def test_what_cannot_be_read_is_unknown_and_named() -> None:
    broken = node("a", A100, devices={GPU: "eight"})
    explanation = explained("p", broken, pod("p", {"cpu": "1"}))
    assert explanation.verdict is Verdict.UNKNOWN
    assert (
        "status.allocatable[nvidia.com/gpu]: 'eight' is no quantity"
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
    told = explained("p", *objects, event("p"))
    beside = [reason for reason in told.reasons if reason.code is Code.CONDITION_DIFFERS]
    assert len(beside) == 1  # that the condition is nonsense is told, and decides nothing
    assert replace(told, reasons=tuple(r for r in told.reasons if r not in beside)).to_json() == bare


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
    assert (Code.RELEASE_UNVERIFIED in {reason.code for reason in answer.reasons}) == told
