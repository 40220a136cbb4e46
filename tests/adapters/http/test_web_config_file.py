"""A page under a web config: TLS, users, and what happens when the file or a certificate changes."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import bcrypt
import pytest

from tonnage.adapters.certificates import Authority
from tonnage.adapters.http.address import Address, listen
from tonnage.adapters.http.exporter_server import exporter_server
from tonnage.adapters.http.web_config_file import WebConfigFile

AUTHORITY = Authority.generate(datetime.now(UTC))
HASH = bcrypt.hashpw(b"hunter2", bcrypt.gensalt(4)).decode()
USERS = f"basic_auth_users: {{prometheus: {HASH}}}\n"
TLS = "tls_server_config: {cert_file: tls.crt, key_file: tls.key"
RIGHT = "prometheus:hunter2"
PATIENCE_S = 60


class Turns:
    """A clock that stands still; `pass_by` lets who sleeps look once."""

    def __init__(self) -> None:
        self._sleeping = asyncio.Event()
        self._wake = asyncio.Event()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        del seconds
        self._sleeping.set()
        await self._wake.wait()
        self._wake.clear()

    async def pass_by(self) -> None:
        """Return when the sleeper sleeps again."""
        await self.asleep()
        self._sleeping.clear()
        self._wake.set()
        await self.asleep()

    async def asleep(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._sleeping.wait()


@dataclass
class Site:
    """A page with its folder of settings."""

    folder: Path
    port: int
    clock: Turns = field(default_factory=Turns)

    def certificate(self, name: str = "tls") -> None:
        pair = AUTHORITY.issue("exporter", hosts=["127.0.0.1"], server=True)
        (self.folder / f"{name}.crt").write_bytes(pair.certificate_pem)
        (self.folder / f"{name}.key").write_bytes(pair.key_pem)

    async def write(self, text: str) -> None:
        (self.folder / "web.yml").write_text(text)
        await self.clock.pass_by()

    async def ask(
        self, login: str = "", context: ssl.SSLContext | None = None, path: str = "/metrics"
    ) -> tuple[int, str]:
        """As `user:password`. Status and the whole answer; -1 when the connection ends without one."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
            except (ssl.SSLError, ConnectionError):
                return -1, ""
            encoded = base64.b64encode(login.encode()).decode()
            header = f"Authorization: Basic {encoded}\r\n" if login else ""
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n".encode())
            try:
                answer = (await reader.read()).decode()
            except (ssl.SSLError, ConnectionError):
                answer = ""
            writer.transport.abort()
        return (int(answer.split()[1]) if answer else -1), answer

    async def serial(self) -> int:
        """The number of the certificate that is shown."""
        async with asyncio.timeout(PATIENCE_S):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trusting())
            shown = writer.get_extra_info("peercert")
            writer.transport.abort()
        return int(shown["serialNumber"], 16)


def trusting(newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate_pem.decode())
    context.maximum_version = newest
    return context


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    (tmp_path / "web.yml").write_text("")
    with listen(Address("127.0.0.1", 0)) as listening:
        made = Site(tmp_path, listening.getsockname()[1])
        file = WebConfigFile(tmp_path / "web.yml", made.clock)
        task = asyncio.create_task(exporter_server(listening, lambda: "up 1\n", file).run())
        await made.clock.asleep()
        yield made
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_without_users_everybody_may_ask(site: Site) -> None:
    status, answer = await site.ask()
    assert (status, answer.endswith("up 1\n")) == (200, True)
    status, answer = await site.ask(path="/health")
    assert (status, answer.endswith("\r\n\r\nOK\n")) == (200, True)


async def test_users_are_told_by_their_passwords(site: Site) -> None:
    await site.write(USERS)
    logins = ("", "prometheus:wrong", "nobody:hunter2", RIGHT, RIGHT)
    asked = [(await site.ask(login))[0] for login in logins]
    assert asked == [401, 401, 401, 200, 200]
    assert "www-authenticate: Basic" in (await site.ask())[1]


async def test_headers_go_with_every_answer(site: Site) -> None:
    await site.write(f"{USERS}http_server_config: {{headers: {{X-Frame-Options: deny}}}}\n")
    assert "X-Frame-Options: deny" in (await site.ask())[1]


async def test_tls_serves_by_tls_alone_and_by_a_version_that_is_new_enough(site: Site) -> None:
    site.certificate()
    await site.write(f"{TLS}, min_version: TLS13}}\n")
    assert (await site.ask(context=trusting()))[0] == 200
    assert (await site.ask())[0] == -1
    assert (await site.ask(context=trusting(ssl.TLSVersion.TLSv1_2)))[0] == -1


async def test_clients_show_a_certificate_where_they_must(site: Site) -> None:
    site.certificate()
    (site.folder / "ca.crt").write_bytes(AUTHORITY.certificate_pem)
    await site.write(f"{TLS}, client_ca_file: ca.crt, client_auth_type: RequireAndVerifyClientCert}}\n")
    assert (await site.ask(context=trusting()))[0] == -1
    pair = AUTHORITY.issue("prometheus", client=True)
    (site.folder / "client.pem").write_bytes(pair.certificate_pem + pair.key_pem)
    context = trusting()
    context.load_cert_chain(site.folder / "client.pem")
    assert (await site.ask(context=context))[0] == 200


async def test_a_new_certificate_is_shown_without_a_restart(site: Site) -> None:
    site.certificate()
    await site.write(f"{TLS}}}\n")
    first = await site.serial()
    site.certificate()
    await site.clock.pass_by()
    assert await site.serial() != first


@pytest.mark.parametrize(
    "text",
    ["basic_auth_users: {prometheus: hunter2}\n", f"{TLS}}}\n", "nonsense: 1\n"],
    ids=["a password for a hash", "no certificate", "an unknown field"],
)
async def test_a_file_that_cannot_be_used_leaves_the_last_one_in_force(site: Site, text: str) -> None:
    await site.write(USERS)
    await site.write(text)
    assert [(await site.ask(login))[0] for login in ("", RIGHT)] == [401, 200]


async def test_at_start_such_a_file_shuts_the_page(tmp_path: Path) -> None:
    clock, file = Turns(), tmp_path / "web.yml"
    file.write_text("basic_auth_users: {prometheus: hunter2}\n")
    with listen(Address("127.0.0.1", 0)) as listening:
        site = Site(tmp_path, listening.getsockname()[1], clock)
        task = asyncio.create_task(
            exporter_server(listening, lambda: "up 1\n", WebConfigFile(file, clock)).run()
        )
        await clock.asleep()
        assert (await site.ask(RIGHT))[0] == 503
        await site.write(USERS)
        assert (await site.ask(RIGHT))[0] == 200
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_path_in_the_file_stays_below_the_root(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "node").mkdir()
    file = tmp_path / "node" / "web.yml"
    file.write_text("tls_server_config: {cert_file: ../tls.crt, key_file: /tls.key}\n")
    accesses = WebConfigFile(file, Turns(), root=tmp_path / "node").accesses()
    await anext(accesses)
    assert "leads out of the root folder" in caplog.text
