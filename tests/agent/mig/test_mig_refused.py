"""Changes of the layout that hardware, disk or configuration refuse, and what stands then."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.mig_node import Agent
from support.mig_wishes import MIXED, SMALL, machine_of, made, one_gpu, refuse_2g, refuse_nothing
from tonnage.decide.node.mig.desired_layout import MigWish
from tonnage.decide.node.mig.obstacles import node_not_paused
from tonnage.model.actions.devices import CreateGpuInstance
from tonnage.model.devices.sharing import Hold
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.mig.layouts import MigState, MigWork
from tonnage.model.reasons.gpu.mig import MigConfigurationUnusable, MigNodeNotPaused
from tonnage.twin.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


UNUSABLE = MigConfigurationUnusable(subject="ConfigMap x/y", message="no such thing", config="x")


@pytest.mark.parametrize(
    ("devices", "wish", "reason"),
    [
        pytest.param(
            "[{uuid: GPU-0, model: T4}]",
            MigWish("all-balanced"),
            "GPU 0: Tesla T4 does not support MIG (instead: time-slicing; MPS; an A100, A30, H100 or newer)",
            id="MIG-5: a T4",
        ),
        pytest.param(
            one_gpu(),
            made({"3g.40gb": 2, "1g.10gb": 1}),
            "GPU 0: 3g.40gb:2,1g.10gb:1 do not fit together on one GPU",
            id="sums that look right",
        ),
        pytest.param(
            one_gpu(), made(SMALL, devices=(4,)), "GPU 4: the node has no such GPU", id="no such GPU"
        ),
        pytest.param(one_gpu(), MigWish("x", refusal=UNUSABLE), "no such thing", id="no configuration"),
    ],
)
async def test_what_cannot_be_made_is_refused_before_anything_is_done(
    devices: str, wish: MigWish, reason: str, tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, devices)
    agent = Agent(machine, clock, wish)
    await agent.live(lambda: agent.over)
    assert agent.state == MigState.FAILED
    assert reason in agent.said[-1][1]
    assert (machine.steps, machine.disk) == ([], {})


async def test_it_is_tried_again_later_and_then_done(tmp_path: Path, clock: VirtualClock) -> None:
    machine = machine_of(tmp_path, clock, one_gpu("[7g.80gb]"))
    machine.refuse = refuse_2g
    agent = Agent(machine, clock, made(MIXED))

    def mended() -> bool:
        if sum(state == MigState.FAILED for state, _ in agent.said) == 2:
            machine.refuse = refuse_nothing
        return agent.state == MigState.SUCCESS

    await agent.live(mended)
    failed = [reason for state, reason in agent.said if state == MigState.FAILED]
    assert [reason.rpartition("; ")[2] for reason in failed] == ["next try in 10 s", "next try in 30 s"]
    assert failed[0].startswith("it is refused: no resources; the previous layout is restored")


async def test_where_going_back_is_refused_too_it_says_what_stands(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu("[7g.80gb]"))
    machine.refuse = lambda step: "broken" if isinstance(step, CreateGpuInstance) else ""
    agent = Agent(machine, clock, made(MIXED))
    await agent.live(lambda: agent.over)
    assert agent.said[-1][1] == (
        "it is refused: broken; the previous layout is not restored;"
        " GPU-0 has MIG on, no instance; next try in 10 s"
    )
    assert agent.withheld == {}
    assert machine.disk["mig"] == b"null"


async def test_with_a_full_disk_nothing_is_begun(tmp_path: Path, clock: VirtualClock) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    machine.full = True
    agent = Agent(machine, clock, made(SMALL))
    await agent.live(lambda: agent.over)
    assert machine.steps == []
    assert agent.said[-1] == (MigState.FAILED, "the disk is full; next try in 10 s")
    assert all(agent.offered[-1].values())


async def test_a_disk_that_refuses_once_the_devices_are_withdrawn_leaves_them_to_be_used(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    agent = Agent(machine, clock, made(SMALL))

    saves: list[bytes] = []
    save = machine.save

    async def second_is_refused(name: str, payload: bytes, *, lasting: bool = True) -> None:
        saves.append(payload)
        if len(saves) == 2:
            raise HardwareError(Problem("the disk is full"))
        await save(name, payload, lasting=lasting)

    machine.save = second_is_refused  # type: ignore[method-assign]
    await agent.live(lambda: agent.state == MigState.FAILED)
    assert agent.said[-1] == (MigState.FAILED, "the disk is full; next try in 10 s")
    assert machine.steps == []
    assert agent.withheld == {}
    assert all(agent.offered[-1].values())


async def test_mig_4_what_cannot_be_paused_evicts_nobody_and_begins_nothing(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    held = (await machine.divided())[0].instances[2].computes[0].uuid
    refusals: list[MigNodeNotPaused | None] = [node_not_paused("n", "no")]

    async def pause_and_wait() -> MigNodeNotPaused | None:
        return refusals[0]

    agent = Agent(machine, clock, made(SMALL), evicts=True, pause_and_wait=pause_and_wait)
    agent.holds = (Hold("r", (held,), "ml", "train"),)
    agent.answers = [None]
    until = f"waits: {held} is used by ml/train (not evicted: nothing can be paused: no)"

    def on() -> bool:
        if agent.said and agent.said[-1][1] == until:
            assert agent.work is MigWork.EVICTING
            agent.holds = ()
        if agent.state == MigState.FAILED and refusals[0] is not None:
            assert agent.said[-1][1] == "nothing can be paused: no; next try in 10 s"
            assert agent.work is MigWork.NONE
            assert machine.steps == []
            refusals[0] = None
        return agent.state == MigState.SUCCESS

    await agent.live(on)
    assert agent.asked == []
    assert agent.works[0] is MigWork.EVICTING
    assert agent.works[-2:] == [MigWork.CHANGING, MigWork.NONE]
