"""GPUs that the configuration offers as claims, on an agent that does not serve them."""

from __future__ import annotations

from support.claim_kubelet import eventually
from support.claim_node import ALL, SOME, ClaimNode
from support.claim_reports import reported


async def test_without_the_flag_nobody_gets_a_claimed_gpu_and_that_is_told(scene: ClaimNode) -> None:
    await scene.begin(SOME)
    async with scene.agent(claims=False):
        status = await reported(scene, lambda status: status["resources"])
        assert [resource["capacity"] for resource in status["resources"]] == [1]
        events = await eventually(scene.events)
        assert "the agent runs without --claims" in events[0].message
        assert not scene.kubelet.socket.exists()


async def test_claims_of_an_agent_that_had_the_flag_are_named(scene: ClaimNode) -> None:
    """Their pods cannot end: nobody answers kubelet."""
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("train", "gpu-0")
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
    await scene.configure("version: v1\n")
    async with scene.agent(claims=False):
        named = "GPUs are held by claims (ml/train), but the agent runs without --claims"

        async def warnings() -> int:
            return sum(event.message.startswith(named) for event in await scene.events())

        assert await eventually(warnings) == 1
