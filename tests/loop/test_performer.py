"""The performer of Actions: what it does, records, leaves undone in a dry run, and never repeats blindly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from tonnage.loop.performer import ActionPorts, ActionRecord, Performer, Phase
from tonnage.model.actions.action import Action
from tonnage.model.actions.cdi import RemoveSpec, WriteSpec
from tonnage.model.actions.devices import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    ResetGpu,
    SetComputeMode,
    SetMigMode,
)
from tonnage.model.actions.mps import StartDaemon, StopDaemon
from tonnage.model.actions.node import PatchNode, PatchNodeStatus
from tonnage.model.actions.retry import Retry
from tonnage.model.devices.inventory import ComputeMode
from tonnage.model.devices.mps import MpsDaemon
from tonnage.model.errors import Bug, HardwareError, Problem
from tonnage.model.mig.layouts import GpuInstance
from tonnage.model.names import ResourceName
from tonnage.ports.kubernetes import PatchType
from tonnage.wire.kinds import NODE

INSTANCE = GpuInstance(1, "1g.10gb", 0)
DAEMON = MpsDaemon(ResourceName("nvidia.com/gpu"), "/mps", 50, ())
SET_MODE = SetComputeMode("GPU-0", ComputeMode.EXCLUSIVE_PROCESS)
DEVICES: tuple[Action, ...] = (
    *(SetMigMode("GPU-0", True), ResetGpu("GPU-0"), DestroyComputeInstance("GPU-0", INSTANCE, 0)),
    *(DestroyGpuInstance("GPU-0", INSTANCE), CreateGpuInstance("GPU-0", "1g.10gb", 0)),
    CreateComputeInstance("GPU-0", INSTANCE, 1),
)
EFFECTS: dict[Action, tuple[object, ...]] = {
    **{step: ("apply", step) for step in (*DEVICES, SET_MODE)},
    StartDaemon(DAEMON): ("start", DAEMON),
    StopDaemon(DAEMON): ("stop", DAEMON),
    WriteSpec("gpu.json", b"{}"): ("write", "gpu.json", b"{}"),
    RemoveSpec("gpu.json"): ("remove", "gpu.json"),
}
PATCHES: tuple[tuple[Action, dict[str, object]], ...] = (
    (PatchNode("n", {"metadata": {}}), {}),
    (
        PatchNodeStatus("n", {"status": {}}),
        {"patch_type": PatchType.STRATEGIC, "subresource": "status"},
    ),
)


class Node:
    """Takes every action, in order, unless it `fails`."""

    def __init__(self, fails: str = "") -> None:
        self.done: list[tuple[object, ...]] = []
        self.records: list[ActionRecord] = []
        names = ("apply", "start", "stop", "write", "remove", "patch")
        port = cast(Any, SimpleNamespace(**{name: self._doing(name) for name in names}))
        self.ports = ActionPorts(port, port, port, port)
        self.fails = fails

    def _doing(self, name: str) -> Any:
        async def do(*arguments: object, **options: object) -> None:
            if self.fails:
                raise HardwareError(Problem(self.fails))
            self.done.append((name, *arguments, *([options] if options else [])))

        return do

    def performer(self, *, dry_run: bool = False) -> Performer:
        return Performer(self.ports, dry_run=dry_run, record=self.records.append)


async def read() -> str:
    return "as it is"


def test_every_action_is_tried_here() -> None:
    assert {*map(type, EFFECTS), *(type(action) for action, _ in PATCHES)} == {*get_args(Action)}


@pytest.mark.parametrize(
    ("action", "effect"),
    [
        *(pytest.param(*pair, id=type(pair[0]).__name__) for pair in EFFECTS.items()),
        *(
            pytest.param(
                action,
                ("patch", NODE, "n", cast(Any, action).patch, *([options] if options else [])),
                id=type(action).__name__,
            )
            for action, options in PATCHES
        ),
    ],
)
async def test_each_action_is_done_once_and_recorded_before_and_after(
    action: Action, effect: tuple[object, ...]
) -> None:
    node = Node()
    performer = node.performer()
    seen, sight = await performer.look(read())
    await performer.perform(action, sight)
    assert (seen, node.done) == ("as it is", [effect])
    assert node.records == [ActionRecord(action, Phase.BEGUN), ActionRecord(action, Phase.DONE)]


@pytest.mark.parametrize("step", [pytest.param(step, id=type(step).__name__) for step in DEVICES])
@pytest.mark.parametrize("fails", [pytest.param("", id="it was done"), pytest.param("busy", id="it failed")])
async def test_a_mig_step_is_never_repeated_without_reading_the_hardware(step: Action, fails: str) -> None:
    node = Node(fails)
    performer = node.performer()
    with pytest.raises(Bug, match="without a new look"):
        await performer.perform(step)
    _, sight = await performer.look(read())
    if fails:
        with pytest.raises(HardwareError):
            await performer.perform(step, sight)
    else:
        await performer.perform(step, sight)
    count = len(node.records)
    with pytest.raises(Bug, match="without a new look"):
        await performer.perform(step, sight)
    assert len(node.records) == count
    node.fails = ""
    await performer.perform(step, (await performer.look(read()))[1])
    assert node.done[-1] == ("apply", step)


async def test_what_is_idempotent_may_be_done_at_any_time() -> None:
    node = Node()
    for _ in range(2):
        await node.performer().perform(SET_MODE)
    assert len(node.done) == 2
    assert {type(action) for action in EFFECTS if action.retry is Retry.LOOK_FIRST} == {*map(type, DEVICES)}


async def test_a_dry_run_records_what_it_leaves_undone() -> None:
    node = Node()
    await node.performer(dry_run=True).perform(SET_MODE)
    assert node.done == []
    assert node.records == [ActionRecord(SET_MODE, Phase.WITHHELD)]


async def test_what_fails_is_recorded_with_its_reason_and_raised() -> None:
    node = Node("the GPU is busy")
    with pytest.raises(HardwareError, match="the GPU is busy"):
        await node.performer().perform(SET_MODE)
    assert [record.phase for record in node.records] == [Phase.BEGUN, Phase.FAILED]
    assert "the GPU is busy" in node.records[1].why


async def test_an_action_for_what_is_not_here_is_a_bug() -> None:
    with pytest.raises(Bug, match="nothing here to be performed on"):
        await Performer(ActionPorts()).perform(SET_MODE)
