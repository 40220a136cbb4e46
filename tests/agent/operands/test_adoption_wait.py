"""An agent that waits for its node's adoption, and what it asks of kubelet before it takes over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.operands.adoption import AdoptionWait
from tonnage.model.adoption import NOTE, PAUSED, AdoptionNote
from tonnage.model.errors import ClusterError, Problem
from tonnage.model.operands import SWITCHED
from tonnage.ports.node import KubeletDevices, Shown
from tonnage.twin.clock import VirtualClock
from tonnage.wire.objects import Node, ObjectMeta

GPU, PLUGIN = "nvidia.com/gpu", "nvidia.com/gpu.deploy.device-plugin"
THEIRS = AdoptionNote({PLUGIN: "true"}, {GPU: 4}, cordoned=True, namespace="gpu-operator")
POD = ("gpu-operator", "nvidia-device-plugin-daemonset-x7k2p")
OFF = frozenset(SWITCHED)


class Kubelet:
    """Has devices and pods, or is silent. A list is never asked for while there is something to allocate."""

    def __init__(self) -> None:
        self.resources = {GPU, "nvidia.com/hostdev"}
        self.pods = {
            POD,
            ("default", "nvidia-device-plugin-daemonset-mine"),
            ("gpu-operator", "nvidia-dcgm-a"),
        }
        self.silent = False
        self.disturbed = False

    async def replicas(self) -> dict[tuple[str, str], int]:
        if self.silent:
            raise ClusterError(Problem("silent"))
        return {(name, "GPU-0"): 1 for name in self.resources}

    async def shown(self) -> Shown:
        self.disturbed = self.disturbed or GPU in self.resources
        return Shown((), frozenset(self.pods))


class Waiting:
    """The agent's part, and the Node as it sees it."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.board = NodeBoard.blank(self.clock)
        self.kubelet = Kubelet()
        context = context_of("n", None, self.clock, FolderCheckpoints(folder))
        self.wait = AdoptionWait(context, self.board, cast(KubeletDevices, self.kubelet))

    async def show(self, note: AdoptionNote | None = None, *, adopted: bool) -> frozenset[str]:
        """The parts that are off once the Node says so."""
        labels = {PLUGIN: PAUSED, **({"tonnage.dev/adopted": "true"} if adopted else {})}
        annotations = {} if note is None else {NOTE: note.to_text()}
        self.board.node.publish(Node(metadata=ObjectMeta(name="n", labels=labels, annotations=annotations)))
        return await self.off()

    async def off(self) -> frozenset[str]:
        await self.clock.advance(1)
        return self.board.parts_off.value


@pytest.fixture
async def waiting(tmp_path: Path) -> AsyncIterator[Waiting]:
    scene = Waiting(tmp_path)
    task: asyncio.Task[Any] = asyncio.create_task(scene.wait.run())
    yield scene
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_parts_are_off_until_the_node_is_adopted_and_after_it_was_released(waiting: Waiting) -> None:
    assert await waiting.off() == OFF, "before the Node is seen"
    assert await waiting.show(adopted=False) == OFF
    assert not await waiting.show(adopted=True)
    waiting.board.node.publish(None)
    assert not await waiting.off(), "a Node that is away for a moment says nothing new"
    assert await waiting.show(adopted=False) == OFF, "released"


async def test_parts_wait_until_the_other_plugin_has_left(waiting: Waiting) -> None:
    assert await waiting.show(THEIRS, adopted=True) == OFF
    waiting.kubelet.resources.discard(GPU)
    assert await waiting.off() == OFF, "its pod has not ended: all its devices may be unhealthy"
    waiting.kubelet.pods.discard(POD)
    waiting.kubelet.silent = True
    assert await waiting.off() == OFF, "nobody says that it has left"
    waiting.kubelet.silent = False
    assert not await waiting.off()
    waiting.kubelet.resources.add(GPU)
    assert not await waiting.show(THEIRS, adopted=True), "these are its own"
    assert not waiting.kubelet.disturbed


async def test_a_release_ends_the_wait(waiting: Waiting) -> None:
    assert await waiting.show(THEIRS, adopted=True) == OFF
    assert await waiting.show(THEIRS, adopted=False) == OFF
    waiting.kubelet.resources.clear()
    waiting.kubelet.pods.clear()
    assert await waiting.off() == OFF


async def test_an_agent_that_starts_on_an_adopted_node_asks_nobody(waiting: Waiting) -> None:
    waiting.kubelet.silent = True
    proven = AdoptionNote({PLUGIN: "true"}, {GPU: 4}, cordoned=False, proven=True)
    assert not await waiting.show(proven, adopted=True)
