"""ADM-9, ADM-10: what quotas count, which they enforce, and the server's words."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.admission.charges import charged_to_claims, claim_charges, pod_charges
from tonnage.decide.kubernetes.admission.limit_ranges import formats_of
from tonnage.decide.kubernetes.admission.quota import claim_refusals, pod_refusals
from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.decide.kubernetes.admission.scopes import counts_object
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Manifest, Snapshot
from tonnage.model.kubernetes.policies import Quota, QuotaScope
from tonnage.model.kubernetes.resource_claims import DeviceClass, DeviceRequest, Mode, ResourceClaim
from tonnage.model.reasons.pod.quota import QuotaExceeded
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
CLASS = "gpu.nvidia.com"
PER_CLASS = f"{CLASS}.deviceclass.resource.k8s.io/devices"


def manifest(*containers: Body, name: str = "p", **spec: Any) -> Manifest:
    parts: Any = [{"name": f"c{i}", "image": "i", "resources": found} for i, found in enumerate(containers)]
    body: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ml"}}
    [found] = manifests_from_documents([{**body, "spec": {"containers": parts, **spec}}])
    return found


def quota(hard: Body, used: Body | None = None, *, name: str = "q", **spec: Any) -> Body:
    status = {} if used is None else {"status": {"hard": hard, "used": used}}
    meta: Any = {"name": name, "namespace": "ml"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta,
        "spec": {"hard": hard, **spec},
        **status,
    }


def cluster(*objects: Body) -> Snapshot:
    return snapshot_from_documents([{"kind": "List", "items": list(objects)}])


def refused(made: Manifest, *objects: Body) -> tuple[AdmissionRefusal, ...]:
    return pod_refusals(made.pod, cluster(*objects), formats_of(made))


def said(made: Manifest, *objects: Body) -> list[str]:
    return [refusal.text for refusal in refused(made, *objects)]


@pytest.mark.parametrize(
    ("key", "counted"),
    [
        pytest.param(f"requests.{GPU}", True, id="requests of a device"),
        pytest.param(f"limits.{GPU}", False, id="limits of a device are never enforced"),
        pytest.param(GPU, False, id="nor is a device's bare name"),
        pytest.param("requests.nvidia.com/mig-1g.10gb", False, id="another resource's key"),
        pytest.param("count/pods", True, id="objects"),
        pytest.param("pods", True, id="living pods"),
        pytest.param("requests.storage", False, id="storage is for volume claims"),
        pytest.param("count/resourceclaims.resource.k8s.io", False, id="claims are not pods"),
    ],
)
def test_adm_9_a_key_refuses_a_pod_or_does_not(key: str, counted: bool) -> None:
    """ADM-9."""
    made = manifest({"limits": {GPU: "1"}})
    assert bool(said(made, quota({key: "0"}, {key: "0"}))) == counted


def test_the_whole_pod_is_charged() -> None:
    """Init containers one by one, sidecars beside all, overhead and pod-level amounts as the server does."""
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    init = {"name": "i", "image": "i", "resources": {"limits": {GPU: "4", "cpu": "2"}}}
    made = manifest(
        {"limits": {GPU: "1", "memory": "1Gi"}},
        {"limits": {GPU: "1"}},
        initContainers=[sidecar, init],
        overhead={"memory": "1Gi", "cpu": "500m"},
        runtimeClassName="kata",
    )
    charges = pod_charges(made.pod)
    assert charges[f"requests.{GPU}"] == 4
    assert charges["requests.cpu"] == Fraction(7, 2)
    assert charges["limits.cpu"] == Fraction(5, 2)
    assert charges["limits.memory"] == charges["memory"] == 2 << 30
    assert pod_charges(replace(made.pod, pod_requests={"memory": 1 << 20}))["memory"] == (1 << 30) + (1 << 20)


def test_the_words_are_those_of_the_server_in_the_pods_own_spelling() -> None:
    made = manifest({"limits": {"memory": "1Gi", "cpu": "0.5"}}, {"limits": {"memory": "1024Mi", "cpu": "1"}})
    hard = {"limits.cpu": "1", "requests.memory": "1Gi", "pods": "9"}
    full = quota(hard, {"limits.cpu": "500m", "requests.memory": "512Mi", "pods": "1"})
    assert said(made, full) == [
        (
            "exceeded quota: q, requested: limits.cpu=1500m,requests.memory=2Gi, "
            "used: limits.cpu=500m,requests.memory=512Mi, limited: limits.cpu=1,requests.memory=1Gi"
        )
    ]


def test_what_must_be_declared_comes_before_what_is_exceeded() -> None:
    made = manifest({"limits": {GPU: "1"}}, {"limits": {"cpu": "1"}})
    objects = (
        quota({"pods": "0"}, {"pods": "0"}, name="a"),
        quota({"limits.cpu": "9", "memory": "9"}, {"limits.cpu": "0", "memory": "0"}, name="b"),
    )
    assert said(made, *objects) == [
        "failed quota: b: must specify limits.cpu for: c0; memory for: c0,c1",
        "exceeded quota: a, requested: pods=1, used: pods=0, limited: pods=0",
    ]
    whole = replace(made, pod=replace(made.pod, pod_limits={"cpu": 1}))
    assert [text.startswith("exceeded quota: a,") for text in said(whole, *objects)] == [True]


def test_a_quota_that_nobody_counted_refuses_and_one_without_status_is_counted_here() -> None:
    made = manifest({"limits": {GPU: "2"}})
    key = f"requests.{GPU}"
    assert said(made, quota({key: "8"}, {})) == [f"status unknown for quota: q, resources: {key}"]
    holder = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "holder", "namespace": "ml"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {GPU: "7"}}}]},
    }
    [over] = refused(made, quota({key: "8"}), holder)
    assert isinstance(over.reason, QuotaExceeded)
    assert over.reason.holders == (("holder", "7"),)
    assert over.text == f"exceeded quota: q, requested: {key}=2, used: {key}=7, limited: {key}=8"
    ended = {**holder, "status": {"phase": "Succeeded"}}
    assert said(made, quota({key: "8"}), ended) == []
    assert said(made, quota({"count/pods": "1"}), ended)


_FAR = {"topologyKey": "zone", "labelSelector": {}, "namespaces": ["web"]}
_NEAR = {"topologyKey": "zone", "labelSelector": {}}


def _anti(term: Body) -> Body:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 60}, {}),
        ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 60}),
        ({"scopes": ["BestEffort"]}, {}, {"resources": {"requests": {"cpu": "1"}}}),
        ({"scopes": ["NotBestEffort"]}, {"resources": {"limits": {"memory": "1Gi"}}}, {}),
        ({"scopes": ["CrossNamespacePodAffinity"]}, _anti(_FAR), _anti(_NEAR)),
        ({"scopes": ["PriorityClass"]}, {"priorityClassName": "a"}, {}),
        (("PriorityClass", "In", ["a", "b"]), {"priorityClassName": "b"}, {"priorityClassName": "c"}),
        (("PriorityClass", "NotIn", ["a"]), {}, {"priorityClassName": "a"}),
        (("PriorityClass", "DoesNotExist", []), {}, {"priorityClassName": "a"}),
        (("Terminating", "Exists", []), {"activeDeadlineSeconds": 60}, {}),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_scope_counts_some_pods_and_not_others(scope: Any, inside: Body, outside: Body) -> None:
    if isinstance(scope, tuple):
        name, operator, values = scope
        found = {"scopeName": name, "operator": operator, "values": values}
        scope = {"scopeSelector": {"matchExpressions": [found]}}
    full = quota({"pods": "0"}, {"pods": "0"}, **scope)
    assert said(manifest({}, **inside), full)
    assert said(manifest({}, **outside), full) == []


@pytest.mark.parametrize(
    ("operator", "values", "spec", "status", "is_counted"),
    [
        ("Exists", (), {"volumeAttributesClassName": "gold"}, {}, True),
        ("Exists", (), {"volumeAttributesClassName": ""}, {}, False),
        ("DoesNotExist", (), {}, {}, True),
        ("DoesNotExist", (), {}, {"currentVolumeAttributesClassName": "gold"}, False),
        ("In", ("gold",), {}, {}, False),
        ("In", ("gold",), {"volumeAttributesClassName": "silver"}, {}, False),
        ("In", ("gold",), {}, {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold"}}, True),
        ("NotIn", ("gold",), {}, {}, True),
        ("NotIn", ("gold",), {"volumeAttributesClassName": "gold"}, {}, False),
        (
            "NotIn",
            ("gold",),
            {"volumeAttributesClassName": "gold"},
            {"currentVolumeAttributesClassName": "silver"},
            True,
        ),
    ],
)
def test_a_scope_of_volume_classes_goes_by_any_class_that_a_claim_names(
    operator: str, values: tuple[str, ...], spec: JsonObject, status: JsonObject, is_counted: bool
) -> None:
    scoped = Quota("default", "q", scopes=(QuotaScope("VolumeAttributesClass", operator, values),))
    claim: JsonObject = {"spec": spec, "status": status}
    assert counts_object(scoped, ("", "persistentvolumeclaims"), claim) is is_counted
    assert not counts_object(scoped, ("", "configmaps"), claim)


@pytest.mark.parametrize("name", ["Terminating", "BestEffort", "PriorityClass"])
def test_a_scope_of_pods_counts_no_claim(name: str) -> None:
    scoped = Quota("default", "q", scopes=(QuotaScope(name),))
    assert not counts_object(scoped, ("", "persistentvolumeclaims"), {})


def test_a_scope_of_volume_classes_counts_no_pod() -> None:
    full = quota({"pods": "0"}, {"pods": "0"}, scopes=["VolumeAttributesClass"])
    assert said(manifest({}), full) == []


def _claim(*requests: DeviceRequest, uid: str = "") -> ResourceClaim:
    return ResourceClaim("ml", "c", uid, requests)


def test_a_claim_is_charged_for_its_dearest_alternatives() -> None:
    claim = _claim(
        DeviceRequest("a", CLASS, count=2),
        DeviceRequest("b", CLASS, Mode.ALL),
        DeviceRequest(
            "c", alternatives=(DeviceRequest("x", CLASS, count=1), DeviceRequest("y", CLASS, count=3))
        ),
    )
    charges = claim_charges(claim)
    assert charges == {"count/resourceclaims.resource.k8s.io": 1, PER_CLASS: 2 + 32 + 3}
    assert all(charged_to_claims(key) for key in charges)


@pytest.mark.parametrize(("minor", "counted"), [(35, False), (36, True), (37, True)])
def test_later_servers_charge_a_claim_under_the_resource_its_class_stands_for(
    minor: int, counted: bool
) -> None:
    [found] = cluster(quota({f"requests.{GPU}": "1"}, {f"requests.{GPU}": "0"})).quotas
    snapshot = Snapshot(quotas=(found,), device_classes=(DeviceClass(CLASS, extended_resource=GPU),))
    claim = _claim(DeviceRequest("a", CLASS, count=2))
    assert bool(claim_refusals(claim, snapshot, minor=minor)) == counted


@given(used=st.integers(0, 20), asked=st.integers(1, 20), hard=st.integers(0, 20))
def test_adm_10_a_pod_is_refused_just_when_it_would_be_too_much(used: int, asked: int, hard: int) -> None:
    """ADM-10; and whether waiting can ever help."""
    key = f"requests.{GPU}"
    refusal = refused(manifest({"limits": {GPU: asked}}), quota({key: str(hard)}, {key: str(used)}))
    assert bool(refusal) == (used + asked > hard)
    for over in refusal:
        assert isinstance(over.reason, QuotaExceeded)
        assert over.reason.lasting == (asked > hard)
