"""The exporter: what it is made of, in the agent and as a process of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tonnage.adapters.config_file import MountedConfigFile
from tonnage.adapters.http.address import Address
from tonnage.adapters.http.exporter_server import exporter_server
from tonnage.adapters.http.server import HttpServer
from tonnage.adapters.http.web_config_file import WebConfigFile
from tonnage.adapters.job_files import JobFiles
from tonnage.adapters.kubelet.device_holders import KubeletFiles
from tonnage.adapters.process_table import ProcFiles
from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.exporter.collectors import Collectors
from tonnage.agent.exporter.page import ExporterPage
from tonnage.agent.exporter.pod_usage import UsageMeter
from tonnage.agent.exporter.processes import DeviceProcesses
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.exporter.shares import Replicas
from tonnage.decide.node.exporter.usage import USAGE_FIELDS
from tonnage.ports.clock import Clock
from tonnage.ports.node import DeviceReader

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeSources:
    """What differs by who exports: the `root` of the node's /proc, and the replicas of devices."""

    root: Path
    replicas: Callable[[], Replicas]


async def export(
    settings: ExporterSettings,
    context: AgentContext,
    board: NodeBoard,
    backend: DeviceReader,
    listening: socket.socket,
    node: NodeSources,
) -> None:
    """Sample the devices and serve their page until cancelled."""
    collectors = Collectors(context, MountedConfigFile(settings.collectors) if settings.collectors else None)
    sampler = DeviceSampler(context, backend, lambda: collectors.fields() | USAGE_FIELDS, settings)
    processes = DeviceProcesses(context, board, backend, ProcFiles(node.root)) if settings.processes else None
    meter = UsageMeter(context, board, sampler, replicas=node.replicas, processes=processes)
    jobs = JobFiles(settings.jobs).contents
    page = ExporterPage(settings, board, context.clock, sampler, jobs, meter)
    server = _server(listening, settings, context.clock, page, collectors)
    host, port = listening.getsockname()[:2]
    _LOG.info("device metrics served: node=%s address=%s", context.node, Address(host, port))
    async with asyncio.TaskGroup() as group:
        for run in (collectors.run, sampler.run, meter.run, server.run):
            group.create_task(run())


async def run_exporter(
    settings: ExporterSettings,
    context: AgentContext,
    backend: DeviceReader,
    listening: socket.socket,
    root: Path,
) -> None:
    """Be the exporter and nothing else until cancelled, so that the agent's pod needs no `hostPID`."""
    from tonnage.agent.exporter.alone import LoneExporter  # an agent that exports needs none

    board = NodeBoard.blank(context.clock)
    kubelet = KubeletFiles(root / "var/lib/kubelet")
    lone = LoneExporter(context, board, backend, kubelet)
    node = NodeSources(root, lone.replicas)
    context.started.set()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(lone.run())
            group.create_task(export(settings, context, board, backend, listening, node))
    finally:
        await kubelet.close()
        await backend.close()


def _server(
    listening: socket.socket,
    settings: ExporterSettings,
    clock: Clock,
    page: ExporterPage,
    collectors: Collectors,
) -> HttpServer:
    web = settings.web_config
    access = None if web is None else WebConfigFile(web, clock, root=settings.web_root)
    return exporter_server(listening, lambda: page.text(collectors.counters), access, page.refresh)
