"""A fleet has two ends of a TLS connection a node, and asyncio's own buffer for each is not small."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol

import pytest

from tonnage.cli.up.embedded import shrink_tls_buffers


async def _buffer_bytes() -> int:
    loop, context = asyncio.get_running_loop(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    protocol = SSLProtocol(loop, asyncio.Protocol(), context, loop.create_future(), server_side=True)
    protocol._app_transport.close()
    return len(protocol.get_buffer(-1))


def test_a_connection_of_the_cluster_takes_a_sixteenth_of_asyncios_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", 256 << 10)  # a cluster may have run in this process
    before = asyncio.run(_buffer_bytes())
    shrink_tls_buffers()
    assert asyncio.run(_buffer_bytes()) == 16 << 10 == before // 16
