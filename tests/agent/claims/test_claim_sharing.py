"""What the agent sets on GPUs for claims that share them, and takes back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from support.claim_node import ALL, ClaimNode, sharing
from tonnage.adapters.clock import SystemClock
from tonnage.agent.claims.sharing import ClaimSharing
from tonnage.decide.node.cdi.rules import spec_problems
from tonnage.decide.node.claims.sharing import daemon_name
from tonnage.model.actions.devices import SetTimeSlice
from tonnage.model.devices.claims import ClaimRef, PreparedClaim, SlicedDevice
from tonnage.model.devices.inventory import ComputeMode, TimeSlice
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.mps_control import MpsProgram


async def test_a_time_slice_is_set_for_a_claim_and_taken_back_with_it(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    backend = ScenarioBackend(scene.root / "hardware.yaml", SystemClock())
    config = sharing(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("sliced", "gpu-1", config=config)
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
        assert backend.settings().slices == {"GPU-1": TimeSlice.LONG}
    async with scene.agent():
        await scene.kubelet.register()
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
        assert backend.settings().slices == {"GPU-1": TimeSlice.DEFAULT}


async def test_a_claim_has_an_mps_daemon_of_its_own_as_long_as_it_is_prepared(scene: ClaimNode) -> None:
    await scene.begin(f"{ALL}flags: {{mpsRoot: /run/nvidia/mps}}\n")
    MpsProgram(scene.root).install()
    backend = ScenarioBackend(scene.root / "hardware.yaml", SystemClock())
    config = sharing(strategy="MPS", mpsConfig={"defaultActiveThreadPercentage": 40})
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("shared", "gpu-0", config=config)
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
        assert backend.settings().modes == {"GPU-0": ComputeMode.EXCLUSIVE_PROCESS}
        folder = f"/run/nvidia/mps/{daemon_name(claim.uid, 0)}"
        assert (scene.root / folder.lstrip("/") / "pipe").is_dir()
        [entry] = scene.spec(claim)["devices"]
        inside = f"/mps/{daemon_name(claim.uid, 0)}/pipe"
        assert f"CUDA_MPS_PIPE_DIRECTORY={inside}" in entry["containerEdits"]["env"]
        mounts = {each["containerPath"]: each["hostPath"] for each in entry["containerEdits"]["mounts"]}
        assert mounts == {inside: f"{folder}/pipe", "/dev/shm": "/run/nvidia/mps/shm"}
        assert spec_problems(scene.spec(claim)) == ()
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
        assert backend.settings().modes == {"GPU-0": ComputeMode.DEFAULT}


async def test_a_claim_that_ends_does_not_reset_the_time_slice_of_one_that_begins() -> None:
    """Of two claims with parts of one GPU; the driver is slow."""
    sliced = (SlicedDevice("GPU-1", TimeSlice.LONG),)
    ends, begins = (PreparedClaim(ClaimRef("ml", name, name), slices=sliced) for name in ("ends", "begins"))
    claims = {"ends": ends}
    asked, answered = asyncio.Event(), asyncio.Event()
    slices: list[TimeSlice] = []

    async def perform(action: object) -> None:
        if isinstance(action, SetTimeSlice):
            if action.interval is TimeSlice.DEFAULT:
                asked.set()
                await answered.wait()
            slices.append(action.interval)

    context: Any = SimpleNamespace(clock=SystemClock(), performer=SimpleNamespace(perform=perform))
    inventory = SimpleNamespace(devices=[SimpleNamespace(uuid="GPU-1")])
    board: Any = SimpleNamespace(inventory=SimpleNamespace(value=inventory))
    book: Any = SimpleNamespace(current_claims=lambda: tuple(claims.values()))
    both = ClaimSharing(context, board, book)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(both.end(ends))
        await asked.wait()
        claims["begins"] = begins
        group.create_task(both.begin(begins))
        for _ in range(5):
            await asyncio.sleep(0)
        answered.set()
    assert slices == [TimeSlice.DEFAULT, TimeSlice.LONG]
