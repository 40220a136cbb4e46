"""The exporter as a process of its own: it asks kubelet and the driver, and advertises nothing."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from support.agent_context import context_of
from support.kubelet_side import Bench, bench_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.kubelet.device_holders import replicas_in
from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.alone import LoneExporter
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions, wrong_options
from tonnage.model.devices.inventory import Device, Inventory, RawEvent, RawEventKind
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.errors import ClusterError, HardwareError, Problem
from tonnage.model.node.telemetry import PodIdentity
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.ports.node import Shown
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import NODE, POD
from tonnage.wire.kubelet import podresources_v1_pb2 as pr

SHARED = "nvidia.com/gpu.shared"
_ADDRESS = re.compile(r"metrics served: .*address=(\S+)")
OPTIONS = AgentOptions("node-1", exporter=ExporterSettings("127.0.0.1:0", interval_s=1, alone=True))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_of(gpus=1) as bench:
        await bench.kubelet.start()
        yield bench


class Served:
    """The exporter at work, and its page."""

    def __init__(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        options = replace(OPTIONS, root=bench.root, devices=f"scenario:{bench.root / 'hardware.json'}")
        self._caplog = caplog
        self._clock = bench.clock
        caplog.set_level("INFO")
        self.task = asyncio.create_task(run_agent(options, api=None, clock=bench.clock))

    async def page(self, until: str) -> str:
        """As soon as it has that."""
        async with asyncio.timeout(60):
            while True:
                address = _ADDRESS.search(self._caplog.text)
                text = await asyncio.to_thread(_get, address[1]) if address else ""
                if until in text:
                    return text
                await self._clock.sleep(0.2)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def _get(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


@pytest.fixture
async def served(bench: Bench, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Served]:
    served = Served(bench, caplog)
    yield served
    await served.end()


async def test_holders_are_those_that_kubelet_lists_and_no_device_is_advertised(
    bench: Bench, served: Served
) -> None:
    bench.kubelet.advertised = {SHARED: [f"GPU-0::{n}" for n in range(4)] * 2}
    bench.kubelet.show_pod("a", SHARED, "GPU-0::0")
    bench.kubelet.show_pod("b", SHARED, "GPU-0::1")
    text = await served.page('tonnage_pod_gpu_seconds_total{namespace="ml",pod="b"')
    (seconds,) = re.findall(r'gpu_seconds_total\{namespace="ml",pod="a".*attribution="even"\} (\S+)', text)
    since_reading = float(seconds)
    assert since_reading > 0
    assert 'DCGM_FI_DEV_GPU_TEMP{gpu="0"' in text
    assert bench.kubelet.requests.empty()
    plugins = bench.root / "var/lib/kubelet/device-plugins"
    assert [path.name for path in plugins.iterdir()] == ["kubelet.sock"]


async def test_a_kubelet_that_never_answers_holds_up_no_scrape(bench: Bench, served: Served) -> None:
    bench.kubelet.hangs = True
    text = await served.page("DCGM_FI_DEV_GPU_TEMP")
    assert 'pod="' not in text


async def test_while_two_overlap_in_an_update_one_answers(
    bench: Bench, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    await served.page("DCGM_FI_DEV_GPU_TEMP")
    second = Served(bench, caplog)
    with pytest.raises(HardwareError, match="another agent runs on this node"):
        await second.task
    assert caplog.text.count("device metrics served") == 1


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        (OPTIONS, []),
        (replace(OPTIONS, exporter=ExporterSettings(alone=True)), ["the exporter has no address"]),
        (replace(OPTIONS, metrics_address=":9410"), ["--metrics-address has no effect"]),
    ],
)
def test_options_that_make_no_sense_together(options: AgentOptions, problems: list[str]) -> None:
    assert [problem.what for problem in wrong_options(options)] == problems


class FakeNode:
    """A driver and a kubelet that answer as they are told, and count questions."""

    def __init__(self) -> None:
        self.list: Shown | None = Shown((Hold(SHARED, ("GPU-0::0",), "ml", "a", "main"),))
        self.asked = 0
        self.inventory: Inventory | None = Inventory()

    async def shown(self) -> Shown:
        self.asked += 1
        if self.list is None:
            raise ClusterError(Problem("silent"))
        return self.list

    async def replicas(self) -> dict[tuple[str, str], int]:
        return {(SHARED, "GPU-0"): 4}

    async def scan(self) -> Inventory:
        if self.inventory is None:
            raise HardwareError(Problem("no driver"))
        return self.inventory

    async def close(self) -> None:
        """Nothing to close."""


class Lone:
    """The exporter's view of its node, without loops but that of pods."""

    def __init__(self, cluster: Any, clock: VirtualClock, folder: Path) -> None:
        self.node = FakeNode()
        self.cluster = cluster
        self.clock = clock
        context = context_of("node-1", cast(KubernetesApi, cluster), clock, FolderCheckpoints(folder))
        self.board = NodeBoard.blank(clock)
        self.exporter = LoneExporter(context, self.board, cast(Any, self.node), cast(Any, self.node))

    async def after(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.exporter.list_holders()

    @property
    def pods(self) -> list[str]:
        return [hold.pod for hold in self.board.holds.value.holds]


@pytest.fixture
def lone(cluster: Any, tmp_path: Path) -> Lone:
    return Lone(cluster, VirtualClock(), tmp_path)


async def test_kubelet_is_asked_now_and_then(lone: Lone) -> None:
    for _ in range(12):
        await lone.after(2.5)
    assert lone.node.asked == 3
    assert lone.pods == ["a"]
    assert lone.exporter.replicas() == {(SHARED, "GPU-0"): 4}


async def test_a_kubelet_that_stays_silent_leaves_devices_without_pods(lone: Lone) -> None:
    await lone.after(5)
    lone.node.list = None
    await lone.after(20)
    assert lone.pods == ["a"], "it may come back"
    await lone.after(60)
    assert lone.pods == []
    assert not lone.board.holds.value.settled, "what was counted is kept"


async def test_a_pod_that_ended_holds_nothing_though_kubelet_lists_it(lone: Lone) -> None:
    await lone.after(5)
    lone.board.pods.publish({"ml/b": PodIdentity("uid-b")})
    await lone.after(20)
    assert lone.pods == []


async def test_what_is_held_by_a_claim_is_known_by_its_device(lone: Lone) -> None:
    lone.node.inventory = Inventory((Device("GPU-0", 0, "T4", 15360, minor=3),))
    await lone.exporter.scan()
    claim = Hold("ml/claim", ("gpu-3", "gpu-9"), "ml", "a", "main", kind=HoldKind.CLAIM)
    lone.node.list = Shown(claims=(claim,))
    await lone.after(5)
    assert lone.board.holds.value.holds == (replace(claim, ids=("GPU-0",)),)


async def test_without_a_driver_devices_come_with_it(lone: Lone) -> None:
    lone.node.inventory = None
    await lone.exporter.scan()
    assert lone.board.inventory.value is None
    lone.node.inventory = Inventory()
    await lone.exporter.scan()
    assert lone.board.inventory.value == Inventory()


async def test_the_node_says_what_it_has(cluster: Any, clock: Any, tmp_path: Path) -> None:
    lone = Lone(cluster, clock, tmp_path)
    following = asyncio.create_task(lone.exporter.follow_node())
    try:
        for capacity in ("4", "8"):
            cluster.put(NODE, "node-1", status={"capacity": {SHARED: capacity}})
            async with asyncio.timeout(60):
                while (node := lone.board.node.value) is None or node.status.capacity[SHARED] != capacity:
                    await clock.sleep(0.1)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_xids_are_noted(lone: Lone) -> None:
    lone.exporter._note(RawEvent(RawEventKind.XID, "GPU-0", 79))
    assert [xid.code for xid in lone.board.xids.value] == [79]


async def test_kubelet_is_left_alone_while_it_admits_a_pod_with_devices(
    cluster: Any, clock: Any, tmp_path: Path
) -> None:
    """A list at that moment can give a device that is just being allocated to another pod, too."""
    lone = Lone(cluster, clock, tmp_path)
    spec = {"containers": [{"name": "main", "resources": {"limits": {SHARED: "1"}}}]}
    cluster.put(POD, "new", "ml", metadata={"uid": "u"}, spec=spec, status={"phase": "Pending"})
    following = asyncio.create_task(lone.exporter._pods.run())
    try:
        async with asyncio.timeout(60):
            while not lone.board.pods.value:
                await clock.sleep(0.1)
        await clock.sleep(3)
        await lone.exporter.list_holders()
        assert lone.node.asked == 0
        status = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": {}}}]}
        cluster.put(POD, "new", "ml", metadata={"uid": "u"}, spec=spec, status=status)
        async with asyncio.timeout(60):
            while not lone.node.asked:
                await clock.sleep(0.5)
                await lone.exporter.list_holders()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def test_replicas_are_counted_once_for_all_numa_nodes() -> None:
    rows = [pr.ContainerDevices(resource_name=SHARED, device_ids=[f"GPU-0::{n}"]) for n in (0, 1, 1, 0)]
    assert replicas_in(pr.AllocatableResourcesResponse(devices=rows)) == {(SHARED, "GPU-0"): 2}
