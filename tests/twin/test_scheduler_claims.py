"""Pods with claims for devices: silent until the claims are there, then judged as upstream judges them."""

from __future__ import annotations

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.clock import VirtualClock
from tonnage.wire import kinds
from tonnage.wire.claims import ResourceClaim
from twin.test_scheduler import Api, running

_LACKING = "device class gpu does not exist"
_REQUEST: JsonObject = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(settle_passes=200)


@pytest.fixture
async def api(clock: VirtualClock) -> Api:
    return Api(clock)


async def _message(api: Api) -> str:
    return "".join(condition.message for condition in (await api.read("p")).status.conditions)


async def test_a_pod_waits_in_silence_for_its_claim_and_is_then_judged(api: Api, clock: VirtualClock) -> None:
    await api.pod("p", resourceClaims=[{"name": "x", "resourceClaimName": "mine"}])
    async with running(api, clock):
        assert await _message(api) == ""
        assert await api.events("FailedScheduling") == []
        spec: JsonObject = {"devices": {"requests": [_REQUEST]}}
        await api.create(
            kinds.RESOURCE_CLAIM, {"metadata": {"name": "mine"}, "spec": spec}, namespace="default"
        )
        await clock.advance(2)
        assert await _message(api) == "no nodes available to schedule pods"
        await api.node("a")
        await clock.advance(12)
        assert _LACKING in await _message(api)
        await api.create(kinds.DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {}})
        await clock.advance(12)
        assert "cannot allocate all claims" in await _message(api)
        assert api.bindings == []


async def _claim(api: Api, name: str) -> ResourceClaim:
    return await api.get(kinds.RESOURCE_CLAIM, name, "default")


async def _wants(api: Api, pod: str, claim: str, *, made: bool = True) -> None:
    if not made:
        body: JsonObject = {"metadata": {"name": claim}, "spec": {"devices": {"requests": [_REQUEST]}}}
        await api.create(kinds.RESOURCE_CLAIM, body, namespace="default")
    await api.pod(pod, resourceClaims=[{"name": "x", "resourceClaimName": claim}])


async def _offer(api: Api, *nodes: str) -> None:
    """Nodes with a device each."""
    await api.create(kinds.DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {}})
    for node in nodes:
        await api.node(node, gpus=8)
        pool: JsonObject = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec: JsonObject = {"driver": "d", "nodeName": node, "pool": pool, "devices": [{"name": "g0"}]}
        await api.create(kinds.RESOURCE_SLICE, {"metadata": {"name": node}, "spec": spec})


def _users(claim: ResourceClaim) -> list[str]:
    return [one["name"] for one in claim.status.get("reservedFor", [])]


async def test_a_pods_claim_gets_devices_that_no_other_has(api: Api, clock: VirtualClock) -> None:
    await _offer(api, "a", "b")
    async with running(api, clock):
        for pod in ("p", "q", "r"):
            await _wants(api, pod, f"of-{pod}", made=False)
        await clock.advance(12)
        assert sorted(api.bindings) == [("p", "a"), ("q", "b")]
        claim = await _claim(api, "of-p")
        assert claim.metadata.finalizers == ["resource.kubernetes.io/delete-protection"]
        assert claim.status["allocation"] == {
            "devices": {"results": [{"request": "r", "driver": "d", "pool": "a", "device": "g0"}]},
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
                ]
            },
        }
        assert _users(claim) == ["p"]
        refused = (await api.read("r")).status.conditions[0].message
        assert "2 cannot allocate all claims" in refused
        freed: JsonObject = {"status": {"allocation": None, "reservedFor": None}}
        await api.patch(kinds.RESOURCE_CLAIM, "of-q", freed, namespace="default", subresource="status")
        await clock.advance(12)
        assert api.bindings[-1] == ("r", "b")


async def test_pods_share_the_devices_of_a_claim(api: Api, clock: VirtualClock) -> None:
    await _offer(api, "a", "b")
    async with running(api, clock):
        await _wants(api, "p", "shared", made=False)
        await _wants(api, "q", "shared")
        await clock.advance(30)
        assert {node for _, node in api.bindings} == {"a"}
        assert sorted(_users(await _claim(api, "shared"))) == ["p", "q"]


async def test_a_claim_that_nobody_uses_is_freed_where_its_node_is_full(
    api: Api, clock: VirtualClock
) -> None:
    await _offer(api, "a", "b")
    async with running(api, clock):
        await _wants(api, "p", "kept", made=False)
        await clock.advance(2)
        await api.gone("p")
        gone: JsonObject = {"status": {"reservedFor": None}}
        await api.patch(kinds.RESOURCE_CLAIM, "kept", gone, namespace="default", subresource="status")
        await api.patch(kinds.NODE, "a", {"spec": {"unschedulable": True}})
        await _wants(api, "q", "kept")
        await clock.advance(30)
        assert api.bindings == [("p", "a"), ("q", "b")]
