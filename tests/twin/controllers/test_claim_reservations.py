"""Claims whose pods are gone are reserved for nobody, and give back what they had."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.claim_reservations import ClaimReservationsController
from tonnage.wire.kinds import POD, RESOURCE_CLAIM

Cluster = Any
FINALIZER = "resource.kubernetes.io/delete-protection"
SPEC: JsonObject = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
RESULT: JsonObject = {"request": "r", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}
ALLOCATION: JsonObject = {"devices": {"results": [RESULT]}}


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(ClaimReservationsController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def pod(cluster: Cluster, name: str, **spec: Any) -> Any:
    await cluster.apply(POD, name, cluster.template(**spec))
    return await cluster.api.get(POD, name, "default")


async def claim(cluster: Cluster, *pods: Any) -> None:
    body: JsonObject = {"metadata": {"finalizers": [FINALIZER]}, "spec": SPEC}
    await cluster.apply(RESOURCE_CLAIM, "one", body)
    reserved: list[Any] = [
        {"resource": "pods", "name": one.metadata.name, "uid": one.metadata.uid} for one in pods
    ]
    status: JsonObject = {"status": {"allocation": ALLOCATION, "reservedFor": reserved}}
    await cluster.api.patch(RESOURCE_CLAIM, "one", status, namespace="default", subresource="status")
    await cluster.clock.advance(1)


async def read(cluster: Cluster) -> tuple[list[str], bool, tuple[str, ...]]:
    found = await cluster.api.get(RESOURCE_CLAIM, "one", "default")
    names = [one["name"] for one in found.status.get("reservedFor", ())]
    return names, "allocation" in found.status, tuple(found.metadata.finalizers)


async def test_pods_that_end_are_taken_from_a_claim_and_the_last_one_frees_its_devices(
    running: Cluster,
) -> None:
    first, second = await pod(running, "first"), await pod(running, "second")
    await claim(running, first, second)
    assert await read(running) == (["first", "second"], True, (FINALIZER,))
    await running.set_pod(first, ready=False, phase="Succeeded")
    await running.clock.advance(1)
    assert await read(running) == (["second"], True, (FINALIZER,))
    await running.api.delete(POD, "second", namespace="default", grace_period_s=0)
    await running.clock.advance(1)
    assert await read(running) == ([], False, ())


async def test_a_pod_of_the_same_name_is_another_one(running: Cluster) -> None:
    old = await pod(running, "train")
    await running.api.delete(POD, "train", namespace="default", grace_period_s=0)
    await pod(running, "train")
    await claim(running, old)
    assert await read(running) == ([], False, ())


async def test_a_deleted_claim_goes_once_nobody_uses_it(running: Cluster) -> None:
    train = await pod(running, "train")
    await claim(running, train)
    await running.api.delete(RESOURCE_CLAIM, "one", namespace="default")
    await running.clock.advance(1)
    assert await read(running) == (["train"], True, (FINALIZER,))
    await running.set_pod(train, ready=False, phase="Failed")
    await running.clock.advance(1)
    assert await running.all(RESOURCE_CLAIM) == []


async def test_a_claim_that_was_never_reserved_keeps_its_devices(running: Cluster) -> None:
    await claim(running)
    assert await read(running) == ([], True, (FINALIZER,))


@pytest.mark.parametrize(
    ("spec", "made", "reserved"),
    [
        pytest.param({"nodeName": "a", "entry": {"resourceClaimName": "one"}}, "", True, id="on-a-node"),
        pytest.param({"entry": {"resourceClaimName": "one"}}, "", False, id="left-to-the-scheduler"),
        pytest.param({"nodeName": "a", "entry": {"resourceClaimName": "two"}}, "", False, id="another-claim"),
        pytest.param(
            {"nodeName": "a", "entry": {"resourceClaimTemplateName": "t"}}, "one", False, id="not-made-for-it"
        ),
    ],
)
@pytest.mark.parametrize("pod_first", [True, False], ids=["pod-first", "claim-first"])
async def test_pods_that_no_scheduler_placed_may_use_what_claims_have(
    running: Cluster, spec: Any, made: str, *, reserved: bool, pod_first: bool
) -> None:
    spec = dict(spec)
    entry = {"name": "x", **spec.pop("entry")}
    if not pod_first:
        await claim(running)
    await pod(running, "train", resourceClaims=[entry], **spec)
    if made:
        told: JsonObject = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": made}]}
        await running.api.patch(POD, "train", {"status": told}, namespace="default", subresource="status")
    if pod_first:
        await claim(running)
    await running.clock.advance(1)
    assert await read(running) == (["train"] if reserved else [], True, (FINALIZER,))


async def test_a_pod_that_no_scheduler_placed_may_use_the_claim_made_for_it(running: Cluster) -> None:
    await claim(running)
    entry = {"name": "x", "resourceClaimTemplateName": "t"}
    train = await pod(running, "train", nodeName="a", resourceClaims=[entry])
    owner: JsonObject = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": train.metadata.uid}
    owned: JsonObject = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
    await running.api.patch(RESOURCE_CLAIM, "one", owned, namespace="default")
    told: JsonObject = {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "one"}]}
    await running.api.patch(POD, "train", {"status": told}, namespace="default", subresource="status")
    await running.clock.advance(1)
    assert await read(running) == (["train"], True, (FINALIZER,))
