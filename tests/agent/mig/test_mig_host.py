"""Hooks and services of the host around a MIG change, and agents that are killed anywhere in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.mig_node import Agent, KilledError, Machine
from tonnage.decide.node.mig.desired_layout import MigWish
from tonnage.model.actions.devices import CreateGpuInstance, MigStep, ResetGpu
from tonnage.model.devices.sharing import Hold
from tonnage.model.mig.hooks import HOOKS, HostWork, MigHook
from tonnage.model.mig.layouts import MigEntry, MigState
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend

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
    assert agent.said[-1][1] == f"{reason}; the previous layout is restored; next try in 10 s"
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


ON = MigWish("on", (MigEntry((0,), True, {"3g.40gb": 2}),))
BOARD = """\
devices:
- {uuid: GPU-0, model: A100-80, migReset: true}
- {uuid: GPU-1, model: A100-80, mig: [2g.20gb]}
"""


def refuse_resets(step: MigStep) -> str:
    return "busy" if isinstance(step, ResetGpu) else ""


def board_of(folder: Path, clock: VirtualClock) -> Machine:
    file = folder / "hardware.yaml"
    file.write_text(BOARD)
    machine = Machine(ScenarioBackend(file, clock))
    machine.refuse, machine.boards = refuse_resets, {"GPU-0": ("GPU-1",)}
    return machine


async def lives(machine: Machine, clock: VirtualClock) -> Agent:
    """Agents one after another, until one has said how it ended; one more after each that was killed."""
    while True:
        agent = Agent(machine, clock, ON, reboots=True)
        with contextlib.suppress(KilledError):
            await agent.ends()
            return agent
        machine.fuse = 1 << 30


async def test_a_node_is_restarted_where_no_reset_is_had_and_the_next_agent_goes_on(tmp_path: Path) -> None:
    fuse, restarts = 0, 0
    while not restarts or fuse < restarts:
        folder = tmp_path / str(fuse)
        folder.mkdir()
        clock = VirtualClock(settle_passes=16)
        machine = board_of(folder, clock)
        machine.fuse = fuse
        agent = await lives(machine, clock)
        assert agent.state == MigState.SUCCESS, agent.said
        assert [part[:2] for part in await machine.layout()] == [("3g.40gb", 0), ("3g.40gb", 4)]
        assert [part[:2] for part in await machine.layout("GPU-1")] == [("2g.20gb", 0)]
        assert machine.ran.count("systemctl reboot") == len(machine.boot) - 1 == 1
        assert machine.disk["mig"] == b"null"
        restarts = restarts or 24
        fuse += 1


async def test_while_it_restarts_the_node_says_so(tmp_path: Path, clock: VirtualClock) -> None:
    machine = board_of(tmp_path, clock)
    agent = Agent(machine, clock, ON, reboots=True)
    with pytest.raises(KilledError):
        await agent.ends()
    state, reason = agent.said[-1]
    assert state == MigState.REBOOTING
    assert "it is refused: busy" in reason


@pytest.mark.parametrize(
    "holds", [(), (Hold("r", ("GPU-7",), "ml", "train"),)], ids=["it fails", "it is used"]
)
async def test_a_node_that_cannot_be_restarted_is_as_it_was(
    holds: tuple[Hold, ...], tmp_path: Path, clock: VirtualClock
) -> None:
    machine = board_of(tmp_path, clock)
    machine.fails = fails_to("reboot")
    agent = Agent(machine, clock, ON, reboots=True)
    agent.holds = holds
    await agent.ends()
    assert agent.state == MigState.FAILED
    said = "but its GPUs are used by ml/train" if holds else "the node does not restart: systemctl failed: no"
    assert said in agent.said[-1][1]
    assert "the previous layout is restored" in agent.said[-1][1]
    assert [(gpu.enabled, gpu.pending) for gpu in await machine.divided()] == [(False, False), (True, True)]


async def test_a_restart_that_does_not_help_is_not_tried_again(tmp_path: Path, clock: VirtualClock) -> None:
    machine = board_of(tmp_path, clock)
    machine.boards = {}
    agent = await lives(machine, clock)
    assert agent.state == MigState.FAILED
    assert "a reboot of the node did not help" in agent.said[-1][1]
    assert machine.boot == "11"


async def test_a_hook_that_fails_restarts_no_node_though_a_reset_was_refused_before(
    tmp_path: Path, clock: VirtualClock
) -> None:
    machine = board_of(tmp_path, clock)

    def refuse(step: MigStep) -> str:
        """The way forward once it is reset, and the reset on the way back."""
        reset = any(isinstance(done, ResetGpu) for done in machine.steps)
        return "no" if reset and isinstance(step, CreateGpuInstance | ResetGpu) else ""

    machine.refuse = refuse
    wish = replace(ON, host=HostWork({"apply-start": (MigHook("hook", ("apply-start",)),)}))
    agent = Agent(machine, clock, wish, reboots=True)
    await agent.ends()
    assert "the previous layout is not restored" in agent.said[-1][1]
    machine.fails = fails_to("hook")
    await agent.live(lambda: agent.said and "hook apply-start" in agent.said[-1][1] and agent.over)
    assert "systemctl reboot" not in machine.ran
