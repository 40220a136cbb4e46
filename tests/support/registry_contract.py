"""What HttpRegistry says of a registry of images, whichever it is, and whom it tells a secret.

The registry is `registry.example.com`, which no name server knows: a proxy leads there. It wants a login,
has one image, and serves by TLS with a certificate of an authority of its own, also at 127.0.0.2.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tonnage.adapters.certificates import Authority
from tonnage.adapters.http.registry import HttpRegistry
from tonnage.model.drivers.images import ImageAnswer, RegistryRoute, TagState

HOST: Final = "registry.example.com"
ADDRESS: Final = "127.0.0.2"
NAME: Final = "nvidia/driver"
TAG: Final = "595.91.07-ubuntu22.04"
LOGIN: Final = base64.b64encode(b"user:secret").decode()
_LIMIT_S: Final = 30


@dataclass(frozen=True, slots=True)
class ServedRegistry:
    """Where it listens, and the authority of its certificate."""

    port: int
    authority: str


class Tunnel:
    """A proxy for HTTPS, through which every name leads to one port. `seen` are the names."""

    def __init__(self, to: int) -> None:
        self._to = to
        self.seen: list[str] = []
        self.heads: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        self.seen.append(head.split(" ")[1])
        back, there = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            pumps = [
                asyncio.ensure_future(pump) for pump in (_pass_on(reader, there), _pass_on(back, writer))
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            there.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    context: ssl.SSLContext | None = None,
    *,
    address: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[int]:
    """The port of a server; its connections end with it."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(connected, address, port, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def served_with(certificate: Path, key: Path) -> ssl.SSLContext:
    """For a server with this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


@asynccontextmanager
async def tunnel(to: int) -> AsyncIterator[Tunnel]:
    """A proxy that leads to this port."""
    proxy = Tunnel(to)
    async with listening(proxy.serve) as proxy.port:
        yield proxy


def credentials(folder: Path) -> tuple[Path, Path, str]:
    """Certificate and key of the registry as files, and the authority's certificate in PEM."""
    authority = Authority.generate(datetime.now(UTC))
    pair = authority.issue(HOST, hosts=[HOST, ADDRESS, "127.0.0.1"], server=True)
    certificate, key = folder / "registry.pem", folder / "registry.key"
    certificate.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    return certificate, key, authority.certificate_pem.decode()


def secret_for(host: str, login: str = LOGIN) -> str:
    """A `.dockerconfigjson`."""
    return json.dumps({"auths": {host: {"auth": login}}})


class RegistryContract:
    """A subclass has the registry as the fixture `served`."""

    async def _ask(
        self, tag: str, route: RegistryRoute, *secrets: str, host: str = HOST, may: str = HOST
    ) -> ImageAnswer:
        async with asyncio.timeout(_LIMIT_S):
            return await HttpRegistry([may]).ask(f"{host}/{NAME}:{tag}", secrets, route)

    async def test_a_tag_that_is_there_and_one_that_is_not(self, served: ServedRegistry) -> None:
        """Through the proxy, by the authority and with the secret that the policy names."""
        async with tunnel(served.port) as proxy:
            route = RegistryRoute(proxy.url, authorities=served.authority)
            there = await self._ask(TAG, route, secret_for("other.example.com"), secret_for(HOST))
            missing = await self._ask("1.0-ubuntu22.04", route, secret_for(HOST))
        assert (there.state, missing.state) == (TagState.EXISTS, TagState.MISSING)
        assert set(proxy.seen) == {f"{HOST}:443"}
        assert LOGIN not in str(proxy.heads), "the proxy is told no secret"

    async def test_by_a_digest(self, served: ServedRegistry) -> None:
        async with tunnel(served.port) as proxy, asyncio.timeout(_LIMIT_S):
            route = RegistryRoute(proxy.url, authorities=served.authority)
            image = f"{HOST}/{NAME}@sha256:{'0' * 64}"
            answer = await HttpRegistry([HOST]).ask(image, (secret_for(HOST),), route)
        assert answer.state is TagState.MISSING

    async def test_an_authority_that_nobody_named_is_not_trusted(self, served: ServedRegistry) -> None:
        async with tunnel(served.port) as proxy:
            answer = await self._ask(TAG, RegistryRoute(proxy.url), secret_for(HOST))
        assert (answer.state, answer.why) == (
            TagState.UNKNOWN,
            f"registry {HOST} does not answer: ConnectError",
        )

    async def test_what_is_no_certificate_is_named(self, served: ServedRegistry) -> None:
        async with tunnel(served.port) as proxy:
            answer = await self._ask(TAG, RegistryRoute(proxy.url, authorities="größer"), secret_for(HOST))
        assert "no certificates in PEM" in answer.why
        assert proxy.seen == []

    async def test_a_secret_for_another_host_is_none(self, served: ServedRegistry) -> None:
        async with tunnel(served.port) as proxy:
            route = RegistryRoute(proxy.url, authorities=served.authority)
            answer = await self._ask(TAG, route, secret_for(f"{HOST}.evil.example"))
        assert answer.state is TagState.UNKNOWN
        assert "wants credentials that no pull secret of the policy has" in answer.why

    async def test_a_secret_that_the_registry_refuses(self, served: ServedRegistry) -> None:
        wrong = base64.b64encode(b"user:wrong").decode()
        async with tunnel(served.port) as proxy:
            route = RegistryRoute(proxy.url, authorities=served.authority)
            answer = await self._ask(TAG, route, secret_for(HOST, wrong))
        assert (answer.state, answer.why) == (
            TagState.UNKNOWN,
            f"registry {HOST} refuses the credentials (HTTP 401)",
        )

    async def test_a_redirect_takes_no_secret_along(self, served: ServedRegistry, tmp_path: Path) -> None:
        """A server in front of it, that wants a login itself and then sends to the registry."""
        certificate, key, authority = credentials(tmp_path)
        seen: list[str] = []

        async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            seen.append(head)
            place = f"https://{ADDRESS}:{served.port}/v2/{NAME}/manifests/{TAG}"
            answer = f"307 Temporary Redirect\r\nLocation: {place}"
            if "authorization:" not in head.lower():
                answer = '401 Unauthorized\r\nWWW-Authenticate: Basic realm="front"'
            writer.write(f"HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()

        host = f"{ADDRESS}:{served.port}"
        async with (
            asyncio.timeout(_LIMIT_S),
            listening(redirect, served_with(certificate, key)) as port,
            tunnel(port) as proxy,
        ):
            route = RegistryRoute(proxy.url, authorities=authority + served.authority)
            registry = HttpRegistry([HOST, host])
            secrets = (secret_for(HOST), secret_for(host, "b3RoZXI6c2VjcmV0"))
            answer = await registry.ask(f"{HOST}/{NAME}:{TAG}", secrets, route)
        assert (answer.state, answer.why) == (TagState.UNKNOWN, f"registry {HOST} answers HTTP 307")
        assert [LOGIN in head for head in seen] == [False, True]
        assert set(proxy.seen) == {f"{HOST}:443"}

    async def test_without_the_proxy_where_the_policy_says_so(self, served: ServedRegistry) -> None:
        host = f"{ADDRESS}:{served.port}"
        async with tunnel(served.port) as proxy:
            route = RegistryRoute(proxy.url, "localhost,127.0.0.2", served.authority)
            answer = await self._ask(TAG, route, secret_for(host), host=host, may=host)
        assert answer.state is TagState.EXISTS
        assert proxy.seen == []

    async def test_a_host_that_may_not_be_asked(self, served: ServedRegistry) -> None:
        async with tunnel(served.port) as proxy:
            route = RegistryRoute(proxy.url, authorities=served.authority)
            answer = await self._ask(TAG, route, secret_for(HOST), may="nvcr.io")
        assert answer.state is TagState.UNKNOWN
        assert "not among those that may be asked" in answer.why
        assert proxy.seen == []

    async def test_where_nothing_is_reached_nothing_is_known(self, served: ServedRegistry) -> None:
        """The proxy's port is closed; its address is none; the proxy reaches nothing."""
        for proxy in ("http://127.0.0.1:1", "127.0.0.1:1", "gopher://x", "http://["):
            route = RegistryRoute(proxy, authorities=served.authority)
            answer = await self._ask(TAG, route, secret_for(HOST))
            assert answer.state is TagState.UNKNOWN, proxy
        async with tunnel(1) as dead:
            answer = await self._ask(TAG, RegistryRoute(dead.url), secret_for(HOST))
        assert answer.state is TagState.UNKNOWN
