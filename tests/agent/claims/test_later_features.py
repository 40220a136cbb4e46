"""A server that is started again with a feature on or off: nobody tells."""

from __future__ import annotations

from typing import Any

import pytest

from support.claim_kubelet import eventually
from support.claim_node import ALL, ClaimNode, names
from tonnage.adapters.clock import SystemClock
from tonnage.agent.claims import driver
from tonnage.model.kubernetes.feature_gates import PARTITIONS, SHARES, TAINTS, FeatureGates
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import RESOURCE_SLICE

HARDWARE = "devices:\n- {uuid: GPU-0, model: A100-40, mig: []}\n- {uuid: GPU-1, model: T4}\n"
TWO = "devices:\n- {uuid: GPU-0, model: T4}\n- {uuid: GPU-1, model: T4}\n"
SICK = TWO.replace("GPU-1,", "GPU-1, health: unhealthy, reason: smoke,")


def shared(listing: list[Any]) -> bool:
    """Whether every device may be given to several claims."""
    devices = [device for obj in listing for device in obj.spec.get("devices") or ()]
    return bool(devices) and all(device.get("allowMultipleAllocations") for device in devices)


@pytest.fixture
def gates() -> FeatureGates:
    return FeatureGates()


@pytest.fixture
def node(scene: ClaimNode, gates: FeatureGates) -> ClaimNode:
    return ClaimNode(scene.root, api=ApiServer(SystemClock(), gates=gates).local())


def turn_on(gates: FeatureGates, gate: str) -> None:
    object.__setattr__(gates, "chosen", ((gate, True),))


@pytest.mark.parametrize("again", [False, True], ids=["the-same-agent", "the-next-agent"])
async def test_shares_are_published_once_the_server_keeps_them(
    node: ClaimNode, gates: FeatureGates, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it dropped before stands as it was published, and yet must be written anew."""
    monkeypatch.setattr(driver, "_ASK_EVERY_S", 300.0 if again else 0.05)
    await node.begin("version: v1\nclaims: {devices: all, consumableShares: memory}\n")

    async def is_dropped() -> bool:
        return any(event.reason == "ClaimsWithoutShares" for event in await node.events())

    async with node.agent():
        await node.kubelet.register()
        await eventually(is_dropped)
        if not again:
            turn_on(gates, SHARES)
            await node.slices(shared)
    if again:
        turn_on(gates, SHARES)
        async with node.agent():
            await node.kubelet.register()
            [obj] = await node.slices(shared)
            assert obj.spec["pool"]["generation"] == 2


async def test_mig_devices_that_do_not_exist_are_published_once_the_server_keeps_counters(
    node: ClaimNode, gates: FeatureGates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_ASK_EVERY_S", 0.05)
    await node.begin("version: v1\nclaims: {devices: all, dynamicMig: true}\n", HARDWARE)

    async def is_dropped() -> bool:
        return any(event.reason == "ClaimsWithoutPartitions" for event in await node.events())

    async with node.agent():
        await node.kubelet.register()
        await eventually(is_dropped)
        await node.slices(lambda listing: names(listing) == ["gpu-1"])
        turn_on(gates, PARTITIONS)
        await node.slices(lambda listing: len(names(listing)) == 26)


@pytest.mark.parametrize(
    ("gate", "config", "hardware", "left"),
    [
        (SHARES, "version: v1\nclaims: {devices: all, consumableShares: memory}\n", TWO, "gpu-0 gpu-1"),
        (TAINTS, ALL, SICK, "gpu-0"),
    ],
    ids=["shares", "taints"],
)
async def test_what_a_server_keeps_no_more_is_published_without_it_and_not_for_ever_anew(
    node: ClaimNode, gates: FeatureGates, gate: str, config: str, hardware: str, left: str
) -> None:
    turn_on(gates, gate)
    await node.begin(config, hardware)

    def plain(listing: list[Any]) -> bool:
        """Whether just what is left is published, without what is behind the gate."""
        devices = [device for obj in listing for device in obj.spec.get("devices") or ()]
        fields = {"taints", "allowMultipleAllocations"}
        return names(listing) == left.split() and all(fields.isdisjoint(device) for device in devices)

    async with node.agent():
        await node.kubelet.register()
        published = await node.slices(lambda listing: names(listing) == ["gpu-0", "gpu-1"])
        object.__setattr__(gates, "chosen", ())
        for obj in published:
            await node.api.delete(RESOURCE_SLICE, obj.metadata.name)
        for obj in await node.slices(plain):
            assert obj.spec["pool"]["generation"] <= 2
    assert "ClaimsNotPublished" not in {event.reason for event in await node.events()}
