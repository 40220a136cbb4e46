"""The loop that keeps the node's MIG layout, and agents that are killed anywhere in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.mig_node import Agent, KilledError
from support.mig_wishes import (
    BOARD,
    MIXED,
    SMALL,
    machine_of,
    made,
    one_gpu,
    refuse_2g,
    refuse_nothing,
)
from tonnage.decide.node.mig.obstacles import pod_not_evicted
from tonnage.model.actions.devices import DestroyGpuInstance, SetMigMode
from tonnage.model.devices.sharing import Hold
from tonnage.model.mig.layouts import MigState
from tonnage.twin.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def test_mig_3_a_layout_is_made_and_what_can_stay_stays(tmp_path: Path, clock: VirtualClock) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    agent = Agent(machine, clock, made(MIXED))
    stays = {one.uuid for gpu in await machine.divided() for i in gpu.instances for one in i.computes}
    await agent.live(lambda: agent.over)
    assert agent.state == MigState.SUCCESS, agent.said
    assert not any(isinstance(step, DestroyGpuInstance) for step in machine.steps)
    assert await machine.layout() == [
        *(("1g.10gb", 0, (1,)), ("1g.10gb", 1, (1,)), ("2g.20gb", 2, (2,)), ("3g.40gb", 4, (3,))),
    ]
    assert all(offered.get(uuid, True) for offered in agent.offered for uuid in stays)
    assert sum(agent.offered[-1].values()) == 4


async def test_mig_4_who_holds_a_gpu_that_is_reset_beside_is_waited_for(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, BOARD.format("null", "[3g.40gb]"))
    held = (await machine.divided())[1].instances[0].computes[0].uuid
    agent = Agent(machine, clock, made(MIXED, devices=(0,)))
    agent.holds = (Hold("nvidia.com/mig-3g.40gb", (held,), "ml", "train"),)
    await agent.live(lambda: agent.said and agent.said[-1][1].startswith("waits"))
    assert agent.said[-1] == (MigState.PENDING, f"waits: {held} is used by ml/train")
    assert machine.steps == [SetMigMode("GPU-0", True), SetMigMode("GPU-0", False)]
    assert agent.withheld == {}


async def test_mig_4_who_holds_what_must_go_is_named_and_waited_for(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    held = (await machine.divided())[0].instances[2].computes[0].uuid
    agent = Agent(machine, clock, made(SMALL))
    agent.holds = (Hold("nvidia.com/mig-3g.40gb", (held,), "ml", "train"),)
    await agent.live(lambda: agent.state == MigState.PENDING and agent.withheld == {})
    assert agent.said[-1][1] == f"waits: {held} is used by ml/train"
    assert machine.steps == []
    again = Agent(machine, clock, made(SMALL))
    again.holds = agent.holds

    def released() -> bool:
        if again.state == MigState.PENDING and again.holds:
            again.holds = ()
        return again.over

    await again.live(released)
    assert [part[:2] for part in await machine.layout()] == [("1g.10gb", start) for start in range(7)]


async def test_mig_4_a_device_taken_while_it_is_withdrawn_is_not_destroyed(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    taken = (await machine.divided())[0].instances[2].computes[0].uuid
    agent = Agent(machine, clock, made(SMALL))
    seen: list[bool] = []

    def take() -> bool:
        if agent.withheld and not agent.holds:
            seen.append(agent.offered[-1][taken])
            agent.holds = (Hold("nvidia.com/mig-3g.40gb", (f"{taken}::0",), "ml", "late"),)
        return bool(seen) and not agent.withheld

    await agent.live(take)
    assert seen == [False]
    assert machine.steps == []
    assert agent.said[-1] == (MigState.PENDING, f"waits: {taken} is used by ml/late")
    assert all(agent.offered[-1].values())


async def test_mig_4_a_device_that_is_being_given_out_for_long_is_waited_for_and_not_destroyed(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    taken = (await machine.divided())[0].instances[2].computes[0].uuid
    agent = Agent(machine, clock, made(SMALL))
    await agent.ledger.answering.acquire()
    since: list[float] = []

    def slowly_noted() -> bool:
        if agent.withheld:
            since.append(clock.monotonic())
        if since and clock.monotonic() - since[0] > 8 and agent.ledger.answering.locked():
            agent.holds = (Hold("nvidia.com/mig-3g.40gb", (taken,), "ml", "late"),)
            agent.ledger.answering.release()
        return bool(since) and not agent.withheld

    await agent.live(slowly_noted)
    assert since[-1] - since[0] > 7
    assert machine.steps == []
    assert agent.said[-1] == (MigState.PENDING, f"waits: {taken} is used by ml/late")


async def test_a_device_taken_before_its_agent_was_killed_is_not_destroyed_by_the_next(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    taken = (await machine.divided())[0].instances[2].computes[0].uuid
    machine.fuse = 1  # after the change is on disk, before anything is done for it
    with pytest.raises(KilledError):
        await Agent(machine, clock, made(SMALL)).ends()
    machine.fuse = 1 << 30
    agent = Agent(machine, clock, made(SMALL))
    agent.holds = (Hold("nvidia.com/mig-3g.40gb", (taken,), "ml", "late"),)
    await agent.live(lambda: (MigState.PENDING, f"waits: {taken} is used by ml/late") in agent.said)
    assert machine.steps == []
    assert agent.withheld == {}


async def test_while_the_label_is_away_nothing_is_tried_again(tmp_path: Path, clock: VirtualClock) -> None:
    machine = machine_of(tmp_path, clock, one_gpu("[7g.80gb]"))
    machine.refuse = refuse_2g
    agent = Agent(machine, clock, made(MIXED))
    turns: list[tuple[int, int]] = []

    def gone_for_long() -> bool:
        if agent.state == MigState.FAILED and not turns:
            agent.wish = None
            machine.refuse = refuse_nothing
        if agent.wish is None:
            turns.append((len(machine.steps), agent.asked_wishes.reads))
        if len(turns) == 100:
            agent.wish = made(MIXED)
        return agent.state == MigState.SUCCESS

    await agent.live(gone_for_long)
    assert len({steps for steps, _ in turns}) == 1
    assert turns[-1][1] - turns[0][1] < 5


async def test_mig_4_who_is_asked_to_leave_is_offered_nothing_on_the_gpu_meanwhile(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu("[1g.10gb, 2g.20gb, 3g.40gb]"))
    first, second, third = (one.computes[0].uuid for one in (await machine.divided())[0].instances)
    agent = Agent(machine, clock, made({"1g.10gb": 4, "3g.40gb": 1}), evicts=True)
    agent.holds = (Hold("r", (second,), "ml", "train"), Hold("r", (third,), "ml", "stays"))
    agent.answers = [
        pod_not_evicted("ml", "train", "it would violate the pod's disruption budget"),
        None,
    ]
    shown: list[dict[str, bool]] = []

    def leaves() -> bool:
        if agent.said and agent.said[-1][1].endswith("(evicted)"):
            shown.append(agent.offered[-1])
            agent.holds = agent.holds[1:]
        return agent.over

    await agent.live(leaves)
    assert agent.state == MigState.SUCCESS, agent.said
    assert agent.asked == [("ml", "train")] * 2
    assert "disruption budget" in agent.said[0][1]
    assert {uuid: shown[0][uuid] for uuid in (first, second, third)} == {
        first: True,
        second: False,
        third: True,
    }
    assert [part[:2] for part in await machine.layout()] == [
        *(("1g.10gb", 0), ("1g.10gb", 1), ("1g.10gb", 2), ("1g.10gb", 3), ("3g.40gb", 4)),
    ]
    assert agent.withheld == {}
    assert all(agent.offered[-1].values())


async def test_with_the_label_gone_nobody_is_asked_to_leave_and_all_is_offered(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    held = (await machine.divided())[0].instances[2].computes[0].uuid
    agent = Agent(machine, clock, made(SMALL), evicts=True)
    agent.holds = (Hold("r", (held,), "ml", "train"),)
    agent.answers = [pod_not_evicted("ml", "train", "no")] * 100

    def gives_up() -> bool:
        if agent.state == MigState.PENDING and agent.wish is not None:
            assert agent.withheld
            agent.wish = None
        return agent.wish is None and not agent.withheld

    await agent.live(gives_up)
    assert all(agent.offered[-1].values())
    assert machine.steps == []
