"""What the twin's containers really run: the image of the node agent is the node agent."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from tonnage.adapters.http.address import Address, listen
from tonnage.adapters.logging import LineFormatter
from tonnage.agent.main import AgentHost, run_agent
from tonnage.agent.metrics.counters import AgentMetrics
from tonnage.agent.options import AgentOptions
from tonnage.cli.terminal.failure import USAGE
from tonnage.cli.up.pretended_options import agent_arguments_on_the_twin, served_port
from tonnage.model.errors import ClusterError, Problem
from tonnage.model.json import parsed_json
from tonnage.model.validation import FAILED, PASSED
from tonnage.twin.host_programs import PretendedPrograms
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program, Stdio
from tonnage.twin.kubelet.node_disk import LocalDisk
from tonnage.twin.kubelet.programs.gpus import sees_gpus
from tonnage.twin.platform import AGENT_IMAGE

_CONTROLLER: Final = "controller"
_CLUSTER_METRICS: Final = ("tonnage", "metrics", "cluster")
_FOLLOWS: Final = "tail"
"""The one other program that the image has: it follows logs."""
_PROBE: Final = "tonnage.cli.node.pci_probe"
_WORKLOAD: Final = "tonnage.adapters.workload"
_SHARED_MEMORY: Final = "tonnage.adapters.mps.shared_memory"
_STDIO: Final[ContextVar[Stdio | None]] = ContextVar("the streams of the running container", default=None)


def node_programs(kubeconfig: Path) -> Mapping[str, Program]:
    """Program by image; `kubeconfig` is the cluster's own, once there is one."""
    return {AGENT_IMAGE: partial(run_node_agent, kubeconfig=kubeconfig)}


async def run_node_agent(context: ContainerContext, *, kubeconfig: Path) -> int:
    """The agent as in production: its flags, sockets under the node's root, HTTPS to the API server.

    What it is told comes from a manifest, which somebody else may have written: see `pretended_options`.
    Of what else the image is started for, nothing is to be done: a node's root is one folder.
    """
    if _SHARED_MEMORY in context.argv:
        return 0
    if _PROBE in context.argv:
        from tonnage.cli.node.pci_probe import look

        code, text = await asyncio.to_thread(look, context.node_root)
        context.stdio.write(f"{text}\n".encode())
        return code
    if _WORKLOAD in context.argv:
        return _pretend_workload(context)
    if context.argv[:1] == (_FOLLOWS,):
        from tonnage.twin.kubelet.programs.program_table import find_command

        tail = find_command(context)
        assert tail is not None
        return await tail(context)
    if context.argv[: len(_CLUSTER_METRICS)] == _CLUSTER_METRICS:
        return await _serve_cluster_metrics(context, kubeconfig)
    if _CONTROLLER in context.argv[:2]:
        return await _run_cluster_controller(context, kubeconfig)
    from tonnage.adapters.kubernetes.client import connect

    clock, metrics = context.clock, AgentMetrics(context.clock)
    with _logged_to(context.stdio):
        try:
            options = AgentOptions(**agent_arguments_on_the_twin(context, kubeconfig))
        except click.ClickException as error:
            context.stdio.write_error(f"error: {error.format_message()}\n".encode())
            return USAGE
        own = await _own_kubeconfig(context, kubeconfig)
        options, exporting = _with_exporter(options, context)
        host = AgentHost(PretendedPrograms(), _ContainerOutput(context.stdio), exporting)
        with closing(exporting) if exporting else nullcontext():
            async with connect(own, program="tonnage-agent", on_answer=metrics.api_answered) as api:
                await run_agent(options, api=api, clock=clock, metrics=metrics, host=host)
    return 0


def _pretend_workload(context: ContainerContext) -> int:
    """What the workload says where devices are pretended: whether the container got one."""
    if sees_gpus(context):
        context.stdio.write(b"vectorAdd passed on a pretended device\n")
        return PASSED
    context.stdio.write(b"the container got no device\n")
    return FAILED


async def _run_cluster_controller(context: ContainerContext, kubeconfig: Path) -> int:
    """The controller as in production, but that its pages are at a loopback address."""
    from tonnage.adapters.kubernetes.client import connect, server_version
    from tonnage.cli.controller import controller_options_in_a_pod, families_for, judge_for
    from tonnage.controller.counters import ControllerCounters
    from tonnage.controller.main import ControllerHost, run_controller

    counters = ControllerCounters()
    with _logged_to(context.stdio):
        words = [word for word in context.argv if word not in ("tonnage", _CONTROLLER)]
        try:
            options = controller_options_in_a_pod(words, context.env)
        except click.ClickException as error:
            context.stdio.write_error(f"error: {error.format_message()}\n".encode())
            return USAGE
        own = await _own_kubeconfig(context, kubeconfig)
        served_at = _loopback_for(options.metrics_address, context)
        webhook_at = _loopback_for(options.webhook.address, context) if options.webhook else None
        webhook = replace(options.webhook, address="") if options.webhook else None
        options = replace(options, metrics_address="", webhook=webhook)
        with (
            closing(served_at) if served_at else nullcontext(),
            closing(webhook_at) if webhook_at else nullcontext(),
        ):
            async with connect(own, program="tonnage-controller", on_answer=counters.api_answered) as api:
                version, families = partial(server_version, api), families_for(options)
                host = ControllerHost(
                    *(None, version, families, served_at), judge=judge_for(options), webhook_at=webhook_at
                )
                await run_controller(options, api=api, clock=context.clock, counters=counters, host=host)
    return 0


async def _serve_cluster_metrics(context: ContainerContext, kubeconfig: Path) -> int:
    """`tonnage metrics cluster` as in production, but that its pages are at a loopback address."""
    from tonnage.adapters.http.server import HttpServer
    from tonnage.adapters.kubernetes.client import connect
    from tonnage.cli.metrics.command import cluster
    from tonnage.cli.metrics.serving import pages_of_cluster

    words = list(context.argv[len(_CLUSTER_METRICS) :])
    with _logged_to(context.stdio):
        try:
            values = cluster.make_context(" ".join(_CLUSTER_METRICS), words, help_option_names=[]).params
        except click.ClickException as error:
            context.stdio.write_error(f"error: {error.format_message()}\n".encode())
            return USAGE
        listening = _loopback_for(str(values["address"] or ""), context)
        if listening is None:
            context.stdio.write_error(
                b"error: on the twin --address must be a port of every address, :9411\n"
            )
            return USAGE
        with closing(listening):
            own = await _own_kubeconfig(context, kubeconfig)
            async with connect(own, program="tonnage-metrics") as api, asyncio.TaskGroup() as group:
                namespace = context.pod.metadata.namespace
                routes, followed = pages_of_cluster(api, namespace, context.clock, values["interval"])
                group.create_task(followed)
                group.create_task(HttpServer(listening, routes).run())
    return 0


def _with_exporter(
    options: AgentOptions, context: ContainerContext
) -> tuple[AgentOptions, socket.socket | None]:
    """An exporter that would serve a port of the pod serves a free one of 127.0.0.1."""
    listening = _loopback_for(options.exporter.address, context)
    if listening is None:
        return options, None
    return replace(options, exporter=replace(options.exporter, address="")), listening


def _loopback_for(address: str, context: ContainerContext) -> socket.socket | None:
    """A free port of 127.0.0.1 for a port of the pod; None: it is to be served elsewhere."""
    port = served_port(address)
    if not port:
        return None
    listening = listen(Address("127.0.0.1", 0))
    context.ports.open(port, listening.getsockname()[1])
    return listening


async def _own_kubeconfig(context: ContainerContext, source: Path) -> Path:
    """Where the API server is, with a token of the pod's own account in place of the administrator's.

    Raises ClusterError: the pod has no token, and nobody else's is lent to it.
    """
    token, disk = await context.token(), LocalDisk()
    if not token:
        raise ClusterError(Problem("the pod has no token of a service account", context.pod.metadata.name))
    document: Any = parsed_json(await disk.read(source) or b"{}")
    for user in document.get("users", ()):
        user["user"] = {"token": token}
    own = context.node_root / "var/lib/kubelet/pods" / context.pod.metadata.uid / "kubeconfig"
    own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    await disk.write(own, json.dumps(document).encode())
    return own


class _ContainerOutput:
    """The standard output of one container, as a stream of text."""

    def __init__(self, stdio: Stdio) -> None:
        self._stdio = stdio

    def write(self, text: str, /) -> None:
        self._stdio.write(text.encode())

    def flush(self) -> None:
        """Nothing: the log has it."""


class _ContainerLog(logging.Handler):
    """What the tasks of one container log, as its standard error: many agents share this process."""

    def __init__(self, stdio: Stdio) -> None:
        super().__init__(logging.INFO)
        self._stdio = stdio
        self.setFormatter(LineFormatter())
        self.addFilter(lambda _record: _STDIO.get() is stdio)

    def emit(self, record: logging.LogRecord) -> None:
        self._stdio.write_error(f"{self.format(record)}\n".encode())


@contextmanager
def _logged_to(stdio: Stdio) -> Iterator[None]:
    """Tasks that are started inside inherit the streams."""
    before = _STDIO.set(stdio)
    handler, logger = _ContainerLog(stdio), logging.getLogger("tonnage")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        _STDIO.reset(before)
