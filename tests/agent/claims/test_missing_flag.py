"""GPUs that the configuration offers as claims, on an agent that does not serve them."""

from __future__ import annotations

from support.claim_kubelet import eventually
from support.claim_node import SOME, ClaimNode
from support.claim_reports import reported


async def test_without_the_flag_nobody_gets_a_claimed_gpu_and_that_is_told(scene: ClaimNode) -> None:
    await scene.begin(SOME)
    async with scene.agent(claims=False):
        status = await reported(scene, lambda status: status["resources"])
        assert [resource["capacity"] for resource in status["resources"]] == [1]
        events = await eventually(scene.events)
        assert "the agent runs without --claims" in events[0].message
        assert not scene.kubelet.socket.exists()
