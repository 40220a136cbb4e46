"""What could not be read makes a verdict UNKNOWN where the verdict hangs on it, and only there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tonnage.diagnose.explain.explain import explain, explain_manifest, find_pod
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.reasons.pod.admission import Unreadable
from tonnage.model.reasons.pod.pods import KindNotRead
from tonnage.model.reasons.pod.scheduling import NodeUnschedulable
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.coverage import Coverage, with_coverage
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"


def node(name: str, gpus: str) -> Body:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", GPU: gpus}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts},
    }


def manifest(count: int, **spec: Any) -> Body:
    container = {"name": "c", "resources": {"limits": {GPU: count}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container], **spec},
    }


def asked(count: int, *missing: str, **spec: Any) -> Explanation:
    items: list[Any] = [node("a", "4"), node("b", "4")]
    snapshot: Snapshot = snapshot_from_documents([{"kind": "List", "items": items}], server_version="1.35")
    (made,) = manifests_from_documents([manifest(count, **spec)])
    return explain_manifest(made, replace(snapshot, missing=frozenset(missing)))


BY_NAMESPACE = {
    "affinity": {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {
                    "topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}}
            ]
        }
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("count", "kind", "spec", "verdict", "told"),
    [
        pytest.param(1, "Node", {}, Verdict.UNKNOWN, True, id="nothing is known without nodes"),
        pytest.param(1, "Pod", {}, Verdict.UNKNOWN, True, id="without pods nothing is known to be free"),
        pytest.param(9, "Pod", {}, Verdict.NEVER, False, id="what no empty node has, no pod decides"),
        pytest.param(1, "ResourceQuota", {}, Verdict.UNKNOWN, True, id="a quota may refuse it"),
        pytest.param(9, "ResourceQuota", {}, Verdict.NEVER, False, id="no quota makes it fit"),
        pytest.param(1, "Namespace", {}, Verdict.FITS, False, id="nobody asks for labels of namespaces"),
        pytest.param(1, "Namespace", BY_NAMESPACE, Verdict.UNKNOWN, True, id="a term asks for them"),
        pytest.param(1, "NodeGPUStatus", {}, Verdict.FITS, False, id="one is given out by every plugin"),
        pytest.param(2, "NodeGPUStatus", {}, Verdict.UNKNOWN, True, id="two may be refused by a plugin"),
        pytest.param(1, "ReplicaSet", {}, Verdict.FITS, True, id="which of the nodes is not certain"),
        pytest.param(1, "LimitRange", {}, Verdict.UNKNOWN, True, id="a limit range may refuse it"),
        pytest.param(1, "ServiceAccount", {}, Verdict.FITS, False, id="it names no account"),
        pytest.param(
            1, "ServiceAccount", {"serviceAccountName": "a"}, Verdict.UNKNOWN, True, id="an account"
        ),
        pytest.param(1, "RuntimeClass", {}, Verdict.FITS, False, id="it names no runtime class"),
        pytest.param(1, "RuntimeClass", {"runtimeClassName": "a"}, Verdict.UNKNOWN, True, id="a class"),
        pytest.param(1, "ValidatingWebhookConfiguration", {}, Verdict.FITS, True, id="a webhook may"),
        pytest.param(1, "Deployment", {}, Verdict.FITS, False, id="a kind that bears on nothing"),
    ],
)  # fmt: skip
def test_a_kind_that_was_not_read_counts_where_it_matters(
    count: int, kind: str, spec: Body, verdict: Verdict, told: bool
) -> None:
    given = Verdict.UNKNOWN if "runtimeClassName" in spec else Verdict.FITS  # none was given: as if not read
    assert asked(count, **spec).verdict in (given, Verdict.NEVER)
    answer = asked(count, kind, **spec)
    assert answer.verdict is verdict
    reasons = [reason for reason in answer.reasons if reason.code == KindNotRead.code]
    assert [reason.facts["kind"] for reason in reasons] == ([kind] if told else [])
    if verdict is Verdict.UNKNOWN:
        assert kind in answer.message
        assert Verdict.FITS not in {node.verdict for node in answer.nodes}, "no node is promised"
        assert Verdict.FITS not in {one.first.verdict for one in answer.classes}
        assert '"FITS"' not in json.dumps(answer.to_json())


@pytest.mark.parametrize(
    "kind", ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"], ids=str
)
def test_claims_are_not_decided_without_what_they_are_met_from(kind: str) -> None:
    answer = asked(1, kind, resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    assert answer.verdict is Verdict.UNKNOWN
    assert (answer.reasons[0].code, answer.reasons[0].facts["kind"]) == (KindNotRead.code, kind)
    assert asked(1, kind).verdict is Verdict.FITS


@pytest.mark.parametrize("beside", [0, 70], ids=["each alone", "by classes"])
@pytest.mark.parametrize("resource", [GPU, "cpu", "pods"])
def test_a_node_that_offers_what_nobody_can_read_is_not_called_too_small(resource: str, beside: int) -> None:
    odd = node("odd", "4")
    odd["status"]["allocatable"][resource] = "lots"
    items: list[Any] = [odd, *(node(f"n{place:02}", "0") for place in range(beside))]
    snapshot = snapshot_from_documents([{"kind": "List", "items": items}], server_version="1.35")
    asking = manifest(1)
    asking["spec"]["containers"][0]["resources"]["limits"]["cpu"] = 1
    (made,) = manifests_from_documents([asking])
    answer = explain_manifest(made, snapshot)
    told = next(node for node in answer.nodes if node.node == "odd")
    assert (answer.verdict, told.verdict, answer.upstream_message) == (Verdict.UNKNOWN, Verdict.UNKNOWN, "")
    assert [reason.code for reason in told.reasons] == [Unreadable.code]
    odd["spec"] = {"unschedulable": True}
    cordoned = snapshot_from_documents([{"kind": "List", "items": [odd]}], server_version="1.35")
    codes = [reason.code for reason in explain_manifest(made, cordoned).nodes[0].reasons]
    assert codes == [NodeUnschedulable.code, Unreadable.code]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [("ServiceAccount", {"serviceAccountName": "a"}), ("PriorityClass", {"priorityClassName": "a"})],
)
def test_a_kind_of_which_no_object_was_given_is_told(kind: str, spec: Body) -> None:
    answer = asked(1, **spec)
    assert answer.verdict is Verdict.FITS
    assert [reason.facts["kind"] for reason in answer.reasons if reason.code == KindNotRead.code] == [kind]


def test_a_claim_that_is_not_in_a_list_without_any_may_exist() -> None:
    volume: Body = {"name": "v", "persistentVolumeClaim": {"claimName": "a"}}
    answer = asked(1, volumes=[volume])
    assert answer.verdict is Verdict.UNKNOWN
    assert "PersistentVolumeClaim" in [
        r.facts.get("kind") for r in answer.reasons if r.code == KindNotRead.code
    ]


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        pytest.param({"storageClassName": "fast"}, "StorageClass", id="a class that may bind it later"),
        pytest.param({"volumeName": "pv"}, "PersistentVolume", id="a volume that it is bound to"),
    ],
)
def test_what_a_claim_refers_to_may_exist(claim: Body, kind: str) -> None:
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    metadata = {"name": "a", "namespace": "default", "annotations": bound}
    given: Body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim, "metadata": metadata}
    volume: Body = {"name": "v", "persistentVolumeClaim": {"claimName": "a"}}
    snapshot = snapshot_from_documents([node("a", "4"), given], server_version="1.35")
    (made,) = manifests_from_documents([manifest(1, volumes=[volume])])
    answer = explain_manifest(made, snapshot)
    assert answer.verdict is Verdict.UNKNOWN
    assert kind in [r.kind for r in answer.reasons if isinstance(r, KindNotRead)]


def test_what_cannot_be_read_of_a_node_is_no_reason_that_is_counted() -> None:
    tainted = node("a", "lots") | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    snapshot = snapshot_from_documents([{"kind": "List", "items": [tainted, node("b", "4")]}])
    (made,) = manifests_from_documents([manifest(5)])
    explanation = explain_manifest(made, snapshot)
    assert explanation.verdict is Verdict.NEVER
    assert explanation.message == (
        f"no node of 2 takes it: 1 too small in {GPU}, 1 with the untolerated taint k:NoSchedule"
    )


def restricted(body: Body, *, condition: str = "", scope: str = "default") -> Explanation:
    """What a user with rights in one namespace learns of a pod in `default`."""
    if condition:
        unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        body = {**body, "status": {"phase": "Pending", "conditions": [{**unscheduled, "message": condition}]}}
    given = snapshot_from_documents([body], server_version="1.35")
    kinds = frozenset({"Node", "Pod", "ResourceQuota"})
    coverage = Coverage(
        read=frozenset({"Pod", "ResourceQuota"}),
        missing=frozenset({"Node"}),
        scopes={"Pod": scope, "ResourceQuota": scope},
        forbidden=kinds,
    )
    snapshot = with_coverage(given, coverage)
    pod = find_pod(snapshot, "default", "p")
    assert pod is not None
    return explain(pod, snapshot)


def test_where_nodes_are_forbidden_the_schedulers_own_words_are_all_that_is_known() -> None:
    words = "0/6 nodes are available: 6 Insufficient nvidia.com/gpu."
    answer = restricted(manifest(1), condition=words)
    assert (answer.verdict, answer.upstream_message) == (Verdict.UNKNOWN, words)
    assert [reason.code for reason in answer.reasons] == [KindNotRead.code], "no count is held against theirs"
    assert answer.message.startswith("Node objects were not read (forbidden)")
    assert [remedy.action for remedy in answer.remedies] == [
        "ask an administrator for the role that tonnage access prints"
    ]
    assert restricted(manifest(1)).upstream_message == "", "no scheduler has said anything yet"


@pytest.mark.parametrize(
    ("scope", "kinds"),
    [
        pytest.param("default", ["Pod"], id="quotas of the pod's own namespace are enough"),
        pytest.param("other", ["Pod", "ResourceQuota"], id="quotas of another say nothing"),
    ],
)
def test_what_was_read_in_one_namespace_counts_there_alone(scope: str, kinds: list[str]) -> None:
    snapshot = snapshot_from_documents([node("a", "4")], server_version="1.35")
    scopes = {"Pod": scope, "ResourceQuota": scope}
    coverage = Coverage(frozenset({"Node", *scopes}), scopes=scopes, forbidden=frozenset(scopes))
    (made,) = manifests_from_documents([manifest(1)])
    answer = explain_manifest(made, with_coverage(snapshot, coverage))
    assert answer.verdict is Verdict.UNKNOWN
    assert [r.kind for r in answer.reasons if isinstance(r, KindNotRead)] == kinds
    assert f"Pod objects outside namespace {scope} were not read (forbidden)" in answer.message


def test_claims_of_an_api_that_the_server_has_at_an_older_version_are_not_called_absent() -> None:
    given = snapshot_from_documents([node("a", "4")], server_version="1.33")
    snapshot = replace(given, unserved=frozenset({"ResourceClaim"}))
    claim = {"name": "gpu", "resourceClaimName": "mine"}
    (made,) = manifests_from_documents([manifest(1, resourceClaims=[claim])])
    answer = explain_manifest(made, snapshot)
    assert answer.verdict is Verdict.UNKNOWN
    assert "the API server has no ResourceClaim at version resource.k8s.io/v1" in answer.message
