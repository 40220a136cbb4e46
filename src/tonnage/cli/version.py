"""`tonnage version`: this program's version and, when one answers, the cluster's."""

from __future__ import annotations

import asyncio

import click

import tonnage
from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, say
from tonnage.model.errors import TonnageError
from tonnage.model.json import JsonObject


@click.command(
    help="Print the versions of this program and of the cluster.",
    epilog=examples("tonnage version", "tonnage version --client -o json"),
)
@click.option("--client", "client_only", is_flag=True, help="Print only the version of this program.")
@common_options(output=("text", "json", "yaml"), cluster=True)
def command(common: Common, client_only: bool) -> None:
    server = None if client_only else asyncio.run(_server_version(common))
    answer: JsonObject = {"client": tonnage.__version__, "server": server}
    if common.output != "text":
        emit(answer, common.output)
        return
    say(f"tonnage {tonnage.__version__}")
    if server:
        say(f"server  {server}")
    elif not client_only:
        say("server  not reached", err=True)


async def _server_version(common: Common) -> str | None:
    """The server's version, or None when there is no kubeconfig or nobody answers."""
    from tonnage.adapters.kubernetes.client import server_version
    from tonnage.cli.cluster import connected

    try:
        async with asyncio.timeout(5):
            async with connected(common) as api:
                return await server_version(api)
    except (TonnageError, TimeoutError):
        return None
