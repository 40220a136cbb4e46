"""A pretended device and one behind NVML, with an agent that judges their health."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from support.agent_context import context_of
from support.driver_root import Driver
from support.nvml.state import FakeGpu, Rule
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.agent.board import NodeBoard
from tonnage.agent.devices import CHECKPOINT, NodeDevices
from tonnage.agent.events import NodeEvents
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.model.devices.health import HealthPolicy
from tonnage.model.devices.inventory import Device, MigDevice
from tonnage.model.devices.sharing import PluginConfig
from tonnage.ports.clock import Clock
from tonnage.ports.node import DeviceBackend
from tonnage.twin.devices.scenario import ScenarioBackend

PATIENCE_S = 60.0
NEVER_S = 1e9
SOON = HealthPolicy(steady_s=5, recover_after_s=20)
ONLY_RESETS = HealthPolicy(steady_s=5, recover_after_s=NEVER_S)


class FastClock:
    """Time that passes twenty times as fast."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() * 20

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


class StillClock(FastClock):
    """Time in which nobody who waits for the next beat wakes up; shorter pauses pass."""

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await (asyncio.sleep(0) if seconds < 1 else asyncio.Event().wait())


class Machine(Protocol):
    """Four devices, GPU-0 to GPU-3, to which things happen."""

    def backend(self) -> DeviceBackend: ...
    def fail(self, index: int, how: Literal["lost", "hung"]) -> None: ...
    def recover(self, index: int) -> None: ...
    def report(self, index: int, xid: int) -> None: ...
    def tell(self, index: int, *, ecc: int = 0, remap: str = "none", action: int = 0) -> None: ...
    def exchange(self, index: int, uuid: str) -> None: ...
    def reboot(self) -> None: ...


class ScenarioMachine:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "hardware.json"
        self.boots = 1
        self.devices: list[dict[str, Any]] = [
            {"uuid": f"GPU-{i}", "model": "H100-80", "xids": []} for i in range(4)
        ]
        self._write()

    def _write(self) -> None:
        made = self.file.with_suffix(".new")
        made.write_text(json.dumps({"boot": str(self.boots), "devices": self.devices}))
        made.replace(self.file)

    def backend(self) -> DeviceBackend:
        return ScenarioBackend(self.file, FastClock())

    def fail(self, index: int, how: Literal["lost", "hung"]) -> None:
        self.devices[index]["health"] = how
        self._write()

    def recover(self, index: int) -> None:
        self.devices[index]["health"] = "healthy"
        self._write()

    def report(self, index: int, xid: int) -> None:
        self.devices[index]["xids"].append(xid)
        self._write()

    def tell(self, index: int, *, ecc: int = 0, remap: str = "none", action: int = 0) -> None:
        names = ["none", "gpu-reset", "node-reboot"]
        self.devices[index] |= {"eccUncorrected": ecc, "rowRemap": remap, "recoveryAction": names[action]}
        self._write()

    def exchange(self, index: int, uuid: str) -> None:
        self.devices[index] = {"uuid": uuid, "model": "H100-80", "xids": []}
        self._write()

    def reboot(self) -> None:
        self.boots += 1
        self._write()


class NvmlMachine:
    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def backend(self) -> DeviceBackend:
        root = self.driver.root
        return NvmlBackend(FastClock(), root=root, driver_root=root, deadline_s=1.0)

    def fail(self, index: int, how: Literal["lost", "hung"]) -> None:
        if how == "lost":
            self.driver.lose(index)
        else:
            self.driver.rule(Rule("hang", "*", index))

    def recover(self, index: int) -> None:
        self.driver.rule()
        self.driver.recover(index)

    def report(self, index: int, xid: int) -> None:
        self.driver.xid(index, xid)

    def tell(self, index: int, *, ecc: int = 0, remap: str = "none", action: int = 0) -> None:
        self.driver.change(
            index,
            ecc_uncorrected_volatile=ecc,
            remap_pending=int(remap == "pending"),
            remap_failure=int(remap == "failed"),
            recovery_action=action,
        )

    def exchange(self, index: int, uuid: str) -> None:
        self.driver.become(self.driver.state.with_gpu(FakeGpu(index, uuid=uuid)))

    def reboot(self) -> None:
        self.driver.reboot()


class Posted(NodeEvents):
    """Events as they are posted."""

    def __init__(self) -> None:
        super().__init__("n", None, FastClock())
        self.posted: list[tuple[str, str]] = []

    def post(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self.posted.append((reason, message))


class Agent:
    """The loop that watches devices, with a disk that outlives it."""

    def __init__(self, machine: Machine, disk: Path, policy: HealthPolicy | None, clock: Clock) -> None:
        self.backend = machine.backend()
        self.events = Posted()
        self.changed = asyncio.Event()
        context = context_of("n", None, clock, FolderCheckpoints(disk), self.events)
        self.board = NodeBoard.blank(clock)
        self.devices = NodeDevices(context, self.board, self.backend)
        self.board.inventory.subscribe(self.changed.set)
        self.judge_by(policy)
        self.context = context

    def judge_by(self, policy: HealthPolicy | None) -> None:
        if policy is not None:
            config = PluginConfig(health=policy)
            self.board.configuration.publish(ConfigInForce(config, ConfigChoice("", "built-in")))

    def faulty(self) -> dict[str, str]:
        """Why what is unhealthy is: devices and MIG devices by uuid."""
        assert self.board.inventory.value is not None
        found: dict[str, str] = {}
        for device in self.board.inventory.value.devices:
            parts: tuple[Device | MigDevice, ...] = (device, *device.migs)
            found |= {part.uuid: part.reason for part in parts if not part.healthy}
        return found

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.board.inventory.value is None or not condition():
                self.changed.clear()
                await self.changed.wait()

    async def until_faulty(self, *uuids: str) -> dict[str, str]:
        """The reasons, once these are faulty and nothing else is."""
        await self.until(lambda: self.faulty().keys() == set(uuids))
        return self.faulty()

    async def until_kept(self, text: str) -> None:
        """Return once it is on disk."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in (await self.context.checkpoints.load(CHECKPOINT) or b"").decode():  # noqa: ASYNC110
                await asyncio.sleep(0)


@asynccontextmanager
async def running(
    machine: Machine, disk: Path, policy: HealthPolicy = SOON, clock: Clock | None = None
) -> AsyncIterator[Agent]:
    agent = Agent(machine, disk, policy, clock or FastClock())
    task = asyncio.create_task(agent.devices.run())
    try:
        await agent.until(lambda: True)
        yield agent
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await agent.backend.close()
