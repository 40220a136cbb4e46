"""Questions about one claim that come at the same time: kubelet gives up and asks something else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from support.claim_node import ClaimNode, names
from tonnage.adapters.clock import SystemClock
from tonnage.agent.claims.preparation import ClaimPreparation
from tonnage.model.actions.devices import DestroyComputeInstance, DeviceAction
from tonnage.model.devices.claims import ClaimRef
from tonnage.twin.devices.scenario import ScenarioBackend

CONFIG = "version: v1\nclaims: {devices: all, dynamicMig: true}\n"
HARDWARE = "devices:\n- {uuid: GPU-0, model: A100-40, mig: []}\n"
_APPLY = ScenarioBackend.apply
_PREPARE = ClaimPreparation.prepare


async def test_a_claim_that_is_prepared_while_it_is_given_back_leaves_no_mig_device(
    gated: ClaimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    removing, arrived, removed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(self: ScenarioBackend, step: DeviceAction) -> None:
        if isinstance(step, DestroyComputeInstance):
            removing.set()
            await removed.wait()
        await _APPLY(self, step)

    async def asks(self: ClaimPreparation, claims: Sequence[ClaimRef]) -> Any:
        arrived.set()
        return await _PREPARE(self, claims)

    monkeypatch.setattr(ScenarioBackend, "apply", slow)
    await gated.begin(CONFIG, HARDWARE)
    async with gated.agent(), asyncio.timeout(30), asyncio.TaskGroup() as group:
        await gated.kubelet.register()
        await gated.slices(names)
        claim = await gated.claim("train", "gpu-0-mig-3g20gb-9-4")
        assert not (await gated.kubelet.prepare(claim))[claim.uid].error
        monkeypatch.setattr(ClaimPreparation, "prepare", asks)
        given_back = group.create_task(gated.kubelet.unprepare(claim))
        await removing.wait()
        again = group.create_task(gated.kubelet.prepare(claim))
        await arrived.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        removed.set()
        assert await given_back == {claim.uid: ""}
        assert not (await again)[claim.uid].error, "it is judged anew, as what stands"
        assert gated.spec(claim) is not None
        assert await gated.kubelet.unprepare(claim) == {claim.uid: ""}
        backend = ScenarioBackend(gated.root / "hardware.yaml", SystemClock())
        assert [gpu.instances for gpu in await backend.divided()] == [()]
