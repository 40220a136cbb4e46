"""The loop that keeps MPS control daemons, over daemons in memory that fail when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from support.agent_context import context_of
from support.looking import until
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.events import NodeEvents
from tonnage.agent.mps import NodeMps
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.loop.effects import ActionPorts
from tonnage.loop.performer import Performer
from tonnage.model.actions.devices import SetComputeMode
from tonnage.model.devices.inventory import ComputeMode, Inventory
from tonnage.model.devices.mps import MpsDaemon
from tonnage.model.devices.sharing import Hold, PluginConfig, SharedResource
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.condition_report import ConditionReport
from tonnage.model.node.plugin_settings import SharingKind
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend

SHARED = ResourceName("nvidia.com/gpu.shared")
BOTH = {"GPU-0", "GPU-1"}


def sharing(replicas: int, *, name: str = SHARED) -> PluginConfig:
    shared = SharedResource(GPU, ResourceName(name), replicas)
    return PluginConfig((shared,), sharing_kind=SharingKind.MPS, mps_root="/mps")


class KilledError(BaseException):
    """The agent is no more."""


class Machine:
    """What outlives an agent: devices with their modes, daemons, the disk.

    After `fuse` more effects the agent is killed.
    """

    def __init__(self, folder: Path, hardware: Path, clock: Any) -> None:
        self.backend = ScenarioBackend(hardware, clock)
        self.disk = FolderCheckpoints(folder / "state")
        self.running: dict[str, MpsDaemon] = {}
        self.starts: list[str] = []
        self.ill: dict[str, str] = {}
        self.silent = False
        self.stays = asyncio.Event()
        """Set once a daemon is asked to end that never does."""
        self.hangs = False
        self.dead: dict[str, str] = {}
        self.marks: dict[str, bool] = {}
        self.fuse = 10_000

    def effect(self) -> None:
        self.fuse -= 1
        if self.fuse < 0:
            raise KilledError

    @property
    def exclusive(self) -> set[str]:
        modes = self.backend.settings().modes.items()
        return {uuid for uuid, mode in modes if mode is ComputeMode.EXCLUSIVE_PROCESS}

    async def scan(self) -> Any:
        return await self.backend.scan()

    async def apply(self, step: SetComputeMode) -> None:
        self.effect()
        await self.backend.apply(step)

    async def load(self, name: str) -> bytes | None:
        return await self.disk.load(name)

    async def save(self, name: str, payload: bytes, *, lasting: bool) -> None:
        self.effect()
        await self.disk.save(name, payload, lasting=lasting)

    async def start(self, daemon: MpsDaemon) -> None:
        self.effect()
        if why := self.ill.get(daemon.resource):
            raise HardwareError(Problem("it does not start", why=why))
        self.running[daemon.resource] = daemon
        self.dead.pop(daemon.resource, None)
        self.starts.append(daemon.resource)
        self.effect()

    async def ask(self, daemon: MpsDaemon) -> None:
        if self.silent:
            raise HardwareError(Problem("it does not answer"))

    def ended(self, daemon: MpsDaemon) -> str:
        return self.dead.get(daemon.resource, "")

    def watch(self, wake: Callable[[], None]) -> None:
        self.wake = wake

    async def stop(self, daemon: MpsDaemon, *, over: bool = False) -> None:
        assert not over, "containers may still have the folder mounted"
        if self.hangs:
            self.stays.set()
            await asyncio.Event().wait()
        self.effect()
        self.running.pop(daemon.resource, None)
        self.effect()

    async def show_ready(self, root: str, *, ready: bool) -> None:
        self.marks[root] = ready


class Agent:
    """The loop, with devices, configuration and holds that the test sets."""

    def __init__(self, machine: Machine, clock: Any, api: Any = None) -> None:
        events = NodeEvents("n", None if api is None else Performer(ActionPorts(api=api)), clock)
        context = context_of(
            *("n", None, clock, cast(Any, machine), events),
            devices=cast(Any, machine),
            daemons=cast(Any, machine),
        )
        self.board = NodeBoard.blank(clock)
        self.hold()
        self.board.mps.subscribe(lambda: self.whys.append(self.why()))
        self.loop = NodeMps(context, self.board, cast(Any, machine))
        self.whys: list[str | None] = []
        """All that was ever said of the resource's daemon."""

    async def use(self, machine: Machine, config: PluginConfig) -> None:
        self.board.inventory.publish(await machine.scan())
        self.configure(config)

    def configure(self, config: PluginConfig) -> None:
        self.board.configuration.publish(ConfigInForce(config, ConfigChoice("", "built-in")))

    def hold(self, *resources: str) -> None:
        holds = tuple(Hold(name, ("GPU-0::0",), "ml", "a", "c") for name in resources)
        self.board.holds.publish(DeviceHolds(holds, settled=True))

    @property
    def report(self) -> ConditionReport:
        return self.board.mps_condition.value

    async def until(self, done: Callable[[], object]) -> None:
        await until(done)

    def why(self, name: str = SHARED) -> str | None:
        """Why a resource is not served; None when nobody knows of a daemon."""
        state = self.board.mps.value.get(ResourceName(name))
        return None if state is None else state.why


@pytest.fixture
def machine(tmp_path: Path, hardware: Path, clock: Any) -> Machine:
    return Machine(tmp_path, hardware, clock)


def lose_first(hardware: Path) -> None:
    hardware.write_text(hardware.read_text().replace("model: T4, numa: 0", "model: T4, health: lost"))


@asynccontextmanager
async def running(machine: Machine, clock: Any) -> AsyncIterator[Agent]:
    agent = Agent(machine, clock)
    task = asyncio.create_task(agent.loop.run())
    try:
        yield agent
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_shr_4_a_daemon_for_each_shared_resource_on_its_devices_alone(
    machine: Machine, clock: Any
) -> None:
    one = SharedResource(GPU, SHARED, 8, ("0",))
    rest = SharedResource(GPU, ResourceName("nvidia.com/small"), 2, ("1",))
    config = PluginConfig((one, rest), sharing_kind=SharingKind.MPS, mps_root="/mps")
    async with running(machine, clock) as agent:
        await agent.use(machine, config)
        await agent.until(lambda: (agent.why(), agent.why("nvidia.com/small")) == ("", ""))
        found = {name: (d.threads_percent, d.devices[0]) for name, d in machine.running.items()}
        assert {name: (percent, d.uuid, d.limit_mib) for name, (percent, d) in found.items()} == {
            SHARED: (12, "GPU-0", 15360 // 8),
            "nvidia.com/small": (50, "GPU-1", 15360 // 2),
        }
        assert machine.exclusive == BOTH
        await agent.until(lambda: machine.marks == {"/mps": True})
        assert agent.report.status == "True"
    assert machine.running == {}
    assert machine.exclusive == set()


async def test_without_mps_nothing_is_done_and_nothing_said(machine: Machine, clock: Any) -> None:
    machine.fuse = 0
    async with running(machine, clock) as agent:
        await agent.use(machine, PluginConfig())
        await asyncio.sleep(0)
        assert agent.report.status == "Unknown"
        machine.fuse = 1


async def test_a_daemon_that_dies_is_not_ready_at_once_and_started_again(
    machine: Machine, clock: Any
) -> None:
    async with running(machine, clock) as agent:
        await agent.use(machine, sharing(8))
        await agent.until(lambda: agent.why() == "")
        machine.ill[SHARED] = "not now"
        machine.dead[SHARED] = "signal 9"
        await agent.until(lambda: agent.why() == "it does not start: not now")
        assert agent.whys[-2:] == ["signal 9", "it does not start: not now"]
        report = agent.report
        assert (report.status, report.message) == ("False", f"{SHARED}: it does not start: not now")
        await agent.until(lambda: machine.marks == {"/mps": False})
        machine.ill.clear()
        await agent.until(lambda: agent.why() == "")
        assert machine.starts == [SHARED, SHARED]
        assert agent.board.mps.value[SHARED].restarts == 1


async def test_a_daemon_that_does_not_answer_is_not_ready_and_replaced_in_the_end(
    machine: Machine, clock: Any
) -> None:
    async with running(machine, clock) as agent:
        await agent.use(machine, sharing(8))
        await agent.until(lambda: agent.why() == "")
        machine.silent = True
        await agent.until(lambda: agent.why() == "it does not answer")
        await agent.until(lambda: agent.why() == "" and len(machine.starts) > 1)
        machine.silent = False


async def test_a_daemon_that_does_not_end_keeps_no_agent_longer_than_the_clock_allows(
    machine: Machine,
) -> None:
    clock = VirtualClock()
    agent = Agent(machine, clock)
    task = asyncio.create_task(agent.loop.run())
    await agent.use(machine, sharing(8))
    await agent.until(lambda: agent.why() == "")
    machine.hangs = True
    task.cancel()
    await machine.stays.wait()
    await clock.advance(3.9)
    assert not task.done()
    await clock.advance(0.2)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert machine.running


async def test_one_resource_that_never_starts_is_no_others_matter(machine: Machine, clock: Any) -> None:
    machine.ill[SHARED] = "broken"
    one = SharedResource(GPU, SHARED, 8, ("0",))
    rest = SharedResource(GPU, ResourceName("nvidia.com/small"), 2, ("1",))
    async with running(machine, clock) as agent:
        await agent.use(machine, PluginConfig((one, rest), sharing_kind=SharingKind.MPS, mps_root="/mps"))
        await agent.until(lambda: agent.why("nvidia.com/small") == "")
        await agent.until(lambda: agent.why() == "it does not start: broken")


async def test_devices_that_are_not_shared_any_more_are_given_back(machine: Machine, clock: Any) -> None:
    async with running(machine, clock) as agent:
        await agent.use(machine, sharing(8))
        await agent.until(lambda: agent.why() == "")
        await agent.use(machine, PluginConfig())
        await agent.until(lambda: agent.why() is None)
        assert (machine.running, machine.exclusive) == ({}, set())
        assert agent.report.reason == "MPSNotUsed"


async def test_a_daemon_stays_while_containers_need_it_whatever_is_configured(
    machine: Machine, clock: Any
) -> None:
    async with running(machine, clock) as agent:
        await agent.use(machine, sharing(8))
        await agent.until(lambda: agent.why() == "")
        agent.hold(SHARED)
        await agent.use(machine, sharing(4))
        for _ in range(20):
            await asyncio.sleep(0)
        assert machine.running[SHARED].threads_percent == 12
        agent.hold()
        await agent.until(lambda: agent.why() == "" and machine.running[SHARED].threads_percent == 25)


async def test_a_device_changes_hands_only_after_it_was_given_back(machine: Machine, clock: Any) -> None:
    async with running(machine, clock) as agent:
        await agent.use(machine, sharing(8))
        await agent.until(lambda: agent.why() == "")
        agent.hold(SHARED)
        await agent.use(machine, sharing(8, name="nvidia.com/other"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert set(machine.running) == {SHARED}
        agent.hold()
        await agent.until(lambda: agent.why("nvidia.com/other") == "")
        assert set(machine.running) == {"nvidia.com/other"}
        assert machine.exclusive == BOTH


async def test_one_lost_gpu_keeps_no_daemon_from_serving_the_others(
    machine: Machine, hardware: Path, clock: Any
) -> None:
    lose_first(hardware)
    async with running(machine, clock) as agent:
        await agent.use(machine, sharing(8))
        await agent.until(lambda: agent.why() == "")
        assert [device.uuid for device in machine.running[SHARED].devices] == ["GPU-1", "GPU-0"]
        assert machine.exclusive == {"GPU-1"}


async def test_nothing_is_given_back_while_the_devices_cannot_be_read(machine: Machine, clock: Any) -> None:
    await killed_after(6, machine, clock)
    machine.fuse = 10_000
    assert machine.exclusive == BOTH
    async with running(machine, clock) as agent:
        agent.board.devices_error.publish("NVML: not now")
        agent.board.inventory.publish(Inventory())
        agent.configure(PluginConfig())
        await asyncio.sleep(0.02)
        assert machine.exclusive == BOTH
        agent.board.devices_error.publish("")
        await agent.use(machine, PluginConfig())
        await agent.until(lambda: machine.exclusive == set())


async def killed_after(effects: int, machine: Machine, clock: Any) -> None:
    """An agent goes from eight replicas to four and to none, and is killed on the way, or when it ends."""
    machine.fuse = effects
    agent = Agent(machine, clock)
    task = asyncio.create_task(agent.loop.run())
    try:
        for config, percent in ((sharing(8), 12), (sharing(4), 25), (PluginConfig(), None)):
            await agent.use(machine, config)
            await agent.until(partial(_done, task, agent, percent))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _done(task: asyncio.Task[None], agent: Agent, percent: int | None) -> bool:
    """Whether the agent has ended, or its daemon is as it should be: with that limit, or gone."""
    state = agent.board.mps.value.get(SHARED)
    so = state is None if percent is None else state is not None and state.daemon.threads_percent == percent
    return task.done() or (so and not agent.why())


@pytest.mark.parametrize("effects", range(16))
@pytest.mark.parametrize("config", [PluginConfig(), sharing(8)], ids=["whole", "shared"])
async def test_an_agent_that_is_killed_at_any_step_leaves_nothing_for_ever(
    effects: int, config: PluginConfig, machine: Machine, clock: Any
) -> None:
    await killed_after(effects, machine, clock)
    machine.fuse = 10_000
    async with running(machine, clock) as agent:
        await agent.use(machine, config)
        if config.shared:
            await agent.until(lambda: agent.why() == "")
            assert machine.exclusive == BOTH
        else:
            await agent.until(lambda: agent.loop._recalled and not agent.loop._standing)
            assert machine.exclusive == set()
            assert machine.running == {}
