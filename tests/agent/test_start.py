"""An agent that cannot read its devices at start ends where it was told to, and waits otherwise."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.agent.board import NodeBoard
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.agent.startup import end_without_devices
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import HardwareError
from tonnage.model.node.plugin_settings import Override

ENDS = Override(("flags", "failOnInitError"), True, "--fail-on-init-error")


def says(board: NodeBoard, ends: bool) -> None:
    """The configuration does."""
    board.configuration.publish(ConfigInForce(PluginConfig(fail_on_init_error=ends), ConfigChoice("", "f")))


@dataclass
class Turns:
    """A clock on which each sleep is a turn of the story."""

    story: Iterator[None] = field(default_factory=lambda: iter(()))

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, _seconds: float) -> None:
        next(self.story)


def told(board: NodeBoard, story: Iterator[None]) -> None:
    """Run it through the story. Raises StopIteration as RuntimeError where it still waits at the end."""
    loop: Any = end_without_devices
    asyncio.run(loop(Turns(story), board, ()))


def test_it_ends_as_soon_as_what_is_asked_for_says_so() -> None:
    board = NodeBoard.blank(SystemClock())
    board.devices_error.publish("no driver")
    seen: list[str] = []

    def story() -> Iterator[None]:
        says(board, True)
        seen.append("what ran last says so, which does not count")
        yield
        board.config_confirmed.publish(value=True)
        seen.append("so does what is asked for")
        yield

    with pytest.raises(HardwareError, match="failOnInitError is true") as caught:
        told(board, story())
    assert (len(seen), caught.value.problems[0].why) == (2, "no driver")
    assert caught.value.exit_status == 3


def test_it_waits_where_it_is_not_told_to_end_and_a_driver_that_goes_later_does_not_count() -> None:
    board = NodeBoard.blank(SystemClock())
    board.devices_error.publish("no driver")
    board.config_confirmed.publish(value=True)
    says(board, False)

    def story() -> Iterator[None]:
        yield
        board.inventory.publish(Inventory())
        board.devices_error.publish("")
        yield

    told(board, story())  # it is over: nothing that comes later ends the agent


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


async def test_the_whole_agent_ends_with_the_reason(folder: Path) -> None:
    missing = folder / "hardware.yaml"
    options = AgentOptions("node-1", f"scenario:{missing}", folder, overrides=(ENDS,))
    with pytest.raises(HardwareError, match=r"failOnInitError is true") as caught:
        async with asyncio.timeout(60):
            await run_agent(options, api=None, clock=SystemClock())
    assert str(missing) in caught.value.problems[0].why
    assert caught.value.problems[0].where == "--fail-on-init-error"
    assert "failOnInitError: false to wait for the driver" in caught.value.problems[0].remedy
