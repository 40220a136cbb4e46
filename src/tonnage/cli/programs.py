"""What the twin's containers really run: the image of the node agent is the node agent."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import click

from tonnage.adapters import shared_memory
from tonnage.adapters.logging import LineFormatter
from tonnage.agent.main import run_agent
from tonnage.agent.metrics import AgentMetrics
from tonnage.agent.options import AgentOptions
from tonnage.cli.failure import USAGE
from tonnage.cli.node import Told, command, told_by
from tonnage.cli.plugin_flags import Surroundings
from tonnage.model.json import parsed_json
from tonnage.twin.kubelet.files import LocalDisk
from tonnage.twin.kubelet.runtime import ContainerContext, Program, Stdio
from tonnage.twin.kubelet.spec import NodePaths
from tonnage.twin.platform import AGENT_IMAGE

_ANYWHERE: Final = ("", "0.0.0.0", "[::]")  # noqa: S104 - not listened at
_STDIO: Final[ContextVar[Stdio | None]] = ContextVar(
    "the streams of the container that runs here", default=None
)


def node_programs() -> Mapping[str, Program]:
    """Program by image."""
    return {AGENT_IMAGE: run_node_agent}


async def run_node_agent(context: ContainerContext) -> int:
    """The agent as in production: its flags, sockets under the node's root, HTTPS to the API server.

    Of what else the image is started for, nothing is to be done: a node's root is one folder.
    """
    if shared_memory.__name__ in context.argv:
        return 0
    from tonnage.adapters.kubernetes.client import connect

    try:
        told = told_on_the_twin(context)
    except click.ClickException as error:
        context.stdio.write_error(f"error: {error.format_message()}\n".encode())
        return USAGE
    options, clock = AgentOptions(**told), context.clock
    metrics = AgentMetrics(clock)
    with _logged_to(context.stdio):
        kubeconfig = await _own_kubeconfig(context)
        async with connect(kubeconfig, program="tonnage-agent", on_answer=metrics.api_answered) as api:
            await run_agent(options, api=api, clock=clock, metrics=metrics)
    return 0


async def _own_kubeconfig(context: ContainerContext) -> Path:
    """Where the API server is, with a token of the pod's own account in place of the administrator's."""
    given, token, disk = Path(context.env["KUBECONFIG"]), await context.token(), LocalDisk()
    if not token:
        return given
    document: Any = parsed_json(await disk.read(given) or b"{}")
    for user in document.get("users", ()):
        user["user"] = {"token": token}
    own = context.node_root / "var/lib/kubelet/pods" / context.pod.metadata.uid / "kubeconfig"
    own.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    await disk.write(own, json.dumps(document).encode())
    return own


def told_on_the_twin(context: ContainerContext) -> Told:
    """What the container's command line says to the agent, seen from outside the container.

    Its paths are below the node's root, and so are pretended devices in place of NVML's. Its pods have no
    network of their own: who wants to be reached at any address of a pod is not served there.
    Raises click.ClickException for what `tonnage node` does not take.
    """
    words = list(context.argv)
    for name in ("tonnage", "node"):
        if words[:1] == [name]:
            del words[0]
    told = told_by(command.make_context("tonnage node", words, obj=Surroundings(context.env)))
    address = told["metrics_address"]
    if address.rpartition(":")[0] in _ANYWHERE:
        told["metrics_address"] = ""
    if told["devices"] == "nvml":
        told["devices"] = f"scenario:{NodePaths(context.node_root).hardware}"
    told["root"] = context.node_root
    told["config"] = _on_node(told["config"], context.node_root)
    told["driver_root"] = _on_node(told["driver_root"], context.node_root)
    return told


def _on_node(path: Path | None, root: Path) -> Path | None:
    return path and root.joinpath(*path.parts[1:] if path.is_absolute() else path.parts)


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
