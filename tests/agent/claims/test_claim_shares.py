"""Claims that have parts of a GPU, or of a MIG device, each under its own share."""

from __future__ import annotations

from typing import Any

from support.claim_kubelet import eventually
from support.claim_node import ClaimNode, names, sharing
from tonnage.adapters.clock import SystemClock
from tonnage.model.devices.inventory import TimeSlice
from tonnage.twin.devices.scenario import ScenarioBackend

SHARED = "version: v1\nclaims: {devices: [0], consumableShares: 4}\n"


LONG = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}


async def test_claims_have_parts_of_one_gpu_each_under_its_own_share(gated: ClaimNode) -> None:
    await gated.begin(SHARED)
    backend = ScenarioBackend(gated.root / "hardware.yaml", SystemClock())
    first, second = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "12")

    def shares(listing: list[Any]) -> Any:
        return [device.get("allowMultipleAllocations") for each in listing for device in each.spec["devices"]]

    async with gated.agent():
        await gated.kubelet.register()
        [published] = await gated.slices(lambda listing: shares(listing) == [True])
        capacity = published.spec["devices"][0]["capacity"]
        assert {key: capacity[key] for key in ("memory", "shares")} == {
            "memory": {
                "value": "40Gi",
                "requestPolicy": {"default": "0", "validRange": {"min": "0", "step": "1Mi"}},
            },
            "shares": {
                "value": "4",
                "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}},
            },
        }
        config = sharing(**LONG)
        one = await gated.claim("one", "gpu-0", share=first, config=config)
        two = await gated.claim("two", "gpu-0", share=second, config=config)
        for claim, share in ((one, first), (two, second)):
            [device] = (await gated.kubelet.prepare(claim))[claim.uid].devices
            assert (device.device_name, device.share_id) == ("gpu-0", share)
            [name] = device.cdi_device_ids
            assert name == f"k8s.gpu.nvidia.com/claim={claim.uid}-gpu-0-{share}"
            assert [entry["name"] for entry in gated.spec(claim)["devices"]] == [name.partition("=")[2]]
        whole = await gated.claim("whole", "gpu-0")
        assert "is held as claim ml/one" in (await gated.kubelet.prepare(whole))[whole.uid].error
        other = await gated.claim("other", "gpu-0", share=first.replace("1", "3"))
        assert (await gated.kubelet.prepare(other))[other.uid].error == (
            "claim ml/other: status.allocation.devices.config: claim ml/one has a part of the GPU with the "
            "time slice Long, and this one asks for no time slice"
        )
        assert await gated.kubelet.unprepare(one) == {one.uid: ""}
        assert backend.settings().slices == {"GPU-0": TimeSlice.LONG}  # which the other still needs
    async with gated.agent():  # which knows the part that an earlier agent gave out
        await gated.kubelet.register()
        again = await gated.claim("again", "gpu-0", share=first, config=config)
        answer = (await gated.kubelet.prepare(again))[again.uid]
        assert [device.share_id for device in answer.devices] == [first], answer.error
        # At once, as when two pods end: each must not think that the other needs it.
        assert await gated.kubelet.unprepare(two, again) == {two.uid: "", again.uid: ""}
        assert backend.settings().slices == {"GPU-0": TimeSlice.DEFAULT}


async def test_claims_have_parts_of_one_mig_device_and_no_claim_uses_up_what_is_no_amount_of_it(
    gated: ClaimNode,
) -> None:
    await gated.begin(SHARED)
    (gated.root / "hardware.yaml").write_text("devices:\n- {uuid: GPU-0, model: A100-40, mig: [3g.20gb]}\n")
    name = "gpu-0-mig-3g20gb-9-0"
    async with gated.agent():
        await gated.kubelet.register()
        [published] = await gated.slices(lambda listing: names(listing) == [name])
        capacity = published.spec["devices"][0]["capacity"]
        amounts = {key: each for key, each in capacity.items() if each["value"] != "0"}
        taken = {key: each.get("requestPolicy", {}).get("default") for key, each in amounts.items()}
        assert taken.pop("shares") == "1"
        assert {*taken} >= {"memory", "memorySlice0", "memorySlice3"}
        assert {*taken.values()} == {"0"}
        assert capacity["shares"]["value"] == "4"
        for digit in "12":
            share = f"{digit * 8}-0000-4000-8000-000000000000"
            claim = await gated.claim(f"part-{digit}", name, share=share)
            [device] = (await gated.kubelet.prepare(claim))[claim.uid].devices
            assert (device.device_name, device.share_id) == (name, share)
        whole = await gated.claim("whole", name)
        assert "is held as claim ml/part-1" in (await gated.kubelet.prepare(whole))[whole.uid].error


async def test_without_shares_on_the_server_a_gpu_is_offered_whole_and_that_is_told(scene: ClaimNode) -> None:
    """In 1.35 the gate DRAConsumableCapacity is off."""
    await scene.begin(SHARED)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: names(listing) == ["gpu-0"])

        async def reason() -> object:
            return [e for e in await scene.events() if e.reason == "ClaimsWithoutShares"]

        await eventually(reason)
        claim = await scene.claim("train", "gpu-0")
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
        other = await scene.claim("other", "gpu-0")
        assert "is held as claim ml/train" in (await scene.kubelet.prepare(other))[other.uid].error
