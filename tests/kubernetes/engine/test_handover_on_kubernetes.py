"""Nodes change hands on a genuine control plane, beside an operator that rewrites what it finds changed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from support.genuine import GenuinePlane, control_plane
from support.genuine_operator import GenuineFleet
from support.leftovers import own_folder
from support.nvidia_operator import LABELS, OPERATOR, SETS
from tonnage.adapters.kubernetes.client import connect
from tonnage.wire.kinds import DAEMON_SET, NODE

pytestmark = pytest.mark.kubernetes

ROLE = Path(__file__).parents[3] / "docs/how-to/adopt-role.yaml"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
DCGM = "nvidia.com/gpu.deploy.dcgm"
NOTE = "tonnage.dev/adoption"
LIMIT_S = 180.0


class Fleet:
    """The cluster, and a user of no more rights than the how-to gives."""

    def __init__(self, plane: GenuinePlane, operated: GenuineFleet) -> None:
        self.plane = plane
        self.operated = operated

    def give_rights(self) -> None:
        self._ask("apply", "-f", str(ROLE))
        self._ask("create", "clusterrolebinding", "a", "--clusterrole=tonnage-adopt", "--user=jane")
        for namespace in (OPERATOR, "tonnage-system"):
            role = "--clusterrole=tonnage-adopt-namespaces"
            self._ask("create", "rolebinding", "a", role, "--user=jane", "-n", namespace)

    def _ask(self, *arguments: str) -> None:
        done = self.plane.ask(*arguments)
        assert done.returncode == 0, done.stderr

    async def begin(self, *arguments: str) -> Process:
        command = ["-m", "tonnage", "operator", *arguments]
        where = ["--kubeconfig", str(self._kubeconfig())]
        return await asyncio.create_subprocess_exec(
            sys.executable, *command, *where, stdout=PIPE, stderr=PIPE, env={**os.environ}
        )

    def _kubeconfig(self) -> Path:
        """The user's: an administrator's that acts as her."""
        config = yaml.safe_load(self.plane.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"]["as"] = "jane"
        file = self.plane.kubeconfig.with_name("jane")
        file.touch(mode=0o600)
        file.write_text(json.dumps(config), encoding="utf-8")
        return file

    async def run(self, *arguments: str) -> str:
        process = await self.begin(*arguments)
        async with asyncio.timeout(LIMIT_S):
            out, err = await process.communicate()
        assert process.returncode == 0, out.decode() + err.decode()
        return out.decode()

    async def kill_once_noted(self, node: str, *arguments: str) -> None:
        """Kill the command as soon as it has written its note on the node."""
        process = await self.begin(*arguments)
        async with asyncio.timeout(LIMIT_S):
            while NOTE not in (await self.operated.nodes())[node].metadata.annotations:
                assert process.returncode is None, (await process.communicate())[1].decode()
                await asyncio.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        await process.communicate()


@pytest.fixture
def plane() -> Iterator[GenuinePlane]:
    with own_folder() as folder, control_plane(folder) as plane:
        plane.programs.run_loops()
        yield plane


@pytest.fixture
async def fleet(plane: GenuinePlane) -> AsyncIterator[Fleet]:
    async with connect(plane.kubeconfig) as api:
        operated = GenuineFleet(api)
        try:
            await operated.install("a", "b")
            yield Fleet(plane, operated)
        finally:
            await operated.close()
    assert operated.wrong == []


async def test_nodes_are_adopted_and_released(fleet: Fleet) -> None:
    """By a user with the role of the how-to; the command is killed on the way once."""
    operated = fleet.operated
    fleet.give_rights()
    await operated.api.patch(NODE, "a", {"metadata": {"labels": {DCGM: "false"}}})
    await operated.until_rewritten("a", DCGM)
    first = await operated.api.get(DAEMON_SET, SETS["dcgm"], OPERATOR)
    await operated.api.delete(DAEMON_SET, SETS["dcgm"], namespace=OPERATOR)
    await operated.until_made_anew(SETS["dcgm"], first.metadata.uid)

    await fleet.kill_once_noted("a", "adopt")
    assert "2 of 2 nodes are done." in await fleet.run("adopt", "--parallel", "2")
    nodes = await operated.nodes()
    assert {node.metadata.labels[PLUGIN] for node in nodes.values()} == {"paused-for-tonnage"}
    assert {node.metadata.labels["tonnage.dev/adopted"] for node in nodes.values()} == {"true"}
    assert not any(node.spec.unschedulable for node in nodes.values())
    assert (await operated.plugins(), await operated.replicas()) == ([], 0)

    assert "2 of 2 nodes are done." in await fleet.run("release", "--parallel", "2")
    await operated.until_plugins("a", "b")
    for node in (await operated.nodes()).values():
        assert LABELS.items() <= node.metadata.labels.items()
        assert NOTE not in node.metadata.annotations
        assert not node.spec.unschedulable
    assert await operated.replicas() == 1
