"""The loop that keeps the node's MIG layout, and agents that are killed anywhere in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from support.mig_node import Agent, KilledError, Machine
from tonnage.decide.node.mig.desired_layout import MigWish
from tonnage.model.actions.devices import CreateGpuInstance, DestroyGpuInstance, MigStep, ResetGpu, SetMigMode
from tonnage.model.devices.sharing import Hold
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.mig.layouts import DividedGpu, MigEntry, MigState, MigWork
from tonnage.model.reasons.gpu.mig import MigConfigurationUnusable
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend

BEFORE = "[1g.10gb, 1g.10gb, 3g.40gb]"
SMALL = {"1g.10gb": 7}
MIXED = {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}


def machine_of(folder: Path, clock: VirtualClock, devices: str) -> Machine:
    file = folder / "hardware.yaml"
    file.write_text(f"devices: {devices}\n")
    return Machine(ScenarioBackend(file, clock))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(settle_passes=16)


def made(counts: dict[str, int], *, devices: tuple[int, ...] | None = None) -> MigWish:
    return MigWish("mine", (MigEntry(devices, True, counts),))


def one_gpu(mig: str = BEFORE, model: str = "A100-80") -> str:
    return f"[{{uuid: GPU-0, model: {model}, mig: {mig}}}]"


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


async def lives(machine: Machine, clock: VirtualClock, wish: MigWish, *fuses: int) -> tuple[Agent, bool]:
    """Agents one after another, killed by these fuses, and a last one that is not; whether any was killed."""
    killed = False
    for fuse in fuses:
        machine.fuse = fuse
        agent = Agent(machine, clock, wish)
        with contextlib.suppress(KilledError):
            await agent.ends()
            return agent, killed
        killed = True
    machine.fuse = 1 << 30
    agent = Agent(machine, clock, wish)
    await agent.ends()
    return agent, killed


def _name(profile: str, slices: int) -> str:
    return profile if profile.startswith(f"{slices}g") else f"{slices}c.{profile}"


def refuse_2g(step: MigStep) -> str:
    return "no resources" if isinstance(step, CreateGpuInstance) and step.profile == "2g.20gb" else ""


def refuse_resets(step: MigStep) -> str:
    return "busy" if isinstance(step, ResetGpu) else ""


def refuse_nothing(_: MigStep) -> str:
    return ""


@pytest.mark.parametrize(
    ("mig", "wish", "refuse"),
    [
        pytest.param(BEFORE, made(MIXED, devices=(0,)), refuse_nothing, id="beside what stays"),
        pytest.param("[7g.80gb]", made(SMALL, devices=(0,)), refuse_nothing, id="all anew"),
        pytest.param("[]", made({"7g.80gb": 1}, devices=(0,)), refuse_nothing, id="out of nothing"),
        pytest.param(BEFORE, made({}, devices=(0,)), refuse_nothing, id="down to nothing"),
        pytest.param(BEFORE, MigWish("x", (MigEntry((0,), False, {}),)), refuse_nothing, id="MIG off"),
        pytest.param("null", made(MIXED, devices=(0,)), refuse_nothing, id="MIG on"),
        pytest.param("[1c.3g.40gb, 3g.40gb]", made(MIXED, devices=(0,)), refuse_nothing, id="split parts"),
        pytest.param(
            *(BEFORE, made({"1c.3g.40gb": 1, "2c.3g.40gb": 1, "1g.10gb": 1}, devices=(0,)), refuse_nothing),
            id="split parts are wanted",
        ),
        pytest.param("[7g.80gb]", made(MIXED, devices=(0,)), refuse_2g, id="refused half way, and back"),
        pytest.param(
            "[1c.7g.80gb]", made(MIXED, devices=(0,)), refuse_2g, id="refused, and split parts back"
        ),
        pytest.param("null", made(MIXED, devices=(0,)), refuse_2g, id="refused, and MIG off again"),
    ],
)
@pytest.mark.parametrize(
    "second", [pytest.param(None, id="killed once"), pytest.param(3, id="twice", marks=pytest.mark.long)]
)
async def test_mig_4_killed_before_or_after_any_effect_it_ends_done_or_as_it_was(
    mig: str, wish: MigWish, refuse: Callable[[MigStep], str], second: int | None, tmp_path: Path
) -> None:
    devices = f"[{one_gpu(mig)[1:-1]}, {{uuid: GPU-1, model: A100-80, mig: [1g.10gb, 2g.20gb]}}]"
    killed, fuse, kills = True, 0, 0
    while killed:
        folder = tmp_path / str(fuse)
        folder.mkdir()
        clock = VirtualClock(settle_passes=16)
        machine = machine_of(folder, clock, devices)
        machine.refuse = refuse
        before, bystander = await machine.divided()
        agent, killed = await lives(machine, clock, wish, fuse, *(() if second is None else (second,)))
        now, other = await machine.divided()
        assert other == bystander
        assert machine.disk.get("mig", b"null") == b"null"
        assert agent.withheld == {}
        parts = sorted((one.profile, one.start, one.slices) for one in now.instances)
        if refuse is refuse_nothing:
            assert agent.state == MigState.SUCCESS, agent.said
            entry = (wish.entries or ())[0]
            assert now.enabled == entry.enabled
            names = [_name(profile, size) for profile, _, sizes in parts for size in sizes]
            assert {name: names.count(name) for name in names} == dict(entry.counts)
        else:
            assert agent.state == MigState.FAILED, agent.said
            assert "no resources" in agent.said[-1][1] or "agents ended" in agent.said[-1][1]
            assert now.enabled == before.enabled
            assert parts == sorted((one.profile, one.start, one.slices) for one in before.instances)
        kills += killed
        fuse += 1
    assert kills > 5


BOARD = "[{{uuid: GPU-0, model: A100-80, migReset: true, mig: {}}}, {{uuid: GPU-1, model: A100-80, mig: {}}}]"


OFF = MigWish("x", (MigEntry((0,), False, {}),))
ON = made(MIXED, devices=(0,))


@pytest.mark.parametrize(
    ("first", "second", "wish", "refuse", "fuses"),
    [
        pytest.param(
            *("null", "[1g.10gb, 2g.20gb]", ON, refuse_nothing, ()), id="on", marks=pytest.mark.long
        ),
        pytest.param("[2g.20gb]", "null", OFF, refuse_nothing, (), id="off"),
        pytest.param(
            *("null", "[3g.40gb]", ON, refuse_2g, (3,)),
            id="on, and off again beside parts, twice",
            marks=pytest.mark.long,
        ),
        pytest.param("null", "[3g.40gb]", ON, refuse_resets, (), id="the reset is refused"),
    ],
)
async def test_mig_4_killed_anywhere_around_a_reset_the_board_ends_done_or_as_it_was(
    first: str,
    second: str,
    wish: MigWish,
    refuse: Callable[[MigStep], str],
    fuses: tuple[int, ...],
    tmp_path: Path,
) -> None:
    killed, fuse, resets = True, 0, 0
    while killed:
        folder = tmp_path / str(fuse)
        folder.mkdir()
        clock = VirtualClock(settle_passes=16)
        machine = machine_of(folder, clock, BOARD.format(first, second))
        machine.refuse = refuse
        before = await machine.divided()
        agent, killed = await lives(machine, clock, wish, fuse, *fuses)
        now = await machine.divided()
        done = agent.state == MigState.SUCCESS
        assert done == (refuse is refuse_nothing), agent.said
        assert [(gpu.enabled, gpu.pending) for gpu in now] == [
            (mode, mode)
            for mode in ((wish.entries or ())[0].enabled if done else before[0].enabled, before[1].enabled)
        ]
        assert shape(now[1]) == shape(before[1])
        assert done or shape(now[0]) == shape(before[0])
        assert machine.disk.get("mig", b"null") == b"null"
        assert agent.withheld == {}
        fuse += 1
        resets = max(resets, sum(isinstance(step, ResetGpu) for step in machine.steps))
    assert fuse > 5
    assert (refuse is refuse_resets) == (not resets)


def shape(gpu: DividedGpu) -> list[tuple[str, int, tuple[int, ...]]]:
    return sorted((one.profile, one.start, one.slices) for one in gpu.instances)


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


UNUSABLE = MigConfigurationUnusable(subject="ConfigMap x/y", message="no such thing", config="x")


@pytest.mark.parametrize(
    ("devices", "wish", "reason"),
    [
        pytest.param(
            "[{uuid: GPU-0, model: T4}]",
            MigWish("all-balanced"),
            "GPU 0: Tesla T4 has no MIG (instead: time-slicing; MPS; an A100, A30, H100 or newer)",
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
    assert [reason.rpartition("; ")[2] for reason in failed] == ["tried again in 10 s", "tried again in 30 s"]
    assert failed[0].startswith("it is refused: no resources; the layout of before is back")


async def test_where_going_back_is_refused_too_it_says_what_stands(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu("[7g.80gb]"))
    machine.refuse = lambda step: "broken" if isinstance(step, CreateGpuInstance) else ""
    agent = Agent(machine, clock, made(MIXED))
    await agent.live(lambda: agent.over)
    assert agent.said[-1][1] == (
        "it is refused: broken; the layout of before is not back;"
        " GPU-0 stands with MIG on, no instance; tried again in 10 s"
    )
    assert agent.withheld == {}
    assert machine.disk["mig"] == b"null"


async def test_with_a_full_disk_nothing_is_begun(tmp_path: Path, clock: VirtualClock) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    machine.full = True
    agent = Agent(machine, clock, made(SMALL))
    await agent.live(lambda: agent.over)
    assert machine.steps == []
    assert agent.said[-1] == (MigState.FAILED, "the disk is full; tried again in 10 s")
    assert all(agent.offered[-1].values())


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
    assert agent.said[-1] == (MigState.FAILED, "the disk is full; tried again in 10 s")
    assert machine.steps == []
    assert agent.withheld == {}
    assert all(agent.offered[-1].values())


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
        "not evicted: it would violate the pod's disruption budget",
        "evicted",
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
    agent.answers = ["not evicted: no"] * 100

    def gives_up() -> bool:
        if agent.state == MigState.PENDING and agent.wish is not None:
            assert agent.withheld
            agent.wish = None
        return agent.wish is None and not agent.withheld

    await agent.live(gives_up)
    assert all(agent.offered[-1].values())
    assert machine.steps == []


async def test_mig_4_what_cannot_be_paused_evicts_nobody_and_begins_nothing(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock, one_gpu())
    held = (await machine.divided())[0].instances[2].computes[0].uuid
    why = ["nothing can be paused: no"]

    async def settled() -> str:
        return why[0]

    agent = Agent(machine, clock, made(SMALL), evicts=True, settled=settled)
    agent.holds = (Hold("r", (held,), "ml", "train"),)
    agent.answers = ["evicted"]
    until = f"waits: {held} is used by ml/train (not evicted: {why[0]})"

    def on() -> bool:
        if agent.said and agent.said[-1][1] == until:
            assert agent.work is MigWork.EVICTING
            agent.holds = ()
        if agent.state == MigState.FAILED and why[0]:
            assert agent.said[-1][1] == f"{why[0]}; tried again in 10 s"
            assert agent.work is MigWork.NONE
            assert machine.steps == []
            why[0] = ""
        return agent.state == MigState.SUCCESS

    await agent.live(on)
    assert agent.asked == []
    assert agent.works[0] is MigWork.EVICTING
    assert agent.works[-2:] == [MigWork.CHANGING, MigWork.NONE]
