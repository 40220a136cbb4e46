"""What the twin's containers really run: the image of the node agent is the node agent."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from tonnage.adapters.logging import LineFormatter
from tonnage.agent.main import AgentOptions, run_agent
from tonnage.twin.kubelet.runtime import ContainerContext, Program, Stdio
from tonnage.twin.kubelet.spec import NodePaths
from tonnage.twin.platform import AGENT_IMAGE

_STDIO: Final[ContextVar[Stdio | None]] = ContextVar(
    "the streams of the container that runs here", default=None
)


def node_programs() -> Mapping[str, Program]:
    """Program by image."""
    return {AGENT_IMAGE: run_node_agent}


async def run_node_agent(context: ContainerContext) -> int:
    """The agent as in production: sockets under the node's root, HTTPS to the API server."""
    from tonnage.adapters.kubernetes.client import connect

    options = AgentOptions(
        node_name=context.env["NODE_NAME"],
        devices=f"scenario:{NodePaths(context.node_root).hardware}",
        root=context.node_root,
    )
    with _logged_to(context.stdio):
        async with connect(Path(context.env["KUBECONFIG"]), program="tonnage-agent") as api:
            await run_agent(options, api=api, clock=context.clock)
    return 0


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
