"""Who holds which device, from kubelet's list, its checkpoint and the pods of the node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.plugin.holders import Holders
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.ledger import UNSEEN_S
from tonnage.decide.node.offer import offer_of, plan_of
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import Allocation, Hold, PluginConfig
from tonnage.model.errors import ClusterError, HardwareError, Problem
from tonnage.model.names import GPU
from tonnage.model.node.telemetry import PodIdentity
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.ports.node import Shown
from tonnage.wire.kinds import POD

TAKEN = Allocation(GPU, ("GPU-0",), ("GPU-0",))
MAIN = Hold(GPU, ("GPU-0",), "ml", "train", "main")
IN_CHECKPOINT = Hold(GPU, ("GPU-0",), pod="uid-1", container="load")
NAMED = Hold(GPU, ("GPU-0",), "ml", "train", "load")
INVENTORY = Inventory((Device("GPU-0", 0, "T4", 1),))
BUILT_IN = ConfigInForce(PluginConfig(), ConfigChoice("", "built-in"))


class FakeKubelet:
    """A kubelet's two books, and how often it was asked."""

    def __init__(self) -> None:
        self.list: Shown | None = Shown()
        self.book: tuple[Hold, ...] | None = ()
        self.name = "kubelet-1"
        self.asked = 0
        self.read = 0

    async def shown(self) -> Shown:
        self.asked += 1
        if self.list is None:
            raise ClusterError(Problem("silent"))
        return self.list

    def identity(self) -> str:
        return self.name

    async def checkpoint(self) -> tuple[Hold, ...]:
        self.read += 1
        if self.book is None:
            raise HardwareError(Problem("makes no sense"))
        return self.book

    async def close(self) -> None:
        """Nothing to close."""


class Bench:
    """Holders at work; `settled_by` waits for what they are to say."""

    def __init__(
        self,
        cluster: Any,
        clock: Any,
        folder: Path,
        *,
        api: bool = True,
        boot: str = "",
        kubelet: FakeKubelet | None = None,
    ) -> None:
        self.cluster = cluster
        self.clock = clock
        self.kubelet = kubelet or FakeKubelet()
        port = cast(KubernetesApi, cluster) if api else None
        context = context_of("node-1", port, clock, FolderCheckpoints(folder))
        self.changed = asyncio.Event()
        self.board = NodeBoard.blank(clock)
        self.board.holds.subscribe(self.changed.set)
        self.ledger = HoldLedger(context, self.board, boot=boot)
        self.holders = Holders(context, self.board, self.kubelet, self.ledger)
        self.task: asyncio.Task[None] | None = None

    @property
    def holds(self) -> tuple[Hold, ...]:
        return self.board.holds.value.holds

    async def start(self) -> None:
        self.task = asyncio.create_task(self.holders.run())
        await self.until(lambda: self.board.holds.value.settled)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.wait([asyncio.ensure_future(self.changed.wait())], timeout=0.02)
                self.changed.clear()

    async def later(self, seconds: float = UNSEEN_S * 1.5) -> None:
        """Return after that much of the node's time, in which kubelet was asked."""
        asked, until = self.kubelet.asked, self.clock.monotonic() + seconds
        async with asyncio.timeout(60):
            while self.clock.monotonic() < until or self.kubelet.asked < asked + 3:
                assert self.task is not None
                assert not self.task.done(), self.task.exception()
                await self.clock.sleep(0.2)

    def pod(self, phase: str = "Running") -> None:
        self.cluster.put(POD, "train", "ml", metadata={"uid": "uid-1"}, status={"phase": phase})


@pytest.fixture
async def bench(cluster: Any, clock: Any, tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(cluster, clock, tmp_path)
    yield made
    await made.stop()


async def test_what_the_api_server_says_of_a_pod_is_on_the_board_until_it_ends(bench: Bench) -> None:
    """Rows of the exporter name its uid and labels, and tell its processes too."""
    meta = {"uid": "mirror", "labels": {"app": "vllm"}, "annotations": {"kubernetes.io/config.hash": "file"}}
    status = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "containerID": "containerd://c0"}, {"name": "waits"}],
    }
    bench.cluster.put(POD, "train", "ml", metadata=meta, status=status)
    await bench.start()
    await bench.until(lambda: bench.board.pods.value)
    assert bench.board.pods.value == {
        "ml/train": PodIdentity("mirror", {"app": "vllm"}, "file", {"c0": "main"})
    }
    bench.cluster.put(POD, "train", "ml", metadata=meta, status={"phase": "Succeeded"})
    await bench.until(lambda: not bench.board.pods.value)


async def test_a_device_of_an_init_container_is_held_as_long_as_its_pod_lives(bench: Bench) -> None:
    """kubelet's list leaves ordinary init containers out; its checkpoint and the pod's phase know better."""
    bench.pod("Pending")
    await bench.start()
    await bench.holders.take([TAKEN])
    bench.kubelet.book = (IN_CHECKPOINT,)
    bench.kubelet.list = Shown((), frozenset({("ml", "train")}))
    await bench.later()
    assert bench.holds == (NAMED,)
    bench.pod("Succeeded")  # the checkpoint still has it
    await bench.until(lambda: not bench.holds)


async def test_a_pod_that_our_watch_has_not_seen_yet_is_inquired_after(bench: Bench) -> None:
    await bench.start()
    bench.kubelet.book = (IN_CHECKPOINT,)
    bench.cluster.objects[POD.plural, "ml", "train"] = {  # no watcher is told
        "metadata": {"name": "train", "namespace": "ml", "uid": "uid-1", "resourceVersion": "0"}
    }
    await bench.until(lambda: bench.holds)
    await bench.later()
    assert bench.holds in ((IN_CHECKPOINT,), (NAMED,))  # or a relist has told its name


async def test_an_unreachable_api_server_frees_nothing_that_the_checkpoint_has(bench: Bench) -> None:
    bench.cluster.reachable = False
    bench.kubelet.book = (IN_CHECKPOINT,)
    await bench.start()
    await bench.later()
    assert bench.holds == (IN_CHECKPOINT,)
    bench.cluster.reachable = True
    await bench.until(lambda: not bench.holds)


async def test_pods_that_ended_long_ago_hold_nothing_though_the_checkpoint_has_them(bench: Bench) -> None:
    bench.kubelet.book = (IN_CHECKPOINT,)
    await bench.start()
    await bench.until(lambda: not bench.holds)


async def test_a_static_pod_is_known_by_the_uid_that_kubelet_has_for_it(bench: Bench) -> None:
    annotations = {"kubernetes.io/config.hash": "uid-1"}
    bench.cluster.put(POD, "train", "ml", metadata={"uid": "mirror", "annotations": annotations})
    bench.kubelet.book = (IN_CHECKPOINT,)
    await bench.start()
    await bench.later()
    assert bench.holds == (NAMED,)


async def test_a_new_kubelet_is_believed_once_it_lists_every_pod_of_the_node(bench: Bench) -> None:
    bench.pod()
    bench.kubelet.list = Shown((MAIN,), frozenset({("ml", "train")}))
    await bench.start()
    assert bench.holds == (MAIN,)
    bench.kubelet.name, bench.kubelet.list = "kubelet-2", Shown()  # it has read no pods yet
    await bench.later(3)
    assert bench.holds == (MAIN,)
    bench.kubelet.list = Shown((), frozenset({("ml", "train")}))
    await bench.until(lambda: not bench.holds)


async def test_the_end_of_a_pod_makes_us_ask_kubelet_at_once(bench: Bench) -> None:
    bench.pod()
    bench.kubelet.list = Shown((MAIN,), frozenset({("ml", "train")}))
    await bench.start()
    await bench.later(UNSEEN_S)
    contested = offer_of(
        INVENTORY, BUILT_IN, plan_of(INVENTORY, BUILT_IN, {}), DeviceHolds.of([Hold("r", ("GPU-0",))]), {}
    )
    bench.board.offer.publish(contested)
    bench.kubelet.list = Shown()
    asked = bench.kubelet.asked
    bench.pod("Succeeded")
    await bench.until(lambda: not bench.holds)
    assert bench.kubelet.asked <= asked + 3


async def test_a_pod_too_short_lived_to_be_seen_is_over_once_no_pod_can_be_the_one(bench: Bench) -> None:
    await bench.start()
    started = bench.clock.monotonic()
    await bench.holders.take([TAKEN])
    await bench.until(lambda: not bench.holds)
    assert bench.clock.monotonic() - started < UNSEEN_S


async def test_a_pod_that_still_waits_for_its_device_keeps_the_answer(bench: Bench) -> None:
    container = {"name": "main", "resources": {"limits": {GPU: "1"}}}
    bench.cluster.put(POD, "train", "ml", metadata={"uid": "uid-1"}, spec={"containers": [container]})
    await bench.start()
    await bench.holders.take([TAKEN])
    await bench.later(UNSEEN_S / 2)
    assert bench.holds == (Hold(GPU, ("GPU-0",)),)


async def test_a_checkpoint_without_sense_frees_nothing(bench: Bench) -> None:
    await bench.start()
    bench.kubelet.book = None
    await bench.holders.take([TAKEN])
    await bench.later()
    assert bench.holds == (Hold(GPU, ("GPU-0",)),)
    bench.kubelet.book = ()
    await bench.until(lambda: not bench.holds)


async def test_alone_the_checkpoint_counts_until_kubelet_has_read_its_pods(
    cluster: Any, clock: Any, tmp_path: Path
) -> None:
    bench = Bench(cluster, clock, tmp_path, api=False)
    bench.kubelet.book = (IN_CHECKPOINT,)
    try:
        await bench.start()
        assert bench.holds == (IN_CHECKPOINT,)
        await bench.until(lambda: not bench.holds)
    finally:
        await bench.stop()


LOST = Hold(GPU, ("GPU-0",), "ml", "train", "main", forgotten=True)
LISTED = frozenset({("ml", "train")})


async def _forget(bench: Bench) -> None:
    """The pod has its device; then a kubelet starts that lost its checkpoint, and lists the pod without."""
    bench.pod()
    bench.kubelet.list = Shown((MAIN,), LISTED)
    bench.kubelet.book = (replace(MAIN, namespace="", pod="uid-1"),)
    await bench.start()
    await bench.holders.take([TAKEN])
    await bench.until(lambda: bench.holds == (MAIN,))
    await bench.later(UNSEEN_S)
    bench.kubelet.name, bench.kubelet.book = "kubelet-2", ()
    bench.kubelet.list = Shown((), LISTED)
    assert bench.holders.doubtful(GPU) == {"GPU-0"}


async def test_a_device_of_a_container_that_kubelet_forgot_is_held_until_its_pod_ends(bench: Bench) -> None:
    await _forget(bench)
    await bench.holders.confirm(GPU, {"GPU-0"})
    assert bench.holds == (LOST,)
    await bench.later()
    assert bench.holds == (LOST,)
    bench.pod("Succeeded")
    await bench.until(lambda: not bench.holds)


async def test_a_container_that_does_not_run_holds_nothing_that_kubelet_forgot(bench: Bench) -> None:
    """A kubelet that starts it again asks for a device again."""
    await _forget(bench)
    await bench.holders.confirm(GPU, {"GPU-0"})
    ended = {"name": "main", "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}}
    status = {"phase": "Running", "containerStatuses": [ended]}
    bench.cluster.put(POD, "train", "ml", metadata={"uid": "uid-1"}, status=status)
    await bench.until(lambda: not bench.holds)


@pytest.mark.parametrize("boot", ["one", "two"])
async def test_an_agent_that_starts_later_knows_what_kubelet_forgot_unless_the_machine_booted(
    cluster: Any, clock: Any, tmp_path: Path, boot: str
) -> None:
    first = Bench(cluster, clock, tmp_path, boot="one")
    await _forget(first)
    await first.stop()
    second = Bench(cluster, clock, tmp_path, boot=boot, kubelet=first.kubelet)
    try:
        await second.start()
        await second.later()
        assert second.holds == ((LOST,) if boot == "one" else ())
    finally:
        await second.stop()


async def test_the_checkpoint_is_read_again_only_about_what_an_earlier_kubelet_knew(bench: Bench) -> None:
    await _forget(bench)
    await bench.stop()
    asked, read = bench.kubelet.asked, bench.kubelet.read
    await bench.holders.confirm(GPU, {"GPU-1"})
    assert bench.kubelet.read == read
    await bench.holders.confirm(GPU, {"GPU-0", "GPU-1"})
    assert bench.kubelet.read == read + 1
    assert bench.kubelet.asked == asked  # kubelet allocates just now


async def test_what_kubelet_says_counts_while_the_disk_is_slow(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is given out meanwhile is decided by it."""
    go = asyncio.Event()
    save = FolderCheckpoints.save

    async def slow(self: FolderCheckpoints, *words: Any, **more: Any) -> None:
        await go.wait()
        await save(self, *words, **more)

    bench.pod()
    await bench.start()
    await bench.holders.take([TAKEN])
    monkeypatch.setattr(FolderCheckpoints, "save", slow)
    bench.kubelet.list, bench.kubelet.book = Shown((MAIN,)), (IN_CHECKPOINT,)
    await bench.until(lambda: any(hold.pod for hold in bench.holds))
    assert not go.is_set()
    go.set()


async def test_kubelet_is_not_asked_for_its_list_before_it_has_noted_an_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy kubelet that is asked between the answer and its own note of it gives the device out twice."""
    monkeypatch.setattr("tonnage.agent.plugin.holders._LONGEST_HUSH_S", 1e9)
    bench.pod("Pending")
    await bench.start()
    with bench.holders.hushed():
        await bench.clock.sleep(0.5)  # a question that was under way
        await bench.holders.take([TAKEN])
    asked, read = bench.kubelet.asked, bench.kubelet.read
    await bench.until(lambda: bench.kubelet.read > read + 3)
    assert bench.kubelet.asked == asked
    bench.kubelet.book = (IN_CHECKPOINT,)
    await bench.until(lambda: bench.kubelet.asked > asked)


async def test_a_preference_waits_for_the_list_that_kubelet_owes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubelet would make that list in the middle of the allocation that follows."""
    owed, asked, kubelet = asyncio.Event(), asyncio.Event(), bench.kubelet
    answer = kubelet.shown

    async def slow() -> Shown:
        asked.set()
        await owed.wait()
        return await answer()

    await bench.start()
    monkeypatch.setattr(kubelet, "shown", slow)
    bench.pod()
    await asked.wait()
    waiting = asyncio.create_task(bench.holders.listed())
    await bench.clock.sleep(0.1)
    assert not waiting.done()
    owed.set()
    await bench.until(waiting.done)


async def test_kubelet_is_not_asked_for_its_list_while_it_allocates(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one would take what it is just allocating for free again."""
    monkeypatch.setattr(
        "tonnage.agent.plugin.holders._LONGEST_HUSH_S", 1e9
    )  # a busy machine is no allocation without end
    await bench.start()
    with bench.holders.hushed():
        await bench.clock.sleep(0.5)  # a question that was under way
        asked = bench.kubelet.asked
        for _ in range(4):
            bench.pod()
            await bench.clock.sleep(0.3)
        assert bench.kubelet.asked == asked
    await bench.until(lambda: bench.kubelet.asked > asked)
