"""MIG-4: agents that are killed anywhere in a change of the layout, alone on a board or beside a reset."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from support.mig_node import Agent, KilledError, Machine
from support.mig_wishes import (
    BEFORE,
    BOARD,
    MIXED,
    SMALL,
    machine_of,
    made,
    one_gpu,
    refuse_2g,
    refuse_nothing,
)
from tonnage.decide.node.mig.desired_layout import MigWish
from tonnage.model.actions.devices import MigStep, ResetGpu
from tonnage.model.mig.layouts import DividedGpu, MigEntry, MigState
from tonnage.twin.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


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


def refuse_resets(step: MigStep) -> str:
    return "busy" if isinstance(step, ResetGpu) else ""


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
