"""Registries are asked for images: what they say, and to whom a pull secret is told."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from tonnage.adapters.http.registry import HttpRegistry, _client, is_direct, login_for
from tonnage.model.drivers.images import RegistryRoute, TagState

LOGIN = base64.b64encode(b"user:secret").decode()
Answers = Callable[[str, dict[str, str]], tuple[int, dict[str, str], bytes]]


class Server:
    """Answers by path; `seen` are paths with the Authorization that came with them."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.seen: list[tuple[str, str]] = []
        self.host = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
        path = first.split(" ")[1]
        self.seen.append((path, headers.get("authorization", "")))
        code, more, body = self._answers(path, headers)
        fields = {"Content-Length": str(len(body)), "Connection": "close", **more}
        text = "".join(f"{key}: {value}\r\n" for key, value in fields.items())
        writer.write(
            f"HTTP/1.1 {code} X\r\n{text}\r\n".encode() + (b"" if first.startswith("HEAD") else body)
        )
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[Server]:
    server = Server(answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.host = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with listening:
        yield server


def config(host: str) -> str:
    return json.dumps({"auths": {host: {"auth": LOGIN}}})


@pytest.mark.parametrize(
    ("code", "state"),
    [
        pytest.param(200, TagState.EXISTS, id="an image that is there"),
        pytest.param(404, TagState.MISSING, id="a tag that does not exist"),
        pytest.param(500, TagState.UNKNOWN, id="a registry that is broken"),
        pytest.param(307, TagState.UNKNOWN, id="a redirect is not followed"),
    ],
)
async def test_what_a_registry_says(code: int, state: TagState) -> None:
    async with (
        asyncio.timeout(20),
        serving(lambda *_: (code, {"Location": "http://127.0.0.1:1/"}, b"")) as server,
    ):
        answer = await HttpRegistry([server.host]).ask(f"{server.host}/nvidia/driver:1-ubuntu22.04", ())
    assert answer.state is state
    assert [path for path, _ in server.seen] == ["/v2/nvidia/driver/manifests/1-ubuntu22.04"]


async def test_a_host_that_is_not_named_is_not_asked() -> None:
    async with asyncio.timeout(20), serving(lambda *_: (200, {}, b"")) as server:
        answer = await HttpRegistry(["nvcr.io"]).ask(f"{server.host}/driver:1", ())
    assert (answer.state, server.seen) == (TagState.UNKNOWN, [])
    assert "not among those that may be asked" in answer.why


async def test_nobody_there_is_unknown() -> None:
    answer = await HttpRegistry(["127.0.0.1:1"]).ask("127.0.0.1:1/driver:1", ())
    assert answer.state is TagState.UNKNOWN


async def test_a_token_is_fetched_with_the_secret_of_the_host() -> None:
    def answers(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        if path.startswith("/token"):
            return 200, {}, b'{"token": "abc"}'
        if headers.get("authorization") == "Bearer abc":
            return 200, {}, b""
        realm = f'Bearer realm="http://{headers["host"]}/token",service="s"'
        return 401, {"WWW-Authenticate": realm}, b""

    async with asyncio.timeout(20), serving(answers) as server:
        answer = await HttpRegistry([server.host]).ask(f"{server.host}/driver:1", (config(server.host),))
    assert answer.state is TagState.EXISTS
    assert [words for path, words in server.seen if path.startswith("/token")] == [f"Basic {LOGIN}"]


async def test_the_secret_is_not_told_to_another_host_that_the_registry_names() -> None:
    async with asyncio.timeout(20), serving(lambda *_: (200, {}, b'{"token": "abc"}')) as other:
        challenge = {"WWW-Authenticate": f'Bearer realm="http://{other.host}/token",service="s"'}
        async with serving(lambda *_: (401, challenge, b"")) as server:
            hosts = [server.host, other.host]
            await HttpRegistry(hosts).ask(f"{server.host}/driver:1", (config(server.host),))
    assert [words for _, words in other.seen] == [""]
    assert LOGIN not in str(server.seen)


@pytest.mark.parametrize(
    "realm", ["http://[", "http://127.0.0.1\x7f/", "http://", "", f"http://127.0.0.1/{'x' * 480}"]
)
async def test_a_challenge_that_names_no_address_is_unknown(realm: str) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="{realm}",service="s"'}
    async with asyncio.timeout(20), serving(lambda *_: (401, challenge, b"")) as server:
        answer = await HttpRegistry([server.host]).ask(f"{server.host}/driver:1", (config(server.host),))
    assert answer.state is TagState.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", '{"auths": 1}', '{"auths": {"a.example": {"auth": "%%"}}}'),
        pytest.param('{"auths": {"a.example": {"username": "\\ud800"}}}', id="half a pair of surrogates"),
        pytest.param('{"auths": {"https://[": {"auth": "dTpw"}}}', id="a server that is no address"),
    ],
)
def test_a_broken_secret_has_no_login(text: str) -> None:
    assert login_for(text, "a.example") is None


def test_the_secret_of_a_host_that_is_alike_is_not_used() -> None:
    assert login_for(config("a.example.com"), "a.example") is None
    assert login_for(config("https://a.example/v1/"), "a.example") == LOGIN


@pytest.mark.parametrize(
    ("host", "direct"),
    [("10.3.0.9:5000", True), ("[fd00::9]:443", True), ("11.0.0.1", False), ("ten.example.com", False)],
)
def test_networks_of_no_proxy_are_for_addresses(
    monkeypatch: pytest.MonkeyPatch, host: str, direct: bool
) -> None:
    """Those of the policy, and those of the controller's own environment."""
    assert is_direct(host, "localhost, 10.0.0.0/8,fd00::/8,10.0.0.0/x") is direct
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,fd00::/8")
    client = _client(host, RegistryRoute())
    assert (client._transport_for_url(httpx2.URL(f"https://{host}/v2/")) is client._transport) is direct
