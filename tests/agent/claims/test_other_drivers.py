"""What keeps our driver from serving: another of its name, whoever was there first, or kubelet."""

from __future__ import annotations

from typing import Any

from support.claim_kubelet import eventually
from support.claim_node import ALL, NODE, ClaimNode, names
from tonnage.model.devices.claims import DRIVER
from tonnage.wire import kinds


async def refusal(scene: ClaimNode) -> str:
    events = await eventually(scene.events)
    return " ".join(event.message for event in events if event.reason == "ClaimsNotServed")


async def test_one_that_registers_beside_ours_ends_ours_until_it_goes(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
        async with scene.kubelet.other_driver() as socket:
            await scene.kubelet.until_gone()
            await scene.slices(lambda listing: not listing)
            assert f"is registered on this node: {socket}" in await refusal(scene)
        await scene.kubelet.until_there()
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)


async def test_one_that_publishes_devices_before_ours_keeps_the_node(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    spec: Any = {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": [{"name": "gpu-0"}]}
    await scene.api.create(kinds.RESOURCE_SLICE, {"metadata": {"name": "theirs"}, "spec": spec})
    async with scene.agent():
        await scene.kubelet.until_there()
        await scene.kubelet.register()
        await scene.kubelet.until_gone()
        assert "publishes devices of this node: ResourceSlice theirs" in await refusal(scene)
        [theirs] = await scene.slices(lambda listing: listing)
        assert theirs.metadata.name == "theirs"


async def test_one_that_kubelet_refuses_to_register_publishes_nothing_and_says_who_refuses(
    scene: ClaimNode,
) -> None:
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register(refused="version not supported")
        [event] = await eventually(scene.events)
        why = f"kubelet refuses to register the driver {DRIVER}: version not supported"
        assert (event.reason, event.message) == ("ClaimsNotServed", why)
        assert not (await scene.api.list(kinds.RESOURCE_SLICE)).items
        await scene.kubelet.register()  # it was started again, of another release
        await scene.slices(lambda listing: len(names(listing)) == 3)
        await scene.kubelet.register(refused="version not supported")
        await scene.slices(lambda listing: not listing)
