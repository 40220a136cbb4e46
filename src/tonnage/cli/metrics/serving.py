"""The servers of `tonnage metrics`: pages that follow a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tonnage.adapters.clock import SystemClock
from tonnage.adapters.http.address import Address, listen
from tonnage.adapters.http.metrics_page import MetricsPage
from tonnage.adapters.http.pages import probe_page, text_page
from tonnage.adapters.http.server import HttpRequest, HttpServer, Response, Route, lines
from tonnage.adapters.kubernetes.client import server_version
from tonnage.cli.cluster import connected
from tonnage.cli.terminal.output import line, say
from tonnage.controller.cluster_metrics import ClusterCollector, FollowedCluster
from tonnage.diagnose.monitoring.cluster_families import cluster_families
from tonnage.diagnose.monitoring.scraping import discovered
from tonnage.model.errors import TonnageError
from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.scrape_target import PART_OF
from tonnage.ports.clock import Clock
from tonnage.reading.scrape_targets import scrape_targets
from tonnage.wire.kinds import POD

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.cli.options import Common


async def serve_cluster(common: Common, address: Address, interval_s: float) -> int:
    """Serve metrics of the cluster until a signal comes."""
    async with connected(common, program="tonnage-metrics") as api:
        namespace = common.namespace or api.namespace or "default"
        routes, followed = pages_of_cluster(api, namespace, SystemClock(), interval_s)
        return await _served(address, routes, followed)


def pages_of_cluster(
    api: HttpKubernetes, namespace: str, clock: Clock, interval_s: float
) -> tuple[Mapping[str, Route], Coroutine[Any, Any, None]]:
    """The pages of `tonnage metrics cluster`, and what must run beside them."""
    source = FollowedCluster(api, partial(server_version, api), namespace)
    collector = ClusterCollector(source, clock, interval_s, cluster_families)
    routes = {
        "/metrics": Route(MetricsPage(collector.families, of_fleet=True)),
        "/healthz": probe_page(collector.problems),
    }
    return routes, collector.run()


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
