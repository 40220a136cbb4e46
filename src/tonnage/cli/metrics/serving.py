"""The servers of `tonnage metrics`: pages that follow a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from tonnage.adapters.http.address import Address, listen
from tonnage.adapters.http.metrics_page import MetricsPage
from tonnage.adapters.http.pages import probe_page, text_page
from tonnage.adapters.http.server import HttpRequest, HttpServer, Response, Route, lines
from tonnage.cli.cluster import connected, snapshot_of
from tonnage.cli.terminal.output import line, say
from tonnage.diagnose.monitoring.cluster_families import cluster_families
from tonnage.diagnose.monitoring.scraping import discovered
from tonnage.model.errors import TonnageError
from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.scrape_target import PART_OF
from tonnage.model.metric_families import Metric, MetricFamily, MetricKind
from tonnage.reading.scrape_targets import scrape_targets
from tonnage.wire.kinds import POD

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.cli.options import Common
    from tonnage.model.kubernetes.cluster import Snapshot

_STALE: Final = 3
"""Intervals after which what was read is shown no longer."""


class ClusterMetrics:
    """The families of the last reading, and how old that is."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._families: tuple[MetricFamily, ...] = ()
        self._read_s = float("-inf")
        self._failures = 0
        self._why = "the cluster has not been read yet"

    def take(self, families: tuple[MetricFamily, ...]) -> None:
        """A reading succeeded."""
        self._families, self._read_s, self._why = families, time.monotonic(), ""

    def fail(self, why: str) -> None:
        """A reading failed; the last one stands until it is too old."""
        self._failures += 1
        self._why = why

    def families(self) -> tuple[MetricFamily, ...]:
        """What the page shows."""
        failures = Metric(
            MetricKind.COUNTER,
            "tonnage_cluster_read_failures",
            "Readings of the cluster that failed.",
            (),
            (((), float(self._failures)),),
        )
        return (*(() if self._is_stale() else self._families), failures)

    def problems(self) -> tuple[str, ...]:
        """What `/healthz` says is wrong."""
        return (self._why,) if self._is_stale() else ()

    def _is_stale(self) -> bool:
        return time.monotonic() - self._read_s > _STALE * self._interval_s


async def serve_cluster(common: Common, address: Address, interval_s: float) -> int:
    """Serve metrics of the cluster until a signal comes."""
    metrics = ClusterMetrics(interval_s)

    async def follow() -> None:
        while True:
            try:
                snapshot = await snapshot_of(common, "metrics cluster")
                metrics.take(await asyncio.to_thread(_families, snapshot))
            except TonnageError as error:
                metrics.fail(str(error))
                say(line("the cluster was not read: ", str(error)), err=True)
            await asyncio.sleep(interval_s)

    routes = {"/metrics": Route(MetricsPage(metrics.families)), "/healthz": probe_page(metrics.problems)}
    return await _served(address, routes, follow())


def _families(snapshot: Snapshot) -> tuple[MetricFamily, ...]:
    return tuple(cluster_families(snapshot))


async def serve_targets(common: Common, address: Address) -> int:
    """Serve the list of targets until a signal comes; it is read anew for each request."""
    async with connected(common) as api:

        async def answer(_: HttpRequest) -> Response:
            try:
                targets = await read_targets(api, common.namespace)
            except TonnageError as error:
                return lines(503, str(error))  # Prometheus keeps the targets that it has
            return Response(200, json.dumps(targets).encode(), "application/json")

        health = text_page(lambda: "ok\n", "text/plain; charset=utf-8")
        return await _served(address, {"/": Route(answer), "/healthz": health})


async def read_targets(api: HttpKubernetes, namespace: str | None) -> list[JsonValue]:
    """What Prometheus can read, as its HTTP service discovery has it."""
    pods = await api.list(POD, namespace=namespace, label_selector="=".join(PART_OF))
    return discovered(scrape_targets(pods.items))


async def _served(address: Address, routes: Mapping[str, Route], *beside: Coroutine[Any, Any, None]) -> int:
    """Serve, with what runs beside it, until SIGINT or SIGTERM."""
    with contextlib.closing(listen(address)) as listening:
        host, port = listening.getsockname()[:2]
        say(line("serving at ", str(Address(host, port))), err=True)
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.TaskGroup() as group:
                for run in (HttpServer(listening, routes).run(), *beside):
                    group.create_task(run)
    return 0
