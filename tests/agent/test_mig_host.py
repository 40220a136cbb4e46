"""Hooks and services of the host around a MIG change, and agents that are killed anywhere in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from support.mig_node import Agent, KilledError, Machine
from tonnage.adapters.vendors.scenario import ScenarioBackend
from tonnage.decide.node.mig_wish import MigWish
from tonnage.model.mig import CreateGpuInstance, MigEntry, MigState, MigStep
from tonnage.model.mig_hooks import HOOKS, HostWork, MigHook
from tonnage.twin.clock import VirtualClock

ALL = HostWork(
    {name: (MigHook("hook", (name,)),) for name in HOOKS}, ("dcgm.service", "off.service", "nvsm.service")
)
SMALL = MigWish("mine", (MigEntry((0,), True, {"1g.10gb": 7}),), host=ALL)
WHOLE = MigWish("mine", (MigEntry((0,), False, {}),), host=ALL)
RUNS = {"dcgm.service", "nvsm.service"}


def machine_of(folder: Path, clock: VirtualClock) -> Machine:
    file = folder / "hardware.yaml"
    file.write_text("devices: [{uuid: GPU-0, model: A100-80, mig: [3g.40gb]}]\n")
    machine = Machine(ScenarioBackend(file, clock))
    machine.running = set(RUNS)
    return machine


def nothing(_: str) -> str:
    return ""


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(settle_passes=16)


async def test_hooks_run_in_their_order_and_only_what_ran_is_stopped(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock)
    agent = Agent(machine, clock, SMALL)
    await agent.ends()
    assert agent.state == MigState.SUCCESS, agent.said
    assert machine.ran == [
        *("hook apply-start", "hook pre-apply-config"),
        *("systemctl stop -- dcgm.service", "systemctl stop -- nvsm.service", "hook apply-exit"),
        *("systemctl start -- nvsm.service", "systemctl start -- dcgm.service"),
    ]
    machine.ran.clear()
    await Agent(machine, clock, WHOLE).ends()
    assert machine.ran[:3] == ["hook apply-start", "hook pre-apply-mode", "hook pre-apply-config"]
    assert machine.running == RUNS


def fails_to(word: str) -> Callable[[str], str]:
    return lambda line: "no" if word in line else ""


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("hook pre-apply-config", "hook pre-apply-config: hook failed: no"),
        ("stop -- nvsm", "systemctl failed: no"),
        ("show", "systemctl failed: no"),
    ],
)
async def test_what_cannot_be_prepared_changes_nothing_and_what_was_stopped_runs_again(
    word: str, reason: str, tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock)
    machine.fails = fails_to(word)
    agent = Agent(machine, clock, SMALL)
    await agent.ends()
    assert (agent.state, machine.steps, machine.running) == (MigState.FAILED, [], RUNS)
    assert agent.said[-1][1] == f"{reason}; the layout of before is back; tried again in 10 s"
    assert machine.ran[-1].startswith(("hook apply-exit", "systemctl start"))
    machine.fails = nothing
    again = Agent(machine, clock, SMALL)
    await again.ends()
    assert again.state == MigState.SUCCESS


async def test_a_service_that_does_not_start_is_tried_again_and_the_layout_stands(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = machine_of(tmp_path, clock)
    machine.fails = fails_to("start -- dcgm")
    agent = Agent(machine, clock, SMALL)
    await agent.ends()
    assert (agent.state, machine.running) == (MigState.SUCCESS, {"nvsm.service"})
    assert machine.disk["mig-stopped"] == b'["dcgm.service"]'
    machine.fails = nothing
    heir = Agent(machine, clock, SMALL)
    await heir.live(lambda: machine.running == RUNS)
    assert machine.disk["mig-stopped"] == b"[]"


def refuse_small(step: MigStep) -> str:
    return "no" if isinstance(step, CreateGpuInstance) and step.profile == "1g.10gb" else ""


@pytest.mark.parametrize("refuse", [lambda _: "", refuse_small], ids=["done", "refused, and back"])
async def test_mig_4_killed_anywhere_nothing_stays_stopped(
    refuse: Callable[[MigStep], str], tmp_path: Path
) -> None:
    killed, fuse = True, 0
    while killed:
        folder = tmp_path / str(fuse)
        folder.mkdir()
        clock = VirtualClock(settle_passes=16)
        machine = machine_of(folder, clock)
        machine.refuse, machine.fuse, killed = refuse, fuse, False
        with contextlib.suppress(KilledError):
            killed = True
            agent = Agent(machine, clock, SMALL)
            await agent.ends()
            killed = False
        machine.fuse = 1 << 30
        agent = Agent(machine, clock, SMALL)
        await agent.live(lambda agent=agent, machine=machine: agent.over and machine.running == RUNS)  # type: ignore[misc]
        assert agent.state == (MigState.FAILED if refuse is refuse_small else MigState.SUCCESS)
        assert machine.disk.get("mig", b"null") == b"null"
        assert machine.disk.get("mig-stopped", b"[]") == b"[]"
        fuse += 1
    assert fuse > 20
