"""`auto` is settled, said, followed and remembered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.events import NodeEvents
from tonnage.agent.plugin.device_list import CHECKPOINT, DeviceLists
from tonnage.agent.status.node_condition import applied
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.model.devices.sharing import DeviceListStrategy, PluginConfig
from tonnage.model.node.runtime_config import NodeRuntime, RuntimeConfig, RuntimeKind

AUTO = PluginConfig(device_list=(DeviceListStrategy.AUTO,))
NEW = {"kubeletVersion": "v1.35.8", "containerRuntimeVersion": "containerd://2.2.1"}
OLD = {"kubeletVersion": "v1.35.8", "containerRuntimeVersion": "containerd://1.7.24"}
OFF = RuntimeConfig(RuntimeKind.CONTAINERD, ("/c",), cdi=False, cdi_where="/c:1")


@dataclass
class Files:
    """What is seen; each look is counted."""

    seen: NodeRuntime = field(default_factory=NodeRuntime)
    looks: int = 0

    async def look(self) -> NodeRuntime:
        self.looks += 1
        return self.seen


class Posted(NodeEvents):
    """Keeps what is posted."""

    def __init__(self, clock: Any) -> None:
        super().__init__("n", None, clock)
        self.posted: list[tuple[str, str]] = []

    def post(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self.posted.append((reason, message))


class Node:
    def __init__(self, folder: Path, clock: Any, started: asyncio.Event | None = None) -> None:
        self.started = started or asyncio.Event()
        if started is None:
            self.started.set()
        self.files = Files()
        events = Posted(clock)
        self.posted = events.posted
        context = context_of("n", None, clock, FolderCheckpoints(folder), events, started=self.started)
        self.lists = DeviceLists(context, self.files)

    async def resolved(self) -> tuple[str, str]:
        config, why = await self.lists.resolved(AUTO)
        (strategy,) = config.device_list
        return strategy.value, why


async def test_nothing_is_looked_at_where_auto_is_not_asked_for(tmp_path: Path, clock: Any) -> None:
    node = Node(tmp_path, clock)
    asked = PluginConfig(device_list=(DeviceListStrategy.CDI_CRI, DeviceListStrategy.ENVVAR))
    assert await node.lists.resolved(asked) == (asked, "")
    assert not [True for _ in range(20) if await node.lists.changed()]
    assert node.files.looks == 0


async def test_the_node_and_its_files_are_followed_and_changes_are_events(tmp_path: Path, clock: Any) -> None:
    node = Node(tmp_path, clock)
    assert (await node.resolved())[0] == "envvar"
    node.lists.observe(NEW)
    assert await node.resolved() == ("cdi-cri", "cdi-cri: kubelet 1.35.8 and containerd 2.2.1 have CDI")
    assert node.posted == []
    node.files.seen = NodeRuntime(configs=(OFF,))
    assert sum([await node.lists.changed() for _ in range(20)]) == 1
    strategy, why = await node.resolved()
    assert (strategy, "switched off: /c:1" in why) == ("envvar", True)
    ((reason, text),) = node.posted
    assert reason == "DeviceListStrategyChanged"
    assert "auto is envvar now, not cdi-cri: containerd 2.2.1 has CDI switched off" in text
    node.lists.observe(OLD)
    assert (await node.resolved())[0] == "envvar"
    assert len(node.posted) == 1


async def test_what_it_came_to_outlives_a_restart_in_which_nobody_tells(tmp_path: Path, clock: Any) -> None:
    node = Node(tmp_path, clock)
    node.lists.observe(NEW)
    await node.resolved()
    again = Node(tmp_path, clock)
    strategy, why = await again.resolved()
    assert (strategy, why.startswith("cdi-cri: as before: ")) == ("cdi-cri", True)
    again.lists.observe({"kubeletVersion": "v1.35.8"})
    assert (await again.resolved())[0] == "cdi-cri"
    again.lists.observe(OLD)
    assert (await again.resolved())[0] == "envvar"


async def test_before_kubelet_knows_the_devices_what_was_kept_is_taken_without_a_look(
    tmp_path: Path, clock: Any
) -> None:
    node = Node(tmp_path, clock)
    node.lists.observe(NEW)
    await node.resolved()
    again = Node(tmp_path, clock, started=asyncio.Event())
    again.lists.observe(OLD)
    assert await again.resolved() == ("cdi-cri", "cdi-cri: as before")
    assert again.files.looks == 0
    again.started.set()
    assert (await again.resolved())[0] == "envvar"


async def test_what_was_kept_and_makes_no_sense_is_forgotten(tmp_path: Path, clock: Any) -> None:
    await FolderCheckpoints(tmp_path).save(CHECKPOINT, b"smoke-signals")
    assert (await Node(tmp_path, clock).resolved())[0] == "envvar"


async def test_a_disk_that_refuses_stops_nothing(tmp_path: Path, clock: Any) -> None:
    (tmp_path / "state").write_text("in the way")
    node = Node(tmp_path / "state", clock)
    node.lists.observe(NEW)
    assert (await node.resolved())[0] == "cdi-cri"


def test_the_condition_says_what_it_came_to() -> None:
    current = ConfigInForce(AUTO, ConfigChoice("", "m[a]"), device_list="envvar: docker may not have CDI")
    message = "in force: m[a]; deviceListStrategy auto is envvar: docker may not have CDI"
    assert applied(current).message == message
