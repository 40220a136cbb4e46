"""The controller serves the metrics of the cluster: the replica that acts, and no other."""

from __future__ import annotations

import asyncio
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from controller.test_operator import OPTIONS, Bench
from scripts.generate_exporter_metrics import (
    families_of_cluster,
    families_of_controller,
    kind_of,
    name_of,
)
from tonnage.adapters.http.address import Address, listen
from tonnage.controller.main import ControllerHost, run_controller
from tonnage.diagnose.monitoring.cluster_families import cluster_families
from tonnage.ports.kubernetes import KubernetesApi

INTERVAL_S = 10
PENDING = "tonnage_cluster_resource_allocatable{"


class Counting:
    """The API, which counts lists of whole kinds."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self.lists: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def list(self, kind: Any, *, field_selector: str = "", **more: Any) -> Any:
        if not field_selector and not more.get("namespace"):
            self.lists[kind.plural] += 1
        return await self._api.list(kind, field_selector=field_selector, **more)


class Replica:
    """A controller whose page is read."""

    def __init__(self, bench: Bench, identity: str, interval_s: float = INTERVAL_S) -> None:
        self._listening: socket.socket = listen(Address("127.0.0.1", 0))
        self.api = Counting(bench.api)
        options = replace(OPTIONS, identity=identity, cluster_metrics_s=interval_s)
        host = ControllerHost(None, self._version, cluster_families, self._listening)
        api: Any = self.api
        self.task = asyncio.create_task(run_controller(options, api=api, clock=bench.clock, host=host))

    async def _version(self) -> str:
        return "v1.35.0"

    async def page(self) -> str:
        port = self._listening.getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        try:
            return (await reader.read()).decode()
        finally:
            writer.close()
            await writer.wait_closed()

    async def shows(self, bench: Bench, *, cluster: bool) -> str:
        """The page once it has the cluster's metrics, or has none."""
        async with asyncio.timeout(20):
            while (PENDING in (page := await self.page())) is not cluster:
                await bench.clock.advance(1)
            return page

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@asynccontextmanager
async def replicas(*identities: str, **options: Any) -> AsyncIterator[tuple[Bench, list[Replica]]]:
    bench = Bench()
    await bench.install()
    await bench.node("a")
    started = []
    for identity in identities:
        started.append(Replica(bench, identity, **options))
        await bench.clock.advance(1)
    try:
        yield bench, started
    finally:
        for replica in started:
            await replica.end()


async def test_the_replica_that_acts_shows_them_and_the_next_leader_takes_over() -> None:
    async with replicas("a", "b") as (bench, (first, second)):
        await first.shows(bench, cluster=True)
        waiting = await second.page()
        assert "tonnage_controller_leader 0.0" in waiting
        assert "tonnage_cluster_" not in waiting
        await first.end()
        page = await second.shows(bench, cluster=True)
        assert 'tonnage_cluster_resource_allocatable{node="a",resource="nvidia.com/gpu"} 1.0' in page
        assert "tonnage_controller_leader 1.0" in page


async def test_the_reference_has_just_the_metrics_that_the_page_shows() -> None:
    async with replicas("a") as (bench, (only,)):
        await bench.policy(nodeStatusExporter={"enabled": True})
        await only.shows(bench, cluster=True)
        async with asyncio.timeout(20):
            while "gpu_operator_nvidia_pci_devices_total" not in (page := await only.page()):
                await bench.clock.advance(1)
    served = {*re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE)}
    families = (*families_of_controller(), *families_of_cluster())
    documented = {(name_of(family), kind_of(family)) for family in families}
    assert {(name, kind) for name, kind in served if not name.startswith("process_")} == documented


async def test_kinds_that_the_loops_follow_are_not_listed_twice() -> None:
    async with replicas("a") as (bench, (only,)):
        await only.shows(bench, cluster=True)
        assert (only.api.lists["nodes"], only.api.lists["nodegpustatuses"]) == (1, 1)
        assert only.api.lists["pods"] == 1


async def test_without_an_interval_there_are_none() -> None:
    async with replicas("a", interval_s=0) as (bench, (only,)):
        await bench.clock.advance(3 * INTERVAL_S)
        page = await only.page()
        assert "tonnage_controller_leader 1.0" in page
        assert "tonnage_cluster_" not in page
        assert only.api.lists["resourcequotas"] == 0
