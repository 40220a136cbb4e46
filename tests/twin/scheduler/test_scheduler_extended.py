"""Extended resources that a class stands for: the scheduler makes the claim, as a genuine one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import pytest

from support.scheduled_pods import Api, running
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.ports.kubernetes import WatchEvent
from tonnage.twin.clock import VirtualClock
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.kinds import Kind

_GPU = "nvidia.com/gpu"
_GATES = (("DRAExtendedResource", True),)
T = TypeVar("T", bound=w.Object)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(settle_passes=200)


@pytest.fixture
async def api(clock: VirtualClock) -> Api:
    """A node whose four GPUs are claims."""
    api = Api(clock, gates=_GATES)
    await _offer(api)
    return api


async def _offer(api: Api) -> None:
    await api.node("node", gpus=0)
    await api.create(
        kinds.DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": _GPU}}
    )
    pool: JsonObject = {"name": "node", "generation": 1, "resourceSliceCount": 1}
    devices: list[Any] = [{"name": f"gpu-{index}"} for index in range(4)]
    spec: JsonObject = {"driver": "d", "nodeName": "node", "pool": pool, "devices": devices}
    await api.create(kinds.RESOURCE_SLICE, {"metadata": {"name": "node"}, "spec": spec})


class _SlowApi(Api):
    """Writes take a while, and news of claims come late."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock, gates=_GATES)
        self.told = asyncio.Event()

    async def patch(self, kind: Kind[T], name: str, patch: JsonValue, **options: Any) -> T:
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().patch(kind, name, patch, **options)

    async def watch(self, kind: Kind[T], **options: Any) -> AsyncIterator[WatchEvent[T]]:
        async for change in super().watch(kind, **options):
            if kind == kinds.RESOURCE_CLAIM:
                await self.told.wait()
            yield change


async def _pod(api: Api, name: str, *counts: int, resource: str = _GPU) -> None:
    containers: list[JsonValue] = [
        {"name": f"c{place}", "image": "i", "resources": {"limits": {resource: str(count)}}}
        for place, count in enumerate(counts)
    ]
    body: JsonObject = {"metadata": {"name": name}, "spec": {"containers": containers}}
    await api.create(kinds.POD, body, namespace="default")


async def _claims(api: Api) -> list[ResourceClaim]:
    return list((await api.list(kinds.RESOURCE_CLAIM, namespace="default")).items)


def _devices(claim: ResourceClaim) -> list[tuple[str, str]]:
    results = claim.status.get("allocation", {}).get("devices", {}).get("results", ())
    return [(entry["request"], entry["device"]) for entry in results]


async def test_the_claim_is_what_a_genuine_scheduler_makes(api: Api, clock: VirtualClock) -> None:
    async with running(api, clock):
        await _pod(api, "a", 2, 1)
        await clock.settle()
    pod, [claim] = await api.read("a"), await _claims(api)
    head = claim.metadata
    assert head.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert head.finalizers == ["resource.kubernetes.io/delete-protection"]
    assert head.name.startswith("a-extended-resources-")
    [owner] = head.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Pod", "a", pod.metadata.uid, True)
    first, second = "container-0-request-0", "container-1-request-0"
    assert claim.spec == {
        "devices": {
            "requests": [
                {
                    "name": name,
                    "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count},
                }
                for name, count in ((first, 2), (second, 1))
            ]
        }
    }
    assert _devices(claim) == [(first, "gpu-0"), (first, "gpu-1"), (second, "gpu-2")]
    assert claim.status["reservedFor"] == [{"resource": "pods", "name": "a", "uid": pod.metadata.uid}]
    assert pod.status.extended_resource_claim_status == {
        "resourceClaimName": head.name,
        "requestMappings": [
            {"containerName": "c0", "resourceName": _GPU, "requestName": first},
            {"containerName": "c1", "resourceName": _GPU, "requestName": second},
        ],
    }
    assert api.bindings == [("a", "node")]


async def test_every_class_has_a_resource_by_its_own_name(api: Api, clock: VirtualClock) -> None:
    resource = "deviceclass.resource.kubernetes.io/gpu"
    async with running(api, clock):
        await _pod(api, "b", 1, resource=resource)
        await clock.settle()
    [mapped] = (await api.read("b")).status.extended_resource_claim_status["requestMappings"]
    assert mapped["resourceName"] == resource
    assert [len(_devices(claim)) for claim in await _claims(api)] == [1]


async def test_no_device_is_given_twice_and_who_waits_gets_what_is_freed(
    api: Api, clock: VirtualClock
) -> None:
    async with running(api, clock):
        await _pod(api, "a", 3)
        await _pod(api, "b", 1)
        await _pod(api, "c", 3)
        await clock.settle()
        claims = await _claims(api)
        taken = sorted(device for claim in claims for _, device in _devices(claim))
        assert taken == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
        [condition] = (await api.read("c")).status.conditions
        assert condition.message == (
            "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        freed = next(claim for claim in claims if claim.metadata.name.startswith("a-"))
        nothing: JsonObject = {"status": {"allocation": None, "reservedFor": None}}
        await api.patch(
            kinds.RESOURCE_CLAIM, freed.metadata.name, nothing, namespace="default", subresource="status"
        )
        await clock.advance(12)
    assert ("c", "node") in api.bindings


async def test_no_device_is_given_twice_while_news_of_claims_are_late(clock: VirtualClock) -> None:
    api = _SlowApi(clock)
    await _offer(api)
    async with running(api, clock):
        for name in "abcdef":
            await _pod(api, name, 1)
        await clock.advance(12)
        taken = [device for claim in await _claims(api) for _, device in _devices(claim)]
        assert sorted(taken) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
        api.told.set()
        await clock.advance(12)
    assert len(await _claims(api)) == len(api.bindings) == 4


async def test_where_the_node_offers_the_resource_itself_no_claim_is_made(
    api: Api, clock: VirtualClock
) -> None:
    await api.node("plugin", gpus=8)
    async with running(api, clock):
        await _pod(api, "a", 5)
        await clock.settle()
    assert api.bindings == [("a", "plugin")]
    assert await _claims(api) == []


async def test_a_claim_whose_pod_was_not_bound_goes_and_its_devices_are_free(
    api: Api, clock: VirtualClock
) -> None:
    api.refuse_binding.append(ApiError(500, "InternalError", "not now"))
    async with running(api, clock):
        await _pod(api, "a", 4)
        await clock.settle()
        [claim] = await _claims(api)
        assert claim.metadata.deletion_timestamp is not None
        assert not claim.status.get("reservedFor")
        finalizers: JsonObject = {"metadata": {"finalizers": None}}
        nothing: JsonObject = {"status": {"allocation": None}}
        name = claim.metadata.name
        await api.patch(kinds.RESOURCE_CLAIM, name, nothing, namespace="default", subresource="status")
        await api.patch(kinds.RESOURCE_CLAIM, name, finalizers, namespace="default")
        await clock.advance(30)
        assert api.bindings == [("a", "node")]
        assert len(await _claims(api)) == 1


async def test_a_claim_that_cannot_be_made_keeps_nothing(api: Api, clock: VirtualClock) -> None:
    quota: JsonObject = {
        "metadata": {"name": "none"},
        "spec": {"hard": {"count/resourceclaims.resource.k8s.io": "0"}},
        "status": {"hard": {"count/resourceclaims.resource.k8s.io": "0"}},
    }
    await api.create(kinds.RESOURCE_QUOTA, quota, namespace="default")
    async with running(api, clock):
        await _pod(api, "a", 4)
        await clock.settle()
        [condition] = (await api.read("a")).status.conditions
        begin = (
            'running PreBind plugin "DynamicResources": create claim for extended resources default/<extended'
        )
        assert condition.message.startswith(begin)
        await api.delete(kinds.RESOURCE_QUOTA, "none", namespace="default")
        await clock.advance(30)
    assert api.bindings == [("a", "node")]


async def test_a_pod_that_waited_goes_when_a_class_comes_to_stand_for_what_it_asks(
    api: Api, clock: VirtualClock
) -> None:
    await api.patch(kinds.DEVICE_CLASS, "gpu", {"spec": {"extendedResourceName": None}})
    async with running(api, clock):
        await _pod(api, "a", 1)
        await clock.settle()
        [condition] = (await api.read("a")).status.conditions
        assert "1 Insufficient nvidia.com/gpu" in condition.message
        await api.patch(kinds.DEVICE_CLASS, "gpu", {"spec": {"extendedResourceName": _GPU}})
        await clock.advance(12)
    assert api.bindings == [("a", "node")]


async def test_without_the_gate_the_class_stands_for_nothing(clock: VirtualClock) -> None:
    api = Api(clock)
    named: JsonObject = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": _GPU}}
    created = await api.create(kinds.DEVICE_CLASS, named)
    assert created.spec == {}
