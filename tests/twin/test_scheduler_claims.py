"""Pods with claims for devices: silent until the claims are there, then judged as upstream judges them."""

from __future__ import annotations

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.clock import VirtualClock
from tonnage.wire import kinds
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
