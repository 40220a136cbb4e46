"""`tonnage top`: what runs on the GPUs now."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from tonnage.cli.cluster import connected
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, lines, say, terminal_width
from tonnage.diagnose.top.columns import COLUMNS, View
from tonnage.diagnose.top.screen_state import ScreenState
from tonnage.reading.command_kinds import AGENTS_NAMESPACE

if TYPE_CHECKING:
    from tonnage.cli.top.sources import Moment, UsageSource
    from tonnage.diagnose.top.usage import FleetUsage

_HEADS: Final = tuple(dict.fromkeys(column.head.lower() for view in View for column in COLUMNS[view]))
_NOTHING: Final = {
    View.NODES: "No node with a GPU was found.",
    View.DEVICES: "No GPU was found.",
    View.PODS: "No pod holds a GPU.",
}
_BLIND: Final = "UNKNOWN: no reading of any GPU could be read."


_LIVE_S: Final = 1.0
"""So long the screen waits for agents; who answers later is shown by the next reading."""
_ONCE_S: Final = 10.0


class Screen(TypedDict):
    """What the screen shows at first."""

    view: str
    sort: str | None
    words: str
    interval: float


@click.command(
    help="Watch what runs on the GPUs now, by node, device and pod.\n\n"
    "Live on a terminal: ? shows the keys. Elsewhere, and with --once, it prints one reading. Readings come "
    "from the agents' device metrics, through the API server's proxy to their pods (tonnage access top shows "
    "the rights); without that, from NodeGPUStatus, with its age.",
    epilog=examples(
        "tonnage top",
        "tonnage top --view pods --sort busy --filter ml/",
        "tonnage top --once -o json",
        "tonnage top --node-address gpu-0:9400    # one agent, or a dcgm-exporter",
    ),
)
@click.option(
    "--view",
    type=click.Choice([view.value for view in View]),
    default=View.DEVICES.value,
    show_default=True,
    help="What each row shows.",
)
@click.option(
    "--sort",
    type=click.Choice(_HEADS),
    help="Column to sort by, the highest number first [default: the view's first].",
)
@click.option("--filter", "words", metavar="TEXT", default="", help="Show only rows that contain this text.")
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 300),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two readings.",
)
@click.option("--once", is_flag=True, help="Print one reading and end.")
@click.option(
    "--node-address",
    metavar="HOST:PORT",
    help="Read the device metrics at this address instead of a cluster.",
)
@click.option(
    "--agents-namespace",
    metavar="NAME",
    default=AGENTS_NAMESPACE,
    show_default=True,
    help="Namespace of the agents.",
)
@common_options(output=("text", "json"), cluster=True, namespace=True)
def command(
    common: Common, *, once: bool, node_address: str | None, agents_namespace: str, **chosen: Unpack[Screen]
) -> int:
    """Exit status 143 after SIGTERM; the terminal is as it was then, too."""
    view, sort = View(chosen["view"]), chosen["sort"]
    heads = [column.head.lower() for column in COLUMNS[view]]
    if sort is not None and sort not in heads:
        raise click.UsageError(f"--sort {sort}: {view} are sorted by one of {', '.join(heads)}")
    state = ScreenState(view, (sort or "").upper(), filter=chosen["words"], interval_s=chosen["interval"])
    live = not once and common.output == "text" and sys.stdin.isatty() and sys.stdout.isatty()
    return asyncio.run(_run(common, state, node_address, agents_namespace, live=live))


async def _run(
    common: Common, state: ScreenState, node_address: str | None, agents: str, *, live: bool
) -> int:
    from tonnage.diagnose.top.usage import fleet_usage

    def usage_of(moment: Moment) -> FleetUsage:
        return fleet_usage(moment.reports, moment.pages, moment.now, common.namespace)

    patience_s = _LIVE_S if live else _ONCE_S
    async with _source(common, node_address, agents, patience_s) as source:
        if live:
            from tonnage.cli.top.live import LiveScreen

            return await LiveScreen(source.read, usage_of, state).run()
        moment = await source.read()
    _show(usage_of(moment), moment, state, common.output)
    return 0


@asynccontextmanager
async def _source(
    common: Common, node_address: str | None, agents: str, patience_s: float
) -> AsyncIterator[UsageSource]:
    from tonnage.cli.top.sources import ClusterSource, PageSource

    if node_address is not None:
        yield PageSource(node_address)
        return
    async with connected(common) as api:
        namespace = common.namespace or api.namespace or "default"
        source = ClusterSource(api, agents, namespace, patience_s)
        try:
            yield source
        finally:
            await source.close()


def _show(usage: FleetUsage, moment: Moment, state: ScreenState, output: str) -> None:
    from tonnage.diagnose.top.layout import rows_of, summary, table_lines

    if output == "json":
        emit({**asdict(usage), "notes": [*moment.notes]}, output)
        return
    for note in moment.notes:
        say(note, err=True)
    rows = rows_of(usage, state)
    if not rows:
        nothing = _BLIND if moment.blind else _NOTHING[state.view]
        say(nothing if not state.filter else "No row contains this text.", err=True)
        return
    width = terminal_width()
    say(lines([summary(usage, state, width), *table_lines(rows, state, width, {})]))
