"""A node of the twin, with its kubelet and a real agent, is taken over from another plugin and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from support.fake_plugin import FakePlugin
from support.fleet import SCENARIO, Fleet, running_fleet
from support.nvidia_operator import LABELS, OPERATOR, SETS
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.kubelet.device_holders import KubeletFiles
from tonnage.cli.operator.handover import Direction, Handover, HandoverOptions, NodeEnd
from tonnage.model.errors import ClusterError
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.kinds import DAEMON_SET, DEPLOYMENT, NAMESPACE, NODE

GPU: Final = "nvidia.com/gpu"
THEIRS: Final = "example/k8s-device-plugin"
NODE_NAME: Final = "t4-0"
WAITS: Final = (
    '[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--wait-for-adoption"}]'
)


@dataclass
class Plugins:
    """NVIDIA's plugin as a program of the node."""

    uuids: list[str] = field(default_factory=list)
    running: list[FakePlugin] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """What must never be."""

    async def run(self, context: ContainerContext) -> int:
        """What its container runs."""
        plugin = FakePlugin(NodePaths(context.node_root), GPU, dict.fromkeys(self.uuids, True))
        await plugin.start()
        await plugin.register()
        self.running.append(plugin)
        try:
            await asyncio.Event().wait()
        finally:
            await plugin.stop()
            self.running.remove(plugin)
        return 0

    @asynccontextmanager
    async def looked_at(self, fleet: Fleet) -> AsyncIterator[None]:
        """Look again and again meanwhile."""
        task = asyncio.create_task(self._look(fleet))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _look(self, fleet: Fleet) -> None:
        paths = NodePaths(fleet.gpu_node.root)
        kubelet = KubeletFiles(paths.root / "var/lib/kubelet")
        try:
            while True:
                with suppress(ClusterError):
                    node = await fleet.api.get(NODE, NODE_NAME)
                    if (paths.device_plugins / "nvidia-gpu.sock").exists() and self.running:
                        self.wrong.append("two plugins")
                    if not await kubelet.replicas() and not node.spec.unschedulable:
                        self.wrong.append("no devices, and not cordoned")
                await asyncio.sleep(0.02)
        finally:
            await kubelet.close()


@pytest.fixture
async def plugins() -> Plugins:
    return Plugins()


@pytest.fixture
async def fleet(plugins: Plugins) -> AsyncIterator[Fleet]:
    """NVIDIA's plugin serves, and an agent waits."""
    async with running_fleet(SCENARIO, {THEIRS: plugins.run}) as fleet:
        await fleet.until(lambda: _offers(fleet, 2))
        await fleet.until(lambda: _reports(fleet))
        plugins.uuids = [device["uuid"] for device in (await fleet.gpu_status())["devices"]]
        agents = ("ds", "tonnage-agent", "-n", "tonnage-system")
        await fleet.kubectl("patch", *agents, "--type=json", "-p", WAITS)
        await fleet.until(lambda: _offers(fleet, 0))
        await _install(fleet)
        await fleet.until(lambda: _offers(fleet, 2))
        yield fleet
    assert plugins.wrong == []


async def _offers(fleet: Fleet, count: int) -> bool:
    nodes = {node.metadata.name: node.status for node in (await fleet.api.list(NODE)).items}
    return NODE_NAME in nodes and nodes[NODE_NAME].allocatable.get(GPU) == str(count)


async def _reports(fleet: Fleet) -> bool:
    return bool(await fleet.gpu_status())


async def _install(fleet: Fleet) -> None:
    """NVIDIA's operator, without what it does beside, and its plugin's DaemonSet."""
    labels = {"app": "gpu-operator", "app.kubernetes.io/component": "gpu-operator"}
    container = {"name": "main", "image": "example/operator:1", "command": ["sleep", "infinity"]}
    await fleet.api.create(NAMESPACE, {"metadata": {"name": OPERATOR}})
    template: Any = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec: Any = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    body: Any = {"metadata": {"name": "gpu-operator", "labels": labels}, "spec": spec}
    await fleet.api.create(DEPLOYMENT, body, namespace=OPERATOR)
    name = SETS["device-plugin"]
    plugin = {"name": "main", "image": f"{THEIRS}:1", "command": ["nvidia-device-plugin"]}
    pods: Any = {"nodeSelector": {"nvidia.com/gpu.deploy.device-plugin": "true"}, "containers": [plugin]}
    template = {"metadata": {"labels": {"app": name}}, "spec": pods}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    await fleet.api.create(DAEMON_SET, {"metadata": {"name": name}, "spec": spec}, namespace=OPERATOR)
    await fleet.api.patch(NODE, NODE_NAME, {"metadata": {"labels": dict(LABELS)}})


async def test_the_agent_takes_the_place_of_another_plugin_and_gives_it_back(
    fleet: Fleet, plugins: Plugins
) -> None:
    """Never are two registered, and never is a node without devices that pods may be bound to."""
    said: list[str] = []

    async def hand_over(direction: Direction) -> None:
        options = HandoverOptions(patience_s=60.0)
        handover = Handover(
            fleet.api, SystemClock(), options, lambda node, words: said.append(f"{node}: {words}")
        )
        async with plugins.looked_at(fleet):
            ends = await handover.run(direction)
        assert {name: end for name, (end, _) in ends.items()} == {NODE_NAME: NodeEnd.DONE}, (ends, said)

    await hand_over(Direction.ADOPT)
    assert plugins.running == []
    assert (await fleet.gpu_status())["resources"][0]["allocatable"] == 2
    assert await _offers(fleet, 2)

    await hand_over(Direction.RELEASE)
    assert len(plugins.running) == 1
    assert (await fleet.gpu_status())["resources"] == []
    assert await _offers(fleet, 2)
