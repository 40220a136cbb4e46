"""kubelet restarts while containers ask for devices without end: nothing given twice, nobody waits long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine

import grpc
import grpc.aio
import pytest

from support.kubelet_side import GPU, PATIENCE_S, SHARED, Bench, bench_of
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as dp
from tonnage.wire.kubelet import podresources_v1_pb2 as pr

GPUS = 8
CLIENTS = 12
RESTARTS = 6
GRANTS = 8
"""For each restart, so that the flood gets somewhere in between."""
CONTESTED = {"GPU-0", "GPU-1"}
WHOLE = "version: v1\n"
TWO_SHARED = (
    "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: "
    "[{name: nvidia.com/gpu, replicas: 3, devices: [0, 1]}]}}\n"
)


class Flood:
    """Containers that come and go, and kubelet's accounts of who has what; those outlive its restarts."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.over = False
        self.turn = 0
        self.granted = 0
        self.refused: list[str] = []
        self.interrupted = 0
        self._random = random.Random(7)
        self._told: dict[str, dict[str, str]] = {}
        self._asked: set[tuple[str, str]] = set()
        self._held: list[tuple[str, tuple[str, ...]]] = []
        self._news = asyncio.Event()

    async def follow(self, resource: str) -> None:
        """Keep the last list of the resource."""
        while True:
            self._told[resource] = await self.bench.kubelet.devices(resource)
            self._news.set()

    async def container(self) -> None:
        """Ask for devices again and again, keep them for a moment and give them back."""
        while not self.over:
            await asyncio.sleep(0.001)
            resource = self._random.choice((GPU, SHARED))
            told = self._told.get(resource, {}).items()
            free = [
                slot for slot, health in told if health == "Healthy" and (resource, slot) not in self._asked
            ]
            size = 1 + self._random.randrange(2)
            if len(free) < size or resource not in self.bench.kubelet.channels:
                continue
            some = self._random.sample(free, min(len(free), size + self._random.randrange(2)))
            self._asked |= {(resource, slot) for slot in some}
            try:
                if ids := await self._given(resource, some, size):
                    await self._run(resource, ids)
            finally:
                self._asked -= {(resource, slot) for slot in some}

    async def until_granted(self, count: int) -> None:
        """Return once so many more were granted."""
        wanted = self.granted + count
        await self._until(lambda: self.granted >= wanted)

    async def until_offered(self, count: int) -> None:
        """Return once kubelet was told of so many whole GPUs."""
        await self._until(lambda: len(self._told.get(GPU, {})) == count)

    async def until_all_is_free(self) -> None:
        """Return once every GPU is offered, and nobody has one."""
        every = {f"GPU-{i}": "Healthy" for i in range(GPUS)}
        await self._until(lambda: not self._held and self._told.get(GPU) == every)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                news = self._news = asyncio.Event() if self._news.is_set() else self._news
                await news.wait()

    async def _given(self, resource: str, available: list[str], size: int) -> tuple[str, ...]:
        """What was asked for and answered; nothing where it was refused or kubelet ended meanwhile."""
        asked = dp.ContainerPreferredAllocationRequest(available_deviceIDs=available, allocation_size=size)
        request = dp.PreferredAllocationRequest(container_requests=[asked])
        kubelet = self.bench.kubelet
        try:
            answer = await kubelet.call(
                resource, "GetPreferredAllocation", request, dp.PreferredAllocationResponse
            )
            (preferred,) = answer.container_responses
            ids = tuple(preferred.deviceIDs)
            assert len(ids) == size
            assert set(ids) <= set(available)
            injected = await kubelet.allocate(resource, *ids)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNKNOWN:
                self.refused.append(error.details() or "")
            elif error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            else:
                self.interrupted += 1
            return ()
        except (asyncio.CancelledError, grpc.aio.UsageError, KeyError):  # of the call: kubelet has ended
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            self.interrupted += 1
            return ()
        whose = injected.envs["NVIDIA_VISIBLE_DEVICES"].split(",")
        assert set(whose) == {slot.partition("::")[0] for slot in ids}
        return ids

    async def _run(self, resource: str, ids: tuple[str, ...]) -> None:
        held = (resource, ids)
        self._held.append(held)
        self.granted += 1
        self._news.set()
        self._nobody_has_it_too()
        self._show()
        turn = self.turn
        await asyncio.sleep(self._random.random() / 20)
        if CONTESTED.intersection(slot.partition("::")[0] for slot in ids):  # they outlive a kubelet
            await self._until(lambda: self.turn > turn + 1 or self.over)
        self._held.remove(held)
        self._show()
        self._news.set()

    def _nobody_has_it_too(self) -> None:
        uses: dict[str, list[tuple[str, bool]]] = {}
        for resource, ids in self._held:
            for slot in ids:
                uuid, shared, _ = slot.partition("::")
                uses.setdefault(uuid, []).append((resource, bool(shared)))
        for uuid, found in uses.items():
            assert len(set(found)) == 1, (uuid, found)
            assert len(found) == 1 or found[0][1], (uuid, found)

    def _show(self) -> None:
        self.bench.kubelet.pods = pr.ListPodResourcesResponse(
            pod_resources=[
                pr.PodResources(
                    name=f"pod-{ids[0]}".lower(),
                    namespace="ml",
                    containers=[
                        pr.ContainerResources(
                            name="main",
                            devices=[pr.ContainerDevices(resource_name=resource, device_ids=ids)],
                        )
                    ],
                )
                for resource, ids in self._held
            ]
        )


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_of(gpus=GPUS) as node:
        yield node


async def test_kubelet_restarts_during_a_flood_of_requests(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.configure(TWO_SHARED)
    bench.start()
    flood = Flood(bench)
    async with asyncio.TaskGroup() as group:
        following = [group.create_task(flood.follow(resource)) for resource in (GPU, SHARED)]
        for _ in range(CLIENTS):
            group.create_task(flood.container())
        for flood.turn in range(RESTARTS):
            await flood.until_granted(GRANTS)
            group.create_task(await _told_until_its_end(bench))
            await bench.kubelet.stop()
            while not bench.kubelet.requests.empty():
                bench.kubelet.requests.get_nowait()
            shared = flood.turn % 2 == 1
            bench.configure(TWO_SHARED if shared else WHOLE)
            await bench.kubelet.start()
            await bench.kubelet.registered(GPU)
            await flood.until_offered(GPUS - len(CONTESTED) * shared)
        await flood.until_granted(GRANTS)
        flood.over = True
        bench.configure(WHOLE)
        await flood.until_all_is_free()
        for task in following:
            task.cancel()
    assert flood.interrupted, "no restart met a request on its way"


async def _told_until_its_end(bench: Bench) -> Coroutine[None, None, None]:
    """A stream of somebody else's that stands when kubelet ends: it must end with its socket."""
    channel = grpc.aio.insecure_channel(
        f"unix:{bench.kubelet.plugins / 'nvidia-gpu.sock'}",
        options=(("grpc.use_local_subchannel_pool", 1),),
    )
    queue: asyncio.Queue[dict[str, str] | None] = asyncio.Queue()
    watching = asyncio.create_task(bench.kubelet._watch(channel, queue))
    async with asyncio.timeout(PATIENCE_S):
        assert await queue.get()

    async def ended() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await watching
        await channel.close()

    return ended()
