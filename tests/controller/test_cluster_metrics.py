"""Metrics of the cluster follow it by watches: what is listed, what may be refused, what an outage shows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from support.api_stores import new_store
from tonnage.controller.cluster_metrics import ClusterCollector, FollowedCluster
from tonnage.diagnose.monitoring.cluster_families import cluster_families
from tonnage.model.errors import ApiError, ClusterError, Problem
from tonnage.model.metric_families import Metric
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import NAMESPACE, NODE, POD

INTERVAL_S = 10.0


class Reader:
    """The API as the collector reads it: lists are counted, kinds may be refused, the server may be away."""

    def __init__(self, api: KubernetesApi, **refused: tuple[int, str]) -> None:
        self._api = api
        self._refused = refused
        self.unlisted: set[str] = set()
        self.lists: Counter[str] = Counter()
        self.away = asyncio.Event()
        self.server_ahead_s = 0.0

    async def list(self, kind: Any, *, namespace: str | None = None, **selectors: Any) -> Any:
        self._answer()
        code, scope = self._refused.get(kind.plural, (0, ""))
        if code and namespace != (scope or "-"):
            raise ApiError(code=code, reason="Forbidden", message=f"{kind.plural} is forbidden")
        if kind.plural in self.unlisted and not selectors["field_selector"]:
            raise ApiError(code=403, reason="Forbidden", message=f"{kind.plural} is forbidden")
        if not selectors["field_selector"]:
            self.lists[kind.plural] += 1
        return await self._api.list(kind, namespace=namespace, **selectors)

    async def watch(self, kind: Any, **selectors: Any) -> AsyncIterator[Any]:
        self._answer()
        stream = self._api.watch(kind, **selectors)
        while True:
            step = asyncio.ensure_future(anext(stream))
            broken = asyncio.ensure_future(self.away.wait())
            await asyncio.wait((step, broken), return_when=asyncio.FIRST_COMPLETED)
            broken.cancel()
            if not step.done():
                step.cancel()
                self._answer()
            yield await step

    def _answer(self) -> None:
        if self.away.is_set():
            raise ClusterError(Problem("the API server cannot be reached"))


class Bench:
    """A cluster in memory, and a collector that follows it."""

    def __init__(self, *unlisted: str, **refused: tuple[int, str]) -> None:
        self.clock = VirtualClock()
        self.api: KubernetesApi = ApiServer(self.clock, random=Random(7), store=new_store()).local()
        self.reader = Reader(self.api, **refused)
        self.reader.unlisted.update(unlisted)
        source = FollowedCluster(self.reader, self.server_version, "ml")  # type: ignore[arg-type]
        self.collector = ClusterCollector(source, self.clock, INTERVAL_S, cluster_families)
        self._task: asyncio.Task[None] | None = None
        self.version = "v1.35.0"
        self.unversioned = False

    async def server_version(self) -> str:
        if self.unversioned:
            raise ClusterError(Problem("the API server cannot be reached"))
        return self.version

    async def __aenter__(self) -> Bench:
        for name in ("ml", "other"):
            await self.api.create(NAMESPACE, {"metadata": {"name": name}})
        await self.api.create(NODE, {"metadata": {"name": "a"}})
        amounts = {"nvidia.com/gpu": "4"}
        status: Any = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.api.patch(NODE, "a", status, subresource="status")
        self._task = asyncio.create_task(self.collector.run())
        await self.pass_by()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def pass_by(self, seconds: float = INTERVAL_S + 1) -> None:
        """Time goes by; what a thread works out is waited for."""
        await self.clock.advance(seconds)
        async with asyncio.timeout(20):
            for _ in range(20):
                await asyncio.to_thread(lambda: None)

    async def until(self, name: str, values: dict[str, float]) -> None:
        """Time goes by until the page shows these."""
        async with asyncio.timeout(20):
            while self.shown(name) != values:
                await self.pass_by()

    async def pod(self, name: str, namespace: str = "ml") -> None:
        limits = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
        spec: Any = {"containers": [{"name": "main", "image": "x", **limits}]}
        await self.api.create(POD, {"metadata": {"name": name}, "spec": spec}, namespace=namespace)

    def shown(self, name: str) -> dict[str, float] | None:
        """Values by namespace or node; None where the page has no such metric."""
        for family in self.collector.families():
            if isinstance(family, Metric) and family.name == f"tonnage_cluster_{name}":
                labels = family.labels
                place = next((labels.index(key) for key in ("namespace", "node") if key in labels), None)
                return {"" if place is None else row[place]: value for row, value in family.samples}
        return None


async def test_a_pod_that_waits_is_seen_without_listing_anew() -> None:
    async with Bench() as bench:
        await bench.until("resource_allocatable", {"a": 4.0})
        assert bench.shown("pending_pods") == {}
        await bench.pod("waits")
        await bench.until("pending_pods", {"ml": 1.0})
        for _ in range(5):
            await bench.pass_by()
        assert (bench.reader.lists["pods"], bench.reader.lists["nodes"]) == (1, 1)
        await bench.api.delete(POD, "waits", namespace="ml")
        await bench.until("pending_pods", {})
        assert bench.collector.problems() == ()


@pytest.mark.parametrize(
    ("refused", "waiting"),
    [
        pytest.param(
            {"resourceslices": (404, "")}, {"ml": 1.0, "other": 1.0}, id="a kind that is not served"
        ),
        pytest.param({"resourcequotas": (403, "")}, {"ml": 1.0, "other": 1.0}, id="a kind that is refused"),
        pytest.param({"pods": (403, "ml")}, {"ml": 1.0}, id="pods of the own namespace alone"),
        pytest.param({"nodes": (403, "")}, {"ml": 1.0, "other": 1.0}, id="no nodes"),
    ],
)
async def test_what_may_not_be_listed_does_not_hide_the_rest(
    refused: dict[str, tuple[int, str]], waiting: dict[str, float]
) -> None:
    async with Bench(**refused) as bench:
        for namespace in ("ml", "other"):
            await bench.pod("waits", namespace)
        await bench.until("pending_pods", waiting)


async def test_without_any_right_the_page_says_so_and_asks_again() -> None:
    async with Bench(pods=(403, ""), nodes=(403, "")) as bench:
        assert "pods is forbidden" in bench.collector.problems()[0]
        assert bench.shown("pending_pods") is None
        bench.reader._refused.clear()
        await bench.until("resource_allocatable", {"a": 4.0})
        assert bench.collector.problems() == ()


async def test_an_outage_shows_the_last_reading_for_three_intervals_and_ends() -> None:
    async with Bench() as bench:
        await bench.pod("waits")
        await bench.until("pending_pods", {"ml": 1.0})
        bench.reader.away.set()
        await bench.pass_by(2 * INTERVAL_S)
        assert bench.shown("pending_pods") == {"ml": 1.0}
        await bench.pass_by(2 * INTERVAL_S)
        assert bench.shown("pending_pods") is None
        assert bench.collector.problems()[0].startswith("pods: the API server has not answered for ")
        assert (bench.shown("read_failures") or {})[""] > 0
        bench.reader.away.clear()
        await bench.pod("comes")
        for _ in range(40):  # the followers of the kinds return one by one
            await bench.pass_by(30)
            if bench.shown("pending_pods") == {"ml": 2.0}:
                break
        assert (bench.collector.problems(), bench.shown("pending_pods")) == ((), {"ml": 2.0})


async def test_a_version_that_kubernetes_does_not_have_is_a_problem_and_no_crash() -> None:
    async with Bench() as bench:
        for version, problem in (("unknown", True), ("v1.36.0", False)):
            bench.version = version
            async with asyncio.timeout(20):
                while bool(bench.collector.problems()) is not problem:
                    await bench.pass_by()


async def test_a_question_without_an_answer_hides_nothing_that_was_read() -> None:
    async with Bench() as bench:
        await bench.until("resource_allocatable", {"a": 4.0})
        bench.unversioned = True
        for _ in range(12):  # it is asked every ten intervals
            await bench.pass_by()
            assert bench.shown("resource_allocatable") == {"a": 4.0}
        assert (bench.shown("read_failures") or {})[""] > 0


async def test_kinds_that_were_begun_before_an_error_are_followed() -> None:
    async with Bench(services=(503, "")) as bench:
        assert "services" in bench.collector.problems()[0]
        bench.reader._refused.clear()
        await bench.until("resource_allocatable", {"a": 4.0})
        assert bench.collector.problems() == ()


@pytest.mark.parametrize("kind", ["services", "pods"])
async def test_a_kind_that_is_refused_only_when_it_is_listed_hides_nothing_else(kind: str) -> None:
    async with Bench(kind) as bench:
        await bench.until("resource_allocatable", {"a": 4.0})
        assert bench.collector.problems() == ()
        bench.reader.unlisted.clear()
        async with asyncio.timeout(20):
            while not bench.reader.lists[kind]:  # it is asked for again every ten intervals
                await bench.pass_by()
