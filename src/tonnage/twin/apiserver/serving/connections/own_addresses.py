"""Which addresses the twin's API server may call: those of the machine on which it runs, and no others.

A genuine server calls whatever a webhook or a Node names. Here the manifests of others are tried on one's own
machine, in one's own network: what a Node, a URL or Endpoints say must not have it knock elsewhere, nor send
objects there.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import closing, suppress


class ElsewhereError(Exception):
    """The address is not this machine's; the text says so."""


async def dial(
    host: str, port: int, context: ssl.SSLContext, server_name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TLS connection to this machine, at the addresses that the name or address stands for.

    Raises:
        ElsewhereError: it stands for none of this machine's.
        OSError: the name cannot be looked up, or nobody listens.
    """
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    own = [
        str(address[0]) for family, kind, _, _, address in addresses if _is_own(family, kind, str(address[0]))
    ]
    if not own:
        raise ElsewhereError(f"{host} is not an address of this machine, and the twin calls no other")
    for address in own[:-1]:
        with suppress(ConnectionRefusedError):
            return await asyncio.open_connection(address, port, ssl=context, server_hostname=server_name)
    return await asyncio.open_connection(own[-1], port, ssl=context, server_hostname=server_name)


def _is_own(family: int, kind: int, address: str) -> bool:
    """Whether one could listen there."""
    with closing(socket.socket(family, kind)) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True
