"""The kubelet's HTTPS server as an API server dials it: certificates, logs, exec over WebSocket and SPDY."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import wsproto
import wsproto.connection
import wsproto.events

from support.connections import connection
from tonnage.adapters.certificates import Authority
from tonnage.model.errors import ConfigError
from tonnage.model.key_pair import KeyPair
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.twin.kubelet.server import KubeletServer
from tonnage.twin.kubelet.streams.spdy_dictionary import DICTIONARY

World = Any


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


@pytest.fixture
async def dial(world: World, root: Path) -> AsyncIterator[Dialer]:
    ca = Authority.generate(datetime.now(UTC))
    server = KubeletServer(ca.certificate_pem, ca.issue("kubelet", hosts=["127.0.0.1"], server=True))
    port = await server.listen(world.kubelet)
    async with AsyncExitStack() as connections:
        yield Dialer(port, ca, root, connections)
    await server.close()


async def test_only_clients_of_the_clusters_ca_are_answered(world: World, dial: Dialer) -> None:
    assert await dial.get("/healthz") == (200, "ok")
    assert (await dial.get("/healthz", anonymous=True))[0] == 401
    stranger = Authority.generate(datetime.now(UTC)).issue("kube-apiserver", client=True)
    with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
        await dial.get("/healthz", pair=stranger)


async def test_the_node_names_the_port(world: World, dial: Dialer) -> None:
    await world.api.until(
        lambda: (
            world.api.node().get("status", {}).get("daemonEndpoints")
            == {"kubeletEndpoint": {"Port": dial.port}}
        )
    )


async def test_a_port_in_use_is_said_with_its_address(world: World, dial: Dialer, root: Path) -> None:
    second = Kubelet(
        KubeletNode("other", port=dial.port), world.api, world.clock, root / "other", world.runtime
    )
    server = KubeletServer(
        dial.ca.certificate_pem, dial.ca.issue("kubelet", hosts=["127.0.0.1"], server=True)
    )
    with pytest.raises(ConfigError, match=f"127.0.0.1:{dial.port}: kubelet other cannot listen"):
        await server.listen(second)


async def test_pods_are_listed(world: World, dial: Dialer) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    status, body = await dial.get("/pods")
    assert status == 200
    assert [pod["metadata"]["name"] for pod in json.loads(body)["items"]] == ["web"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", "1\n2\n3\n", id="all"),
        pytest.param("?tailLines=2", "2\n3\n", id="the last two"),
        pytest.param("?tailLines=0", "", id="none"),
        pytest.param("?limitBytes=3", "1\n2", id="three bytes"),
        pytest.param("?timestamps=true&tailLines=1", "2026-01-01T00:00:00.000000000Z 3\n", id="with times"),
        pytest.param("?sinceTime=2026-01-01T00:00:01Z", "", id="since later"),
        pytest.param("?sinceSeconds=5", "1\n2\n3\n", id="since five seconds"),
        pytest.param("?follow=true", "1\n2\n3\n", id="followed to the end"),
    ],
)
async def test_logs_are_cut_as_asked(world: World, dial: Dialer, query: str, expected: str) -> None:
    world.bind("job", command=["seq", "3"], restartPolicy="Never")
    await world.phase("job", "Succeeded")
    assert await dial.get(f"/containerLogs/default/job/main{query}") == (200, expected)


async def test_a_log_outlasts_the_kubelet_that_wrote_it(world: World, dial: Dialer) -> None:
    world.bind("job", command=["seq", "3"], restartPolicy="Never")
    await world.phase("job", "Succeeded")
    await world.kubelet.restart()
    world.bind("web")
    await world.phase("web", "Running")
    assert await dial.get("/containerLogs/default/job/main") == (200, "1\n2\n3\n")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        pytest.param("default/web/main?tailLines=-1", 422, "tailLines: Invalid value", id="negative tail"),
        pytest.param("default/none/main", 404, 'pod "none" not found', id="no such pod"),
        pytest.param("default/web/other", 400, "container other is not valid for pod web", id="no container"),
        pytest.param(
            "default/web/main?previous=true",
            400,
            'previous terminated container "main" in pod "web" not found',
            id="no previous one",
        ),
    ],
)
async def test_logs_that_are_not_there_are_refused(
    world: World, dial: Dialer, path: str, status: int, words: str
) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    code, body = await dial.get(f"/containerLogs/{path}")
    assert code == status
    assert words in body


async def test_the_previous_containers_log_stays_after_a_crash(world: World, dial: Dialer) -> None:
    world.bind("crash", command=["bash", "-c", "echo oops; exit 1"])
    await world.api.until(lambda: "CrashLoopBackOff" in str(world.api.pod("crash")["status"]))
    assert await dial.get("/containerLogs/default/crash/main?previous=true") == (200, "oops\n")


async def test_following_shows_what_comes_and_ends_with_the_container(world: World, dial: Dialer) -> None:
    world.bind("web", command=["bash", "-c", "echo one; sleep 5; echo two; sleep 5"], restartPolicy="Never")
    await world.phase("web", "Running")
    reading = asyncio.ensure_future(dial.get("/containerLogs/default/web/main?follow=true"))
    await world.clock.advance(5)
    await world.clock.advance(5)
    assert await reading == (200, "one\ntwo\n")


class WebSocketSession:
    """Exec over WebSocket from the client's side."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader, self._writer = reader, writer
        self._ws = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
        self.protocol = ""
        self.refused = 0
        self.channels: dict[int, bytes] = {}
        self.order: list[tuple[int, bytes]] = []

    async def open(self, path: str, protocols: list[str]) -> None:
        request = wsproto.events.Request(host="kubelet", target=path, subprotocols=protocols)
        self._writer.write(self._ws.send(request))

    async def send(self, data: bytes) -> None:
        async with asyncio.timeout(60):
            while self._ws.state is wsproto.connection.ConnectionState.CONNECTING:
                self._ws.receive_data(await self._reader.read(65536))
                self._note(next(self._ws.events()))
        self._writer.write(self._ws.send(wsproto.events.BytesMessage(data)))

    async def finish(self) -> dict[str, Any]:
        """Read to the end; the Status of channel 3."""
        async with asyncio.timeout(60):
            while True:
                for event in self._ws.events():
                    if self._note(event):
                        self._writer.close()
                        status: dict[str, Any] = json.loads(self.channels.get(3, b"{}"))
                        return status
                data = await self._reader.read(65536)
                self._ws.receive_data(data or None)

    def _note(self, event: Any) -> bool:
        """Remember what the event says; True at the end."""
        match event:
            case wsproto.events.AcceptConnection(subprotocol=name):
                self.protocol = name or ""
            case wsproto.events.RejectConnection(status_code=code):
                self.refused = code
            case wsproto.events.BytesMessage(data=data):
                self.order.append((data[0], bytes(data[1:])))
                self.channels[data[0]] = self.channels.get(data[0], b"") + bytes(data[1:])
            case wsproto.events.CloseConnection() | wsproto.events.RejectData():
                return True
        return False


async def websocket(
    dial: Dialer, path: str, protocols: tuple[str, ...] = ("v5.channel.k8s.io",)
) -> WebSocketSession:
    session = WebSocketSession(*(await dial.connect()))
    await session.open(path, list(protocols))
    return session


async def test_a_command_runs_over_websocket(world: World, dial: Dialer) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    session = await websocket(
        dial,
        "/exec/default/web/main?command=bash&command=-c&command=echo+out%3B+echo+err+>%262&output=1&error=1",
    )
    assert await session.finish() == {"metadata": {}, "status": "Success"}
    assert session.protocol == "v5.channel.k8s.io"
    assert (session.channels[1], session.channels[2]) == (b"out\n", b"err\n")


async def test_an_exit_code_travels_in_the_status(world: World, dial: Dialer) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    session = await websocket(
        dial, "/exec/default/web/main?command=sh&command=-c&command=exit+3&output=1", ("v4.channel.k8s.io",)
    )
    status = await session.finish()
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert session.protocol == "v4.channel.k8s.io"


async def test_a_command_that_is_not_there_fails_in_containerds_words(world: World, dial: Dialer) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    session = await websocket(dial, "/exec/default/web/main?command=nvidia-smi&output=1&error=1")
    status = await session.finish()
    assert (status["reason"], status["code"]) == ("InternalError", 500)
    assert re.fullmatch(
        "Internal error occurred: error executing command in container: failed to exec in container: "
        'failed to start exec "[0-9a-f]{64}": OCI runtime exec failed: exec failed: unable to start '
        r'container process: exec: "nvidia-smi": executable file not found in \$PATH: unknown',
        status["message"],
    )
    assert not session.channels.get(2)


async def test_the_first_message_is_empty_and_on_the_lowest_channel_that_is_written(
    world: World, dial: Dialer
) -> None:
    """As of the kubelet: the client learns that the connection stands before any output comes."""
    world.bind("web")
    await world.phase("web", "Running")
    session = await websocket(dial, "/exec/default/web/main?command=true&error=1")
    await session.finish()
    assert session.order[0] == (2, b"")


async def test_input_ends_with_the_close_signal_of_v5(world: World, dial: Dialer) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    session = await websocket(dial, "/exec/default/web/main?command=cat&input=1&output=1")
    await session.send(b"\x00hello ")
    await session.send(b"\x00world")
    await session.send(b"\xff\x00")
    assert (await session.finish())["status"] == "Success"
    assert session.channels[1] == b"hello world"


@pytest.mark.parametrize(
    ("path", "protocols", "code"),
    [
        pytest.param("/exec/default/none/main?command=ls", ("v5.channel.k8s.io",), 404, id="no such pod"),
        pytest.param("/exec/default/web/other?command=ls", ("v5.channel.k8s.io",), 404, id="no container"),
        pytest.param("/exec/default/web/main?command=ls", ("v9.channel.k8s.io",), 400, id="foreign protocol"),
    ],
)
async def test_sessions_that_cannot_be_are_refused(
    world: World, dial: Dialer, path: str, protocols: tuple[str, ...], code: int
) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    session = await websocket(dial, path, protocols)
    await session.finish()
    assert session.refused == code


async def test_attach_shows_what_the_container_says_and_takes_input(world: World, dial: Dialer) -> None:
    world.bind(
        "chat",
        restartPolicy="Never",
        containers=[
            {"name": "main", "image": "ubuntu:24.04", "command": ["cat"], "stdin": True, "stdinOnce": True}
        ],
    )
    await world.phase("chat", "Running")
    session = await websocket(dial, "/attach/default/chat/main?input=1&output=1")
    await session.send(b"\x00hi\n")
    await session.send(b"\xff\x00")
    assert (await session.finish())["status"] == "Success"
    assert session.channels[1] == b"hi\n"
    await world.phase("chat", "Succeeded")


async def test_input_stays_open_for_others_unless_a_container_takes_it_once(
    world: World, dial: Dialer
) -> None:
    world.bind(
        "chat",
        restartPolicy="Never",
        containers=[{"name": "main", "image": "ubuntu:24.04", "command": ["cat"], "stdin": True}],
    )
    await world.phase("chat", "Running")
    for line in (b"\x00a\n", b"\x00b\n"):
        session = await websocket(dial, "/attach/default/chat/main?input=1&output=1")
        await session.send(line)
        await session.send(b"\xff\x00")
        assert (await session.finish())["status"] == "Success"
    said = await dial.get("/containerLogs/default/chat/main?follow=true&limitBytes=4")
    assert said == (200, "a\nb\n")


class SpdyClient:
    """A SPDY/3.1 client of its own, framing and all."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader, self._writer = reader, writer
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self.head = b""
        self.streams: dict[int, bytes] = {}
        self.replies: list[int] = []
        self.ended: set[int] = set()
        self.pongs: list[int] = []

    async def upgrade(self, path: str) -> int:
        self._writer.write(
            f"POST {path} HTTP/1.1\r\nHost: kubelet\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            "X-Stream-Protocol-Version: v5.channel.k8s.io\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
            "Content-Length: 0\r\n\r\n".encode()
        )
        async with asyncio.timeout(60):
            self.head = await self._reader.readuntil(b"\r\n\r\n")
        return int(self.head.split(b" ")[1])

    def open(self, stream: int, kind: str) -> None:
        name, value = b"streamtype", kind.encode()
        plain = struct.pack(">II", 1, len(name)) + name + struct.pack(">I", len(value)) + value
        block = self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIBB", stream, 0, 0, 0) + block
        self._writer.write(struct.pack(">HHI", 0x8003, 1, len(body)) + body)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> None:
        self._writer.write(struct.pack(">II", stream, (int(fin) << 24) | len(data)) + data)

    def ping(self, number: int) -> None:
        self._writer.write(struct.pack(">HHII", 0x8003, 6, 4, number))

    async def finish(self) -> None:
        """Read until the kubelet says goodbye."""
        async with asyncio.timeout(60):
            while True:
                first, second = struct.unpack(">II", await self._reader.readexactly(8))
                body = await self._reader.readexactly(second & 0xFFFFFF)
                if first & 0x80000000:
                    kind = first & 0xFFFF
                    if kind == 2:
                        self.replies.append(struct.unpack(">I", body[:4])[0])
                    elif kind == 6:
                        self.pongs.append(struct.unpack(">I", body)[0])
                    elif kind == 7:
                        self._writer.close()
                        return
                    continue
                self.streams[first] = self.streams.get(first, b"") + body
                if second >> 24 & 1:
                    self.ended.add(first)


async def test_a_command_runs_over_spdy(world: World, dial: Dialer) -> None:
    world.bind("web")
    await world.phase("web", "Running")
    client = SpdyClient(*(await dial.connect()))
    assert await client.upgrade("/exec/default/web/main?command=cat&input=1&output=1&error=1") == 101
    assert b"X-Stream-Protocol-Version: v4.channel.k8s.io" in client.head
    for stream, kind in ((1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")):
        client.open(stream, kind)
    client.ping(1)
    client.data(3, b"x" * 100_000)
    client.data(3, b"", fin=True)
    await client.finish()
    assert client.streams[5] == b"x" * 100_000
    assert json.loads(client.streams[1])["status"] == "Success"
    assert client.replies == [1, 3, 5, 7]
    assert client.pongs == [1]
    assert client.ended >= {1, 5, 7}


async def test_spdy_is_refused_where_there_is_nothing_to_run_in(world: World, dial: Dialer) -> None:
    assert await SpdyClient(*(await dial.connect())).upgrade("/exec/default/none/main?command=ls") == 404
    anonymous = SpdyClient(*(await dial.connect(anonymous=True)))
    assert await anonymous.upgrade("/exec/default/none/main?command=ls") == 401


def test_the_dictionary_is_the_one_of_the_specification() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)
