"""What the agent sets on GPUs for claims that share them, and takes back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from support.claim_kubelet import eventually
from support.claim_node import ALL, ClaimNode, sharing
from tonnage.adapters.clock import SystemClock
from tonnage.agent.claims.sharing import ClaimSharing
from tonnage.decide.node.cdi.rules import spec_problems
from tonnage.decide.node.claims.sharing import daemon_name
from tonnage.model.actions.devices import DeviceAction, SetTimeSlice
from tonnage.model.actions.mps import StopDaemon
from tonnage.model.devices.claims import ClaimRef, PreparedClaim, SlicedDevice
from tonnage.model.devices.inventory import ComputeMode, TimeSlice
from tonnage.model.devices.mps import MpsDaemon
from tonnage.model.errors import HardwareError, Problem
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.mps_control import MpsProgram

LONG = sharing(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})
_APPLY = ScenarioBackend.apply


async def refusing_time_slices(self: ScenarioBackend, step: DeviceAction) -> None:
    if isinstance(step, SetTimeSlice):
        raise HardwareError(Problem("the time slice cannot be set", why="Not Supported"))
    await _APPLY(self, step)


async def test_a_time_slice_is_set_for_a_claim_and_taken_back_with_it(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    backend = ScenarioBackend(scene.root / "hardware.yaml", SystemClock())
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("sliced", "gpu-1", config=LONG)
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
        assert backend.settings().slices == {"GPU-1": TimeSlice.LONG}
    async with scene.agent():
        await scene.kubelet.register()
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
        assert backend.settings().slices == {"GPU-1": TimeSlice.DEFAULT}


async def test_a_claim_whose_time_slice_the_driver_refuses_is_given_back(
    scene: ClaimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its pod would never end: kubelet asks until the claim is given back."""
    await scene.begin(ALL)
    monkeypatch.setattr(ScenarioBackend, "apply", refusing_time_slices)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("sliced", "gpu-1", config=LONG)
        assert "Not Supported" in (await scene.kubelet.prepare(claim))[claim.uid].error
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
        other = await scene.claim("other", "gpu-1")
        assert not (await scene.kubelet.prepare(other))[other.uid].error


async def test_a_time_slice_that_is_not_taken_back_is_tried_once_more_and_then_reported(
    scene: ClaimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("sliced", "gpu-1", config=LONG)
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
        monkeypatch.setattr(ScenarioBackend, "apply", refusing_time_slices)
        assert "Not Supported" in (await scene.kubelet.unprepare(claim))[claim.uid]
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}

        async def reported() -> list[str]:
            return [event.reason for event in await scene.events() if event.reason == "TimeSliceLeft"]

        assert await eventually(reported) == ["TimeSliceLeft"]


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
        messages = [event.message for event in await scene.events() if event.reason == "MpsDaemonReady"]
        assert messages == ["claim ml/shared is served by its MPS control daemon"]
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

    context: Any = SimpleNamespace(
        node="n", events=None, clock=SystemClock(), performer=SimpleNamespace(perform=perform)
    )
    inventory = SimpleNamespace(devices=[SimpleNamespace(uuid="GPU-1")])
    board: Any = SimpleNamespace(inventory=SimpleNamespace(value=inventory))
    book: Any = SimpleNamespace(current_claims=lambda: tuple(claims.values()))
    both = ClaimSharing(context, board, book)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(both.end(ends, answered=True))
        await asked.wait()
        claims["begins"] = begins
        group.create_task(both.begin(begins))
        for _ in range(5):
            await asyncio.sleep(0)
        answered.set()
    assert slices == [TimeSlice.DEFAULT, TimeSlice.LONG]


@pytest.mark.parametrize(
    ("interval", "uuid", "reset"),
    [
        pytest.param(TimeSlice.LONG, "GPU-1", False, id="a-part-with-the-same"),
        pytest.param(TimeSlice.SHORT, "GPU-1", False, id="it-has-the-gpu-since-the-first-try-failed-late"),
        pytest.param(TimeSlice.LONG, "GPU-2", True, id="of-another-gpu"),
    ],
)
async def test_a_claim_that_ends_leaves_the_time_slice_that_another_has_set(
    interval: TimeSlice, uuid: str, reset: bool
) -> None:
    ends, other = (
        PreparedClaim(ClaimRef("ml", name, name), slices=(sliced,))
        for name, sliced in {
            "ends": SlicedDevice("GPU-1", TimeSlice.LONG),
            "other": SlicedDevice(uuid, interval),
        }.items()
    )
    performed: list[object] = []

    async def perform(action: object) -> None:
        performed.append(action)

    context: Any = SimpleNamespace(
        node="n", events=None, clock=SystemClock(), performer=SimpleNamespace(perform=perform)
    )
    board: Any = SimpleNamespace(
        inventory=SimpleNamespace(value=SimpleNamespace(devices=[SimpleNamespace(uuid="GPU-1")]))
    )
    book: Any = SimpleNamespace(current_claims=lambda: (ends, other))
    await ClaimSharing(context, board, book).end(ends, answered=True)
    assert performed == ([SetTimeSlice("GPU-1", TimeSlice.DEFAULT)] if reset else [])


async def test_the_folder_of_a_claims_daemon_goes_once_the_daemon_has_ended() -> None:
    daemon = MpsDaemon(daemon_name("a", 0), "/mps", 100, ())
    ends = PreparedClaim(ClaimRef("ml", "ends", "ends"), daemons=(daemon,))
    standing = {daemon.resource: object()}
    performed: list[object] = []

    async def perform(action: object) -> None:
        assert not standing
        performed.append(action)

    context: Any = SimpleNamespace(
        node="n", events=None, clock=SystemClock(), performer=SimpleNamespace(perform=perform)
    )
    board: Any = SimpleNamespace(
        mps=SimpleNamespace(value=standing), claim_daemons=SimpleNamespace(publish=lambda _: None)
    )
    book: Any = SimpleNamespace(current_claims=lambda: (ends,))
    sharing = ClaimSharing(context, board, book)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(sharing.end(ends, answered=True))
        await asyncio.sleep(0)
        standing.clear()
    assert performed == [StopDaemon(daemon, over=True)]
