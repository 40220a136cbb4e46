"""An unhealthy GPU in slices: tainted where the server keeps taints, else left out, and never as healthy."""

from __future__ import annotations

from typing import Any

import pytest

from support.api_stores import new_store
from support.claim_node import ALL, HARDWARE, NODE, ClaimNode, names
from support.told_slices import ToldSlices
from tonnage.adapters.clock import SystemClock
from tonnage.agent.claims import driver
from tonnage.model.errors import ApiError
from tonnage.model.kubernetes.feature_gates import TAINTS, FeatureGates
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire import kinds

SICK = HARDWARE.replace("{uuid: GPU-1,", "{uuid: GPU-1, health: unhealthy, reason: smoke,")
BOTH = SICK.replace("model: T4", "model: T4, health: unhealthy, reason: smoke")


def offered(listing: list[Any]) -> list[str]:
    """The devices that a claim could get."""
    devices = [device for obj in listing for device in obj.spec.get("devices") or ()]
    return [device["name"] for device in devices if not device.get("taints")]


async def begin(scene: ClaimNode) -> tuple[ClaimNode, ToldSlices]:
    api = ToldSlices(scene.api)
    node = ClaimNode(scene.root, api=api)
    await node.begin(ALL)
    return node, api


def become(node: ClaimNode, hardware: str) -> None:
    (node.root / "hardware.yaml").write_text(hardware)


async def test_an_agent_that_starts_again_offers_no_unhealthy_gpu_to_see_whether_taints_are_kept(
    scene: ClaimNode,
) -> None:
    """In 1.35 the gate DRADeviceTaints is off, and the server drops them."""
    node, api = await begin(scene)
    become(node, SICK)
    async with node.agent():
        await node.kubelet.register()
        await node.slices(lambda listing: names(listing) == ["gpu-0", "gpu-2"])
    become(node, BOTH)
    async with node.agent():
        await node.kubelet.register()
        await node.slices(lambda listing: names(listing) == ["gpu-0"])
        become(node, HARDWARE)
        await node.slices(lambda listing: len(names(listing)) == 3)
    assert all("gpu-1" not in offered(pool) for pool in api.published[:-1]), api.published


async def test_after_an_upgrade_no_unhealthy_gpu_is_offered_to_see_whether_taints_are_kept(
    scene: ClaimNode,
) -> None:
    node, api = await begin(scene)
    async with node.agent():
        await node.kubelet.register()
        await node.slices(lambda listing: len(names(listing)) == 3)
        become(node, SICK)
        await node.slices(lambda listing: names(listing) == ["gpu-0", "gpu-2"])
        api.published.clear()
        software = {"status": {"nodeInfo": {"kubeletVersion": "v1.36.0"}}}
        await node.api.patch(kinds.NODE, NODE, software, subresource="status")
        become(node, BOTH)
        await node.slices(lambda listing: names(listing) == ["gpu-0"])
    assert all("gpu-1" not in offered(pool) for pool in api.published), api.published


@pytest.mark.parametrize("meanwhile", [SICK, BOTH], ids=["as before", "another falls ill"])
async def test_an_agent_that_starts_again_leaves_the_taint_that_it_finds(
    gated: ClaimNode, meanwhile: str
) -> None:
    node, api = await begin(gated)
    async with node.agent():
        await node.kubelet.register()
        await node.slices(lambda listing: len(offered(listing)) == 3)
        become(node, SICK)
        await node.slices(lambda listing: len(names(listing)) == 3 and offered(listing) == ["gpu-0", "gpu-2"])
    api.published.clear()
    become(node, meanwhile)
    async with node.agent():
        await node.kubelet.register()
        become(node, BOTH)
        await node.slices(lambda listing: offered(listing) == ["gpu-0"])
    assert api.published
    assert all(len(names(pool)) == 3 for pool in api.published), api.published
    assert all("gpu-1" not in offered(pool) for pool in api.published), api.published


async def test_a_gpu_that_is_ill_from_the_beginning_is_tainted_and_never_offered(gated: ClaimNode) -> None:
    node, api = await begin(gated)
    become(node, SICK)
    async with node.agent():
        await node.kubelet.register()
        await node.slices(lambda listing: len(names(listing)) == 3)
    assert all("gpu-1" not in offered(pool) for pool in api.published), api.published


@pytest.mark.parametrize("every_s", [300.0, 0.05], ids=["when another falls ill", "after a while"])
async def test_a_server_that_keeps_taints_by_now_is_asked_again_while_a_gpu_is_ill(
    scene: ClaimNode, every_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was started again with the feature on, which nobody tells."""
    monkeypatch.setattr(driver, "_ASK_EVERY_S", every_s)
    gates = FeatureGates()
    scene = ClaimNode(scene.root, api=ApiServer(SystemClock(), gates=gates, store=new_store()).local())
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
        become(scene, SICK)
        await scene.slices(lambda listing: names(listing) == ["gpu-0", "gpu-2"])
        object.__setattr__(gates, "chosen", ((TAINTS, True),))
        well = ["gpu-0", "gpu-2"]
        if every_s > 1:
            become(scene, BOTH)
            well = ["gpu-0"]
        await scene.slices(lambda listing: len(names(listing)) == 3 and offered(listing) == well)


async def test_where_nobody_may_try_a_taint_an_unhealthy_gpu_is_left_out(
    gated: ClaimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook that has side effects is not asked for a trial, and refuses it."""

    async def refused(*_: object, **__: object) -> None:
        raise ApiError(400, "BadRequest", "admission webhook does not support dry run")

    monkeypatch.setattr(gated.api, "dry_run_create", refused)
    await gated.begin(ALL)
    become(gated, SICK)
    async with gated.agent():
        await gated.kubelet.register()
        await gated.slices(lambda listing: names(listing) == ["gpu-0", "gpu-2"])


async def test_a_gpu_that_falls_ill_while_no_agent_runs_is_tainted_by_the_next(gated: ClaimNode) -> None:
    node, api = await begin(gated)
    async with node.agent():
        await node.kubelet.register()
        await node.slices(lambda listing: len(offered(listing)) == 3)
    become(node, SICK)
    async with node.agent():
        await node.kubelet.register()
        await node.slices(lambda listing: offered(listing) == ["gpu-0", "gpu-2"])
    assert all(len(names(pool)) == 3 for pool in api.published), api.published
