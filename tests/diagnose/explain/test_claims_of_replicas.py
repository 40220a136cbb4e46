"""Claims from templates: every replica has its own, or they share a device, as far as quotas let them."""

from __future__ import annotations

import json

import pytest

from support.claim_objects import (
    ANY,
    Body,
    device,
    dynamic,
    node,
    replicas_with_claims,
    resource_slice,
)
from tonnage.diagnose.explain.replicas.answers import explain_together
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.claims import ClaimNotAllocatable
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import (
    snapshot_from_documents,
)
from tonnage.reading.manifests import added_manifests


def test_every_replica_has_a_claim_of_its_own() -> None:
    cluster = snapshot_from_documents([node("a"), resource_slice("a", device("x"), device("y"))])
    manifests, snapshot = added_manifests(replicas_with_claims(3, 1), cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert answer.message.startswith("2 of 3 pods fit; the third waits: ")
    assert answer.verdict is Verdict.NEVER


@pytest.mark.parametrize(("memory", "fit"), [("30Gi", 2), ("20Gi", 4), (None, 1)])
def test_replicas_share_a_gpu_as_far_as_its_memory_goes(memory: str | None, fit: int) -> None:
    """Without an amount a claim has all of it."""
    policy = {"default": "80Gi", "validRange": {"min": "1Mi", "step": "1Mi"}}
    parts = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
    }
    [template, _, web] = replicas_with_claims(6, 1)
    exactly = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    exactly |= {"capacity": {"requests": {"memory": memory}}} if memory else {}
    cluster = snapshot_from_documents(
        [node("a"), resource_slice("a", {**device("x"), **parts})], server_version="1.36"
    )
    manifests, snapshot = added_manifests([template, ANY, web], cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert answer.counts is not None
    assert (answer.counts.fit, answer.nodes[0].reasons[0].code) == (fit, ClaimNotAllocatable.code)
    assert "too little memory left of x beside claim ml/" in answer.nodes[0].reasons[0].message


@pytest.mark.parametrize(
    ("hard", "fit"),
    [
        pytest.param({"count/resourceclaims.resource.k8s.io": "2"}, 2, id="claims"),
        pytest.param({"gpu.deviceclass.resource.k8s.io/devices": "5"}, 2, id="devices of a class"),
        pytest.param({"gpu.deviceclass.resource.k8s.io/devices": "6"}, 3, id="just enough devices"),
        pytest.param({"other.deviceclass.resource.k8s.io/devices": "0"}, 3, id="another class"),
    ],
)
@pytest.mark.parametrize("used", [None, "0"], ids=["not counted yet", "counted"])
def test_a_quota_counts_the_claims_of_every_replica(hard: Body, fit: int, used: str | None) -> None:
    counted = {} if used is None else {"status": {"hard": hard, "used": dict.fromkeys(hard, used)}}
    quota: Body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "claims", "namespace": "ml"},
        "spec": {"hard": hard},
        **counted,
    }
    devices = (device(f"x{index}") for index in range(6))
    cluster = snapshot_from_documents([node("a"), resource_slice("a", *devices), quota])
    manifests, snapshot = added_manifests(replicas_with_claims(3, 2), cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert answer.counts is not None
    assert answer.counts.fit == fit
    if fit < 3:
        assert (answer.layer, answer.reasons[0].code) == (Layer.QUOTA, "quota-exceeded-by-claim")
        assert answer.message.startswith("2 of 3 pods fit; the third waits: its claim g cannot be made: ")
        raised, fewer = answer.remedies
        assert fewer.action == "ask for 2 replicas, not 3"
        key, least = next(iter(hard)), "3" if "count/" in next(iter(hard)) else "6"
        patch = json.dumps({"spec": {"hard": {key: least}}})
        assert raised.action == f"raise it: kubectl patch resourcequota claims -n ml -p '{patch}'"
        assert raised.effect.startswith("the claim g is made; fits a")


def test_claims_that_hold_what_a_quota_allows_are_named_with_what_their_end_brings() -> None:
    key = "gpu.deviceclass.resource.k8s.io/devices"
    quota: Body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "claims", "namespace": "ml"},
        "spec": {"hard": {key: "2"}},
        "status": {"hard": {key: "2"}, "used": {key: "2"}},
    }
    two = {"deviceClassName": "gpu", "count": 2}
    held = dynamic("ResourceClaim", "held", {"devices": {"requests": [{"name": "g", "exactly": two}]}})
    held["metadata"]["uid"] = "u"
    devices = resource_slice("a", *(device(f"x{index}") for index in range(6)))
    cluster = snapshot_from_documents([node("a"), devices, quota, held, ANY])
    manifests, snapshot = added_manifests(replicas_with_claims(1, 2), cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert [remedy.action for remedy in answer.remedies] == [
        "delete the claim held once no pod uses it",
        f'raise it: kubectl patch resourcequota claims -n ml -p \'{{"spec": {{"hard": {{"{key}": "4"}}}}}}\'',
    ]
    assert all("the claim g is made; fits a" in remedy.effect for remedy in answer.remedies)
