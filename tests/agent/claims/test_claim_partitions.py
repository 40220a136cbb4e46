"""MIG devices that the agent makes for claims, and removes with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.api_stores import new_store
from support.claim_kubelet import eventually
from support.claim_node import NODE, ClaimNode, names
from support.told_slices import ToldSlices
from tonnage.adapters.clock import SystemClock
from tonnage.model.kubernetes.feature_gates import PARTITIONS, TAINTS, FeatureGates
from tonnage.model.mig.layouts import DividedGpu
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.wire import kinds

PARTITIONED = "version: v1\nclaims: {devices: all, dynamicMig: true}\n"
HARDWARE = "devices:\n- {uuid: GPU-0, model: A100-40, mig: []}\n- {uuid: GPU-1, model: T4}\n"


async def test_a_mig_device_is_made_for_a_claim_at_its_place_and_removed_with_it(gated: ClaimNode) -> None:
    await gated.begin(PARTITIONED)
    (gated.root / "hardware.yaml").write_text("devices:\n- {uuid: GPU-0, model: A100-40, mig: []}\n")
    backend = ScenarioBackend(gated.root / "hardware.yaml", SystemClock())

    async def instances() -> list[tuple[str, int]]:
        [gpu] = await backend.divided()
        return [(each.profile, each.start) for each in gpu.instances]

    async with gated.agent():
        await gated.kubelet.register()
        counters, devices = await gated.slices(lambda listing: len(listing) == 2)
        [counter_set] = counters.spec["sharedCounters"]
        assert counter_set["name"] == "gpu-0-counter-set"
        assert counter_set["counters"]["memory"] == {"value": "40Gi"}
        assert len(devices.spec["devices"]) == 25, "every place of every profile, and not the GPU"
        [half] = [each for each in devices.spec["devices"] if each["name"] == "gpu-0-mig-3g20gb-9-4"]
        assert "uuid" not in half["attributes"]
        used = half["consumesCounters"][0]["counters"]
        slices = [f"memory-slice-{n}" for n in (4, 5, 6, 7)]
        engines = ["copy-engines", "decoders", "encoders", "jpeg-engines", "multiprocessors", "ofa-engines"]
        assert sorted(used) == sorted(["memory", *slices, *engines])
        assert (used["multiprocessors"], used["copy-engines"]) == ({"value": "42"}, {"value": "3"})
        before = devices.spec

        claim = await gated.claim("part", "gpu-0-mig-3g20gb-9-4", "gpu-0-mig-1g5gb-19-0")
        answer = (await gated.kubelet.prepare(claim))[claim.uid]
        assert not answer.error
        assert await instances() == [("3g.20gb", 4), ("1g.5gb", 0)]
        assert [each["name"] for each in gated.spec(claim)["devices"]] == [
            f"{claim.uid}-gpu-0-mig-{name}" for name in ("3g20gb-9-4", "1g5gb-19-0")
        ]
        assert (await gated.kubelet.prepare(claim))[claim.uid] == answer
        other = await gated.claim("other", "gpu-0-mig-2g10gb-14-4")
        assert "is held as claim ml/part" in (await gated.kubelet.prepare(other))[other.uid].error
        [_, devices] = await gated.slices(lambda listing: len(listing) == 2)
        assert devices.spec == before, "the scheduler's counters say what is taken"
    await gated.api.delete(kinds.RESOURCE_CLAIM, "part", namespace="ml")
    async with gated.agent():
        await gated.kubelet.register()
        assert (await gated.kubelet.prepare(claim))[claim.uid] == answer
        assert await gated.kubelet.unprepare(claim) == {claim.uid: ""}
        assert await instances() == []
        assert not (await gated.kubelet.prepare(other))[other.uid].error
        assert await instances() == [("2g.10gb", 4)]


async def test_a_gpu_whose_mig_was_turned_off_meanwhile_is_an_error_with_a_remedy(
    gated: ClaimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gated.begin(PARTITIONED)
    (gated.root / "hardware.yaml").write_text("devices:\n- {uuid: GPU-0, model: A100-40, mig: []}\n")
    divided = ScenarioBackend.divided

    async def turned_off(backend: ScenarioBackend) -> tuple[DividedGpu, ...]:
        return tuple(replace(gpu, enabled=False) for gpu in await divided(backend))

    async with gated.agent():
        await gated.kubelet.register()
        await gated.slices(lambda listing: len(listing) == 2)
        monkeypatch.setattr(ScenarioBackend, "divided", turned_off)
        claim = await gated.claim("part", "gpu-0-mig-3g20gb-9-4")
        error = (await gated.kubelet.prepare(claim))[claim.uid].error
        remedy = "turn MIG on, or take dynamicMig out of the node's configuration"
        assert error == f"MIG is off on GPU-0\n  remedy: {remedy}"
        monkeypatch.undo()
        assert not (await gated.kubelet.prepare(claim))[claim.uid].error


async def test_without_counters_on_the_server_no_mig_device_is_offered_that_does_not_exist(
    scene: ClaimNode,
) -> None:
    """In 1.35 the gate DRAPartitionableDevices is off."""
    await scene.begin(PARTITIONED)
    (scene.root / "hardware.yaml").write_text(HARDWARE)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: names(listing) == ["gpu-1"])
        events = await eventually(scene.events)
        assert "DRAPartitionableDevices is off on this server" in events[0].message

        async def reasons() -> set[str]:
            reports = (await scene.api.list(kinds.NODE_GPU_STATUS)).items
            offered = [
                device for report in reports for device in report.status.get("claims", {}).get("devices", ())
            ]
            return {device["reason"] for device in offered if not device["uuid"]}

        assert await eventually(reasons) == {events[0].message}, "the report says so, too"


async def test_a_server_that_is_newer_than_kubelet_gets_counters_in_slices_of_their_own(
    gated: ClaimNode,
) -> None:
    """A control plane is upgraded before its nodes, and 1.35 refuses the slices of 1.34."""
    await gated.begin(PARTITIONED, "devices:\n- {uuid: GPU-0, model: A100-40, mig: []}\n", "v1.34.4")
    async with gated.agent():
        await gated.kubelet.register()
        counters, devices = await gated.slices(lambda listing: len(names(listing)) == 25)
        assert "devices" not in counters.spec
        assert "sharedCounters" not in devices.spec
        assert "ClaimsNotPublished" not in {event.reason for event in await gated.events()}


async def test_after_an_upgrade_the_server_is_asked_again_what_it_keeps_and_no_device_vanishes(
    scene: ClaimNode,
) -> None:
    gates = FeatureGates()
    api = ToldSlices(ApiServer(SystemClock(), gates=gates, store=new_store()).local())
    node = ClaimNode(scene.root, api=api)
    await node.begin(PARTITIONED, HARDWARE)
    async with node.agent():
        await node.kubelet.register()
        await eventually(node.events)
        await node.slices(lambda listing: len(listing) == 1 and names(listing) == ["gpu-1"])
        # The server is of another release now.
        object.__setattr__(gates, "chosen", ((PARTITIONS, True), (TAINTS, True)))
        api.published.clear()
        software = {"status": {"nodeInfo": {"kubeletVersion": "v1.36.0"}}}
        await node.api.patch(kinds.NODE, NODE, software, subresource="status")
        await node.slices(lambda listing: len(names(listing)) == 26)
        software = {"status": {"nodeInfo": {"kubeletVersion": "v1.36.1"}}}
        await node.api.patch(kinds.NODE, NODE, software, subresource="status")
        await smoke_is_seen(node, "gpu-1")
    assert api.published
    assert all("gpu-1" in names(pool) for pool in api.published), api.published


async def test_an_agent_that_starts_again_leaves_published_what_it_finds(gated: ClaimNode) -> None:
    api = ToldSlices(gated.api)
    node = ClaimNode(gated.root, api=api)
    await node.begin(PARTITIONED, HARDWARE)
    async with node.agent():
        await node.kubelet.register()
        await node.slices(lambda listing: len(names(listing)) == 26)
    api.published.clear()
    async with node.agent():
        await node.kubelet.register()
        await smoke_is_seen(node, "gpu-1")
    assert api.published
    assert all(len(names(pool)) == 26 for pool in api.published), api.published


async def smoke_is_seen(node: ClaimNode, device: str) -> None:
    """A change that the agent publishes after all that it had to say before."""
    sick = HARDWARE.replace("model: T4", "model: T4, health: unhealthy, reason: smoke")
    (node.root / "hardware.yaml").write_text(sick)

    def tainted(listing: list[Any]) -> bool:
        devices = [entry for obj in listing for entry in obj.spec.get("devices") or ()]
        return all(entry["name"] != device or "taints" in entry for entry in devices)

    await node.slices(tainted)
