"""The node's software is followed: told late, configured anew, looked at seldom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.status.node_software import SoftwareWatch
from tonnage.model.drivers.node import HostSystem
from tonnage.model.node.runtime_config import NodeRuntime, RuntimeConfig, RuntimeKind
from tonnage.model.node.software import KubeletPolicies, Switch


@dataclass
class Files:
    """What is seen; each look is counted."""

    seen: NodeRuntime = field(default_factory=NodeRuntime)
    told: KubeletPolicies = field(default_factory=KubeletPolicies)
    looks: int = 0

    async def look(self) -> NodeRuntime:
        self.looks += 1
        return self.seen

    async def host(self) -> HostSystem:
        return HostSystem(kernel="6.1")

    async def policies(self) -> KubeletPolicies:
        return self.told


class Beats:
    """A clock whose sleepers are let go one beat at a time."""

    def __init__(self, clock: Any) -> None:
        self.now = clock.now
        self._waiting: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        self.asked_s: list[float] = []

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.asked_s.append(seconds)
        event = asyncio.Event()
        self._waiting.put_nowait(event)
        await event.wait()

    async def beat(self, count: int = 1) -> None:
        """Return once the loop sleeps again."""
        for _ in range(count):
            (await self._waiting.get()).set()
        self._waiting.put_nowait(await self._waiting.get())


class Scene:
    def __init__(self, cluster: Any, clock: Any, folder: Path) -> None:
        self.beats = Beats(clock)
        context = context_of("n", cluster, self.beats, FolderCheckpoints(folder))
        self.files = Files()
        self.board = NodeBoard.blank(self.beats)
        self.board.software.subscribe(self._changed)
        self.changes = 0
        self.watch = SoftwareWatch(context, self.board, self.files)

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
async def scene(cluster: Any, clock: Any, tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(cluster, clock, tmp_path)
    task = asyncio.create_task(scene.watch.run())
    yield scene
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_the_node_says_later_is_known_at_once(scene: Scene) -> None:
    await scene.beats.beat()
    assert scene.board.software.value.kubelet_version == "unknown"
    scene.board.node_versions.publish(("v1.35.8", "containerd://2.2.1"))
    current = scene.board.software.value
    assert (current.kubelet_version, current.runtime.name, current.runtime.version) == (
        *("1.35.8", "containerd"),
        "2.2.1",
    )
    assert scene.files.looks == 1


async def test_files_are_looked_at_seldom_and_only_a_change_is_told(scene: Scene) -> None:
    scene.board.node_versions.publish(("v1.35.8", "containerd://2.2.1"))
    await scene.beats.beat()
    scene.changes = 0
    off = RuntimeConfig(RuntimeKind.CONTAINERD, ("/c",), cdi=False, cdi_where="/c:1")
    scene.files.seen = NodeRuntime(configs=(off,))
    scene.files.told = KubeletPolicies("restricted")
    assert (scene.files.looks, scene.changes) == (1, 0)
    await scene.beats.beat(2)
    assert (scene.files.looks, scene.changes) == (3, 1)
    assert scene.beats.asked_s == [1.5, 60.0, 60.0, 60.0]
    assert scene.board.software.value.runtime.cdi is Switch.OFF
    assert scene.board.software.value.policies.topology_manager == "restricted"


async def test_where_nothing_is_published_nothing_is_looked_at(clock: Any, tmp_path: Path) -> None:
    scene = Scene(None, clock, tmp_path)
    await scene.watch.run()
    assert scene.files.looks == 0
