"""Objects that would have the API server call somebody else: it calls this machine alone."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast

import pytest

from tonnage.twin.apiserver.serving.connections.own_addresses import ElsewhereError, dial
from tonnage.twin.apiserver.serving.kubelets.kubelet_http import UnreachableError, connect
from tonnage.twin.apiserver.webhooks.client import post
from tonnage.twin.apiserver.webhooks.review import CallError

ELSEWHERE = "is not an address of this machine, and the twin calls no other"
NOBODYS = ["192.0.2.7", "169.254.169.254", "[2001:db8::7]"]
"""Of documentation (RFC 5737, RFC 3849), and where clouds have their credentials."""


@pytest.mark.parametrize("address", NOBODYS)
async def test_a_webhook_elsewhere_is_not_called(address: str) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(CallError, match=ELSEWHERE):
            await post({"url": f"https://{address}/latest"}, cast(Any, None), b"{}", 30)


async def test_a_kubelet_elsewhere_is_not_asked() -> None:
    async with asyncio.timeout(20):
        with pytest.raises(UnreachableError, match=ELSEWHERE):
            await connect("192.0.2.7", 10250, ssl.create_default_context())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "localhost"])
async def test_this_machine_is_called(host: str) -> None:
    """Nobody speaks TLS there: how far it comes shows that somebody was asked."""
    asked = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        writer.close()

    server = await asyncio.start_server(answer, ["127.0.0.1", "127.0.0.9"], 0)
    port = {one.getsockname()[0]: one.getsockname()[1] for one in server.sockets}
    async with server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await dial(host, port.get(host, port["127.0.0.1"]), ssl.create_default_context(), host)
        await asked.wait()


async def test_a_name_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was looked up as is what is called: a name cannot stand for another address a moment later."""

    async def resolved(*_: Any, **__: Any) -> Any:
        return [(2, 1, 6, "", ("192.0.2.7", 443))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolved)
    with pytest.raises(ElsewhereError, match=f"hook.example {ELSEWHERE}"):
        await dial("hook.example", 443, ssl.create_default_context(), "hook.example")
