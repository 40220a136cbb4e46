"""Pods with claims for devices: silent until the claims are there, then judged as upstream judges them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
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

_BROKE = 'running PreBind plugin "DynamicResources": '
_LACKING = "device class gpu does not exist"
_REQUEST: JsonObject = {"name": "r", "exactly": {"deviceClassName": "gpu"}}


T = TypeVar("T", bound=w.Object)


class SlowApi(Api):
    """Writes take a while, something may happen while a claim is written, and news of claims may be late."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.passes = 0
        self.told = asyncio.Event()
        self.told.set()
        self.meanwhile: dict[str, Callable[[], Awaitable[object]]] = {}

    async def patch(self, kind: Kind[T], name: str, patch: JsonValue, **options: Any) -> T:
        if name in self.meanwhile and isinstance(patch, dict) and "status" in patch:
            await self.meanwhile.pop(name)()
        for _ in range(self.passes):
            await asyncio.sleep(0)
        return await super().patch(kind, name, patch, **options)

    async def watch(self, kind: Kind[T], **options: Any) -> AsyncIterator[WatchEvent[T]]:
        async for change in super().watch(kind, **options):
            if kind == kinds.RESOURCE_CLAIM:
                await self.told.wait()
            yield change

    def refuse(self, claim: str, code: int) -> None:
        async def refuse() -> None:
            raise ApiError(code, "Refused", "not now")

        self.meanwhile[claim] = refuse


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(settle_passes=200)


@pytest.fixture
async def api(clock: VirtualClock) -> SlowApi:
    return SlowApi(clock)


async def _message(api: Api) -> str:
    return "".join(condition.message for condition in (await api.read("p")).status.conditions)


async def test_a_pod_waits_in_silence_for_its_claim_and_is_then_judged(
    api: SlowApi, clock: VirtualClock
) -> None:
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


async def _make(api: Api, claim: str, **metadata: Any) -> None:
    spec: JsonObject = {"devices": {"requests": [_REQUEST]}}
    body: JsonObject = {"metadata": {"name": claim, **metadata}, "spec": spec}
    await api.create(kinds.RESOURCE_CLAIM, body, namespace="default")


async def _wants(api: Api, pod: str, *claims: str, made: bool = True) -> None:
    for claim in () if made else claims:
        await _make(api, claim)
    entries = [{"name": f"x{n}", "resourceClaimName": claim} for n, claim in enumerate(claims)]
    await api.pod(pod, resourceClaims=entries)


async def _offer(api: Api, *nodes: str, devices: int = 1) -> None:
    """Nodes with devices each."""
    await api.create(kinds.DEVICE_CLASS, {"metadata": {"name": "gpu"}, "spec": {}})
    for node in nodes:
        await api.node(node, gpus=8)
        pool: JsonObject = {"name": node, "generation": 1, "resourceSliceCount": 1}
        some: list[JsonValue] = [{"name": f"g{n}"} for n in range(devices)]
        spec: JsonObject = {"driver": "d", "nodeName": node, "pool": pool, "devices": some}
        await api.create(kinds.RESOURCE_SLICE, {"metadata": {"name": node}, "spec": spec})


def _users(claim: ResourceClaim) -> list[str]:
    return [one["name"] for one in claim.status.get("reservedFor", [])]


async def _owners(api: Api) -> dict[str, list[str]]:
    """Who has each device. Whoever is bound may use its claims, and they have devices."""
    owners: dict[str, list[str]] = {}
    claims = {one.metadata.name: one for one in (await api.list(kinds.RESOURCE_CLAIM)).items}
    for name, claim in claims.items():
        for one in claim.status.get("allocation", {}).get("devices", {}).get("results", []):
            owners.setdefault(f"{one['pool']}/{one['device']}", []).append(name)
    for pod, _ in api.bindings:
        for entry in (await api.read(pod)).spec.resource_claims:
            claim = claims[entry["resourceClaimName"]]
            assert pod in _users(claim)
            assert claim.status["allocation"]
    return owners


async def test_a_pods_claim_gets_devices_that_no_other_has(api: SlowApi, clock: VirtualClock) -> None:
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


async def test_pods_share_the_devices_of_a_claim(api: SlowApi, clock: VirtualClock) -> None:
    await _offer(api, "a", "b")
    async with running(api, clock):
        await _wants(api, "p", "shared", made=False)
        await _wants(api, "q", "shared")
        await clock.advance(30)
        assert {node for _, node in api.bindings} == {"a"}
        assert sorted(_users(await _claim(api, "shared"))) == ["p", "q"]


async def test_a_claim_that_nobody_uses_is_freed_where_its_node_is_full(
    api: SlowApi, clock: VirtualClock
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


async def _refusals(api: Api, pod: str) -> str:
    """What the pod was told, as soon as it was told something."""
    for _ in range(1000):
        told = [message for _, name, message, _ in await api.events("FailedScheduling") if name == pod]
        if told:
            return " ".join(told)
        await asyncio.sleep(0)
    return ""


async def test_no_device_is_given_twice_while_claims_are_being_written(
    api: SlowApi, clock: VirtualClock
) -> None:
    await _offer(api, "a")
    api.passes = 20
    async with running(api, clock):
        await _wants(api, "p", "shared", made=False)
        for n in range(6):
            await _wants(api, f"q{n}", "shared")
            await _wants(api, f"o{n}", f"own{n}", made=False)
        assert "resource claim default/shared is in the process of being allocated" in await _refusals(
            api, "q0"
        )
        for _ in range(12):
            await clock.advance(1)
        assert await _owners(api) == {"a/g0": ["shared"]}
        assert sorted(api.bindings) == [("p", "a"), *((f"q{n}", "a") for n in range(6))]


async def test_devices_that_are_not_taken_after_all_go_to_others(api: SlowApi, clock: VirtualClock) -> None:
    await _offer(api, "a")
    api.passes = 20
    api.refuse("mine", 500)
    async with running(api, clock):
        await _wants(api, "p", "mine", made=False)
        await _wants(api, "q", "other", made=False)
        assert "cannot allocate all claims" in await _refusals(api, "q")
        await api.gone("p")
        await clock.advance(12)
        assert api.bindings == [("q", "a")]


async def test_what_was_written_counts_before_the_watch_tells_of_it(
    api: SlowApi, clock: VirtualClock
) -> None:
    await _offer(api, "a", devices=2)
    async with running(api, clock):
        for claim in ("x", "y", "z"):
            await _make(api, claim)
        await clock.settle()
        api.told.clear()
        api.refuse("y", 500)
        await _wants(api, "p", "x", "y")
        await clock.settle()
        await _wants(api, "q", "z")
        await clock.settle()
        assert await _owners(api) == {"a/g0": ["x"], "a/g1": ["z"]}
        assert api.bindings == [("q", "a")]
        api.told.set()
        await clock.advance(12)
        assert "cannot allocate all claims" in await _refusals(api, "p")


async def test_a_claim_that_others_change_meanwhile_is_written_all_the_same(
    api: SlowApi, clock: VirtualClock
) -> None:
    await _offer(api, "a")
    named: JsonObject = {"metadata": {"labels": {"team": "ml"}}}
    api.meanwhile["mine"] = lambda: api.patch(kinds.RESOURCE_CLAIM, "mine", named, namespace="default")
    async with running(api, clock):
        await _wants(api, "p", "mine", made=False)
        await clock.settle()
        assert await _owners(api) == {"a/g0": ["mine"]}
        assert api.bindings == [("p", "a")]


async def test_a_claim_that_is_deleted_meanwhile_gets_nothing(api: SlowApi, clock: VirtualClock) -> None:
    await _offer(api, "a")
    api.meanwhile["mine"] = lambda: api.delete(kinds.RESOURCE_CLAIM, "mine", namespace="default")
    async with running(api, clock):
        await _make(api, "mine", finalizers=["resource.kubernetes.io/delete-protection"])
        await _wants(api, "p", "mine")
        await clock.advance(12)
        assert f"{_BROKE}claim default/mine got deleted in the meantime" in await _refusals(api, "p")
        assert await _owners(api) == {}
        assert api.bindings == []
        await _wants(api, "q", "other", made=False)
        await clock.advance(2)
        assert api.bindings == [("q", "a")]


async def test_a_claim_that_others_give_devices_meanwhile_keeps_those(
    api: SlowApi, clock: VirtualClock
) -> None:
    await _offer(api, "a")
    result: JsonObject = {"request": "r", "driver": "e", "pool": "far", "device": "h"}
    given: JsonObject = {"status": {"allocation": {"devices": {"results": [result]}}}}
    api.meanwhile["mine"] = lambda: api.patch(
        kinds.RESOURCE_CLAIM, "mine", given, namespace="default", subresource="status"
    )
    async with running(api, clock):
        await _wants(api, "p", "mine", made=False)
        await clock.advance(12)
        assert f"{_BROKE}claim default/mine got allocated elsewhere in the meantime" in await _refusals(
            api, "p"
        )
        assert await _owners(api) == {"far/h": ["mine"]}
        assert api.bindings == [("p", "a")]


async def test_a_claim_has_256_users_at_most(api: SlowApi, clock: VirtualClock) -> None:
    await _offer(api, "a")
    async with running(api, clock):
        await _wants(api, "p", "mine", made=False)
        await clock.settle()
        others: list[JsonValue] = [{"resource": "pods", "name": f"{n}", "uid": f"{n}"} for n in range(255)]
        full: JsonObject = {
            "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}, *others]}
        }
        await api.patch(kinds.RESOURCE_CLAIM, "mine", full, namespace="default", subresource="status")
        await _wants(api, "q", "mine")
        await clock.settle()
        why = (
            f"{_BROKE}add reservation to claim default/mine: "
            'ResourceClaim.resource.k8s.io "mine" is invalid: '
            "status.reservedFor: Too many: 257: must have at most 256 items"
        )
        assert await _refusals(api, "q") == why
        [condition] = (await api.read("q")).status.conditions
        assert (condition.reason, condition.message) == ("SchedulerError", why)


async def test_a_selector_that_fails_breaks_the_attempt(api: SlowApi, clock: VirtualClock) -> None:
    await _offer(api, "a")
    selector: JsonObject = {"cel": {"expression": "device.attributes['d'].nope == 'x'"}}
    await api.patch(kinds.DEVICE_CLASS, "gpu", {"spec": {"selectors": [selector]}})
    async with running(api, clock):
        await _wants(api, "p", "mine", made=False)
        await clock.settle()
        [condition] = (await api.read("p")).status.conditions
        assert condition.reason == "SchedulerError"
        assert "CEL runtime error: no such key: nope" in condition.message


async def test_a_pod_that_cannot_be_bound_has_reserved_nothing(api: SlowApi, clock: VirtualClock) -> None:
    await _offer(api, "a")
    api.refuse_binding.append(ApiError(500, "InternalError", "not now"))
    async with running(api, clock):
        await _wants(api, "p", "mine", made=False)
        await clock.settle()
        assert api.bindings == []
        assert _users(await _claim(api, "mine")) == []
        await clock.advance(12)
        assert api.bindings == [("p", "a")]
        assert await _owners(api) == {"a/g0": ["mine"]}


async def test_a_claim_that_cannot_be_freed_is_tried_again_and_the_pod_told(
    api: SlowApi, clock: VirtualClock
) -> None:
    await _offer(api, "a", "b")
    async with running(api, clock):
        await _wants(api, "p", "kept", made=False)
        await clock.advance(2)
        await api.gone("p")
        gone: JsonObject = {"status": {"reservedFor": None}}
        await api.patch(kinds.RESOURCE_CLAIM, "kept", gone, namespace="default", subresource="status")
        await api.patch(kinds.NODE, "a", {"spec": {"unschedulable": True}})
        api.refuse("kept", 409)
        await _wants(api, "q", "kept")
        await clock.settle()
        assert "1 resourceclaim not available on the node" in await _refusals(api, "q")
        await clock.advance(30)
        assert api.bindings == [("p", "a"), ("q", "b")]
