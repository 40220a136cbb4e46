"""`tonnage node`: the node agent as a process of its own, the entry point of the DaemonSet."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from tonnage.cli.options import Common, common_options, examples

if TYPE_CHECKING:
    from tonnage.agent.main import AgentOptions

_FILE = click.Path(dir_okay=False, path_type=Path)


class Told(TypedDict):
    """What the command line says about the agent: every field of its `AgentOptions`."""

    node_name: str
    devices: str
    root: Path
    config: Path | None
    config_map: str
    driver_root: Path | None
    metrics_address: str


@click.command(
    help="Run the node agent (what the DaemonSet starts).",
    epilog=examples(
        "tonnage node --node-name $(hostname)      # as the DaemonSet starts it",
        "tonnage node --node-name a --standalone --root /tmp/a --devices scenario:a.yaml",
    ),
)
@click.option(
    "--node-name", envvar="NODE_NAME", required=True, metavar="NAME", help="Its Node object [env: NODE_NAME]."
)
@click.option(
    "--devices",
    default="nvml",
    show_default=True,
    metavar="nvml|scenario:FILE",
    help="Where devices come from.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    show_default=True,
    help="Stands before every path of the node.",
)
@click.option(
    "--config",
    type=_FILE,
    metavar="FILE",
    help="Device-plugin config v1, where neither label nor ConfigMap names one.",
)
@click.option(
    "--config-map",
    default="tonnage-system/device-plugin-config",
    show_default=True,
    metavar="NAMESPACE/NAME",
    help="Where configs are; the node's label nvidia.com/device-plugin.config is the key.",
)
@click.option(
    "--driver-root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the driver's files are visible to this process [default: the system's library search].",
)
@click.option(
    "--metrics-address",
    default="",
    metavar="IP:PORT",
    help="Serve /metrics, /healthz and /readyz there; [::1]:9400, :9400 for all [default: nowhere].",
)
@click.option(
    "--standalone", is_flag=True, help="Ask no API server: the config is --config, nothing is published."
)
@common_options(cluster=True)
def command(common: Common, standalone: bool, **told: Unpack[Told]) -> int:
    """Until SIGTERM or Ctrl-C; sockets are removed then, allocations stay on disk for the next start."""
    from tonnage.adapters.logging import set_up_logging
    from tonnage.agent.main import AgentOptions

    set_up_logging(sys.stderr, verbose=common.verbose, level=logging.INFO)
    return asyncio.run(_run(AgentOptions(**told), common, standalone=standalone))


async def _run(options: AgentOptions, common: Common, *, standalone: bool) -> int:
    from tonnage.adapters.clock import SystemClock
    from tonnage.agent.main import run_agent

    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        if standalone:
            await run_agent(options, api=None, clock=SystemClock())
        else:
            from tonnage.cli.cluster import connected

            async with connected(common) as api:
                await run_agent(options, api=api, clock=SystemClock())
    except asyncio.CancelledError:
        return 0
    return 0
