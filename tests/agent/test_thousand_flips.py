"""A thousand changes of the configuration under one agent on real sockets: it grows in nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.kubelet_side import GPU, SHARED, Kubelet, healthy
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.wire.kinds import NODE

pytestmark = pytest.mark.long

FLIPS = 1000
SETTLED = 300
"""From here on nothing may grow."""
STEP = 20
"""After so many flips in a row the agent is let catch up, so that each kind of change is gone through."""
GARBAGE = "sharing: [\x01"


def text(turn: int) -> str:
    """Every third is refused, the others offer one resource or another."""
    match turn % 3:
        case 0:
            return "version: v1\n"
        case 1:
            entry = f"{{name: nvidia.com/gpu, replicas: {2 + turn % 7}}}"
            return f"version: v1\nsharing: {{timeSlicing: {{renameByDefault: true, resources: [{entry}]}}}}"
        case _:
            return GARBAGE


@dataclass(frozen=True)
class Size:
    """What an agent could leave behind after each flip."""

    files: int
    threads: int
    """Without those of asyncio's pool, which makes another when all are busy, up to a bound."""
    tasks: int
    sockets: frozenset[str]
    objects: int
    resident_mib: int

    def beyond(self, before: Size) -> dict[str, tuple[object, object]]:
        """What has grown, before and now."""
        bounds = {
            "files": self.files <= before.files,
            "threads": self.threads <= before.threads,
            "tasks": self.tasks <= before.tasks,
            "sockets": self.sockets == {"kubelet.sock", "nvidia-gpu.sock"},
            "objects": self.objects <= before.objects + FLIPS - SETTLED,
            "resident_mib": self.resident_mib <= before.resident_mib + 8,
        }
        return {name: (getattr(before, name), getattr(self, name)) for name, ok in bounds.items() if not ok}


@dataclass
class Node:
    root: Path
    kubelet: Kubelet
    cluster: Any

    async def caught_up(self, resource: str, count: int) -> None:
        """Return once so many devices are offered under that name alone."""
        await self.kubelet.devices(resource, until=lambda told: len(healthy(told)) == count)

    def flip(self, turn: int) -> None:
        self.cluster.configs(default=text(turn))

    def forget(self) -> None:
        """What this side of the sockets keeps is none of the agent's."""
        said: tuple[asyncio.Queue[Any], ...] = (*self.kubelet.lists.values(), self.kubelet.requests)
        for queue in said:
            while not queue.empty():
                queue.get_nowait()
        self.kubelet.tasks = [task for task in self.kubelet.tasks if not task.done()]

    def size(self) -> Size:
        self.forget()
        gc.collect()
        return Size(
            len([*Path("/proc/self/fd").iterdir()]),
            sum(not thread.name.startswith("asyncio_") for thread in threading.enumerate()),
            len(asyncio.all_tasks()),
            frozenset(file.name for file in self.kubelet.plugins.iterdir()),
            len(gc.get_objects()),
            int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20,
        )


@pytest.fixture
async def node(cluster: Any, clock: Any, hardware: Path) -> AsyncIterator[Node]:
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    made = Node(root, Kubelet(root), cluster)
    cluster.put(NODE, "node-1")
    made.flip(0)
    await made.kubelet.start()
    agent = asyncio.create_task(
        run_agent(AgentOptions("node-1", f"scenario:{hardware}", root), api=cluster, clock=clock)
    )
    try:
        yield made
    finally:
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)
        await made.kubelet.stop()
        shutil.rmtree(root)


async def test_of_a_thousand_flips_in_a_row_nothing_is_left(node: Node) -> None:
    await node.caught_up(GPU, 2)
    settled = None
    for turn in range(1, FLIPS + 1):
        node.flip(turn)
        if turn % STEP == 0:
            node.forget()
            node.flip(1)
            await node.caught_up(SHARED, 6)
            node.flip(0)
            await node.caught_up(GPU, 2)
        if turn == SETTLED:
            settled = node.size()
    assert settled is not None
    for _ in range(400):  # what was closed last may still be ending
        grown = node.size().beyond(settled)
        if not grown:
            break
        await asyncio.sleep(0.05)
    assert not grown
