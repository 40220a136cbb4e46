"""Asks a kubelet's HTTPS endpoint as an API server does, with a certificate or without."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.connections import connection
from tonnage.adapters.certificates import Authority
from tonnage.model.key_pair import KeyPair


@dataclass
class Dialer:
    """An API server's way to one kubelet."""

    port: int
    ca: Authority
    folder: Path
    connections: AsyncExitStack

    def tls(self, pair: KeyPair | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.ca.certificate_pem.decode())
        if pair is not None:
            file = self.folder / "client.pem"
            file.write_bytes(pair.certificate_pem + pair.key_pem)
            context.load_cert_chain(file)
        return context

    async def connect(self, pair: KeyPair | None = None, *, anonymous: bool = False) -> Any:
        if pair is None and not anonymous:
            pair = self.ca.issue("kube-apiserver-kubelet-client", client=True)
        opening = asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls(pair))
        return await self.connections.enter_async_context(connection(opening))

    async def get(self, path: str, **who: Any) -> tuple[int, str]:
        reader, writer = await self.connect(**who)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: kubelet\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(60):
            raw = await reader.read()
        head, _, body = raw.partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head.lower():
            body = _unchunked(body)
        return int(head.split(b" ")[1]), body.decode()


def _unchunked(body: bytes) -> bytes:
    result = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        result, body = result + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return result
