"""A node whose MIG layout the agent's own loop keeps; hardware and disk outlive agents that are killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from support.agent_context import context_of
from tonnage.agent.board import NodeBoard, Topic
from tonnage.agent.devices import NodeDevices
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.mig.host import MigHost
from tonnage.agent.mig.manager import MigWays, NodeMig
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.desired_layout import MigWish
from tonnage.model.actions.devices import MigStep, ResetGpu
from tonnage.model.devices.sharing import Hold, PluginConfig
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.mig.layouts import DividedGpu, MigState, MigWork
from tonnage.model.reasons.gpu.mig import MigNodeNotPaused, MigPodNotEvicted
from tonnage.ports.node import DeviceBackend
from tonnage.twin.clock import VirtualClock


class KilledError(BaseException):
    """The agent is no more."""


class Machine:
    """What outlives an agent: GPUs and the disk.

    The agent is killed at number `fuse`: numbers are before and after each effect, from 0.
    """

    def __init__(self, backend: DeviceBackend, *, threads: bool = False) -> None:
        self.backend = backend
        self.threads = threads
        """Whether it takes other threads, so that time must not run away from them."""
        self.disk: dict[str, bytes] = {}
        self.fuse = 1 << 30
        self.steps: list[MigStep] = []
        self.refuse: Callable[[MigStep], str] = lambda _: ""
        self.full = False
        self.running: set[str] = set()
        """Services of the host that run."""
        self.ran: list[str] = []
        """Commands of the host, in order."""
        self.fails: Callable[[str], str] = lambda _: ""
        self.boot = "1"
        self.boards: dict[str, tuple[str, ...]] = {}
        """GPUs that a restart resets, each with those of its board."""

    async def ask(self, command: str, arguments: Sequence[str] = (), **_: Any) -> str:
        """systemctl show."""
        line = " ".join((command, *arguments))
        if why := self.fails(line):
            raise HardwareError(Problem(f"{command} failed", why=why))
        return "active\n" if arguments[-1] in self.running else "inactive\n"

    async def run(self, command: str, arguments: Sequence[str] = (), **_: Any) -> str:
        """As a host does: systemctl, and hooks that do nothing."""
        line = " ".join((command, *arguments))
        if why := self.fails(line):
            raise HardwareError(Problem(f"{command} failed", why=why))
        self.burn()
        self.ran.append(line)
        if line.startswith("systemctl stop"):
            self.running.discard(arguments[-1])
        elif line.startswith("systemctl start"):
            self.running.add(arguments[-1])
        elif line == "systemctl reboot":
            self.boot += "1"
            for uuid, others in self.boards.items():
                await self.backend.apply(ResetGpu(uuid, others))
            raise KilledError
        self.burn()
        return ""

    def burn(self) -> None:
        """Before and after each effect."""
        self.fuse -= 1
        if self.fuse < 0:
            raise KilledError

    async def load(self, name: str) -> bytes | None:
        return self.disk.get(name)

    async def save(self, name: str, payload: bytes, *, lasting: bool = True) -> None:
        self.burn()
        if self.full:
            raise HardwareError(Problem("the disk is full"))
        self.disk[name] = payload
        self.burn()

    async def divided(self) -> tuple[DividedGpu, ...]:
        return await self.backend.divided()

    async def apply(self, step: MigStep) -> None:
        if why := self.refuse(step):
            raise HardwareError(Problem("it is refused", why=why))
        self.burn()
        self.steps.append(step)
        await self.backend.apply(step)
        self.burn()

    async def layout(self, uuid: str = "GPU-0") -> list[tuple[str, int, tuple[int, ...]]]:
        """(profile, start, compute slices) of the GPU's instances."""
        gpu = next(gpu for gpu in await self.divided() if gpu.uuid == uuid)
        return sorted((one.profile, one.start, one.slices) for one in gpu.instances)


class CountedTopic(Topic[MigWish | None]):
    """Counts how often its value is asked for."""

    reads = 0

    @property
    def value(self) -> MigWish | None:
        self.reads += 1
        return super().value


class Agent:
    """One life of the loop, with the devices' own loop beside it."""

    def __init__(
        self,
        machine: Machine,
        clock: VirtualClock,
        wish: MigWish | None,
        *,
        evicts: bool = False,
        reboots: bool = False,
        pause_and_wait: Callable[[], Awaitable[MigNodeNotPaused | None]] | None = None,
    ) -> None:
        context = context_of(
            *("n", None, clock, cast(Any, machine)), devices=cast(Any, machine), host=cast(Any, machine)
        )
        self.machine, self.clock = machine, clock
        self.asked_wishes = CountedTopic(clock, wish)
        self.board = replace(NodeBoard.blank(clock), mig_wish=self.asked_wishes)
        self.board.configuration.publish(ConfigInForce(PluginConfig(), ConfigChoice("", "built-in")))
        self.holds = ()
        self.devices = NodeDevices(context, self.board, machine.backend)
        self.host: MigHost | None = None
        if reboots or (wish is not None and not wish.host.nothing):
            self.host = MigHost(context, self.board, cast(Any, machine))
        self.ledger = HoldLedger(context, self.board)
        self.said: list[tuple[str, str]] = []
        self.offered: list[dict[str, bool]] = []
        """Which devices were healthy, after every change."""
        ways = MigWays(
            self._evict if evicts else None, pause_and_wait, self.host, machine.boot if reboots else ""
        )
        self.mig = NodeMig(context, self.board, cast(Any, machine), self.devices, self.ledger, ways)
        self.board.mig_standing.subscribe(self._said)
        self.board.inventory.subscribe(self._changed)
        self.works: list[MigWork] = []
        """What was done, one after another."""
        self.board.mig_work.subscribe(lambda: self.works.append(self.work))
        self.asked: list[tuple[str, str]] = []
        """Pods that were asked to leave, and what they answer in turn."""
        self.answers: list[MigPodNotEvicted | None] = []

    async def _evict(self, namespace: str, name: str) -> MigPodNotEvicted | None:
        self.asked.append((namespace, name))
        return self.answers.pop(0)

    @property
    def wish(self) -> MigWish | None:
        return self.asked_wishes.fact.value

    @wish.setter
    def wish(self, wish: MigWish | None) -> None:
        self.board.mig_wish.publish(wish)

    @property
    def holds(self) -> tuple[Hold, ...]:
        return self.board.holds.value.holds

    @holds.setter
    def holds(self, holds: tuple[Hold, ...]) -> None:
        self.board.holds.publish(DeviceHolds(holds, settled=True))

    @property
    def withheld(self) -> Mapping[str, tuple[int, ...]]:
        return self.board.withheld.value

    @property
    def work(self) -> MigWork:
        return self.board.mig_work.value

    def _said(self) -> None:
        standing = self.board.mig_standing.value
        assert standing is not None
        self.said.append((standing.state, standing.reason))

    def _changed(self) -> None:
        inventory = self.board.inventory.value
        assert inventory is not None
        migs = [mig for device in inventory.devices for mig in device.migs]
        self.offered.append({mig.uuid: mig.healthy for mig in migs})

    async def live(self, until: Callable[[], object]) -> None:
        """Until that is so. Raises KilledError."""
        await self.mig.restore()
        await self.devices.rescan()
        task = asyncio.create_task(self._run())
        try:
            for _ in range(20_000):
                if task.done() or until():
                    break
                if self.machine.threads:
                    await asyncio.sleep(0.001)
                await self.clock.advance(0.05 if self.machine.threads else 0.5)
            else:
                raise AssertionError((self.said, self.machine.steps))
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        if self.host is None:
            await self.mig.run()
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.host.run())
                group.create_task(self.mig.run())
        except BaseExceptionGroup as ended:
            raise ended.exceptions[0] from None

    async def ends(self) -> None:
        """Until it has said how it ended. Raises KilledError."""
        await self.live(lambda: self.over)

    @property
    def state(self) -> str:
        standing = self.board.mig_standing.value
        return "" if standing is None else standing.state

    @property
    def over(self) -> bool:
        """It has said how it ended."""
        return self.state in (MigState.SUCCESS, MigState.FAILED)
