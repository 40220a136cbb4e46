"""Commands in containers over a kubelet's WebSockets and SPDY, and attaching to what runs there."""

from __future__ import annotations

import asyncio
import json
import re
import struct
import zlib
from typing import Any

import pytest
import wsproto
import wsproto.connection
import wsproto.events

from support.kubelet_bench import KubeletBench
from support.kubelet_dialer import Dialer
from tonnage.twin.kubelet.streams.spdy_dictionary import DICTIONARY


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


async def test_a_command_runs_over_websocket(bench: KubeletBench, dial: Dialer) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
    session = await websocket(
        dial,
        "/exec/default/web/main?command=bash&command=-c&command=echo+out%3B+echo+err+>%262&output=1&error=1",
    )
    assert await session.finish() == {"metadata": {}, "status": "Success"}
    assert session.protocol == "v5.channel.k8s.io"
    assert (session.channels[1], session.channels[2]) == (b"out\n", b"err\n")


async def test_an_exit_code_travels_in_the_status(bench: KubeletBench, dial: Dialer) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
    session = await websocket(
        dial, "/exec/default/web/main?command=sh&command=-c&command=exit+3&output=1", ("v4.channel.k8s.io",)
    )
    status = await session.finish()
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert session.protocol == "v4.channel.k8s.io"


async def test_a_command_that_is_not_there_fails_in_containerds_words(
    bench: KubeletBench, dial: Dialer
) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
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
    bench: KubeletBench, dial: Dialer
) -> None:
    """As of the kubelet: the client learns that the connection stands before any output comes."""
    bench.bind("web")
    await bench.phase("web", "Running")
    session = await websocket(dial, "/exec/default/web/main?command=true&error=1")
    await session.finish()
    assert session.order[0] == (2, b"")


async def test_input_ends_with_the_close_signal_of_v5(bench: KubeletBench, dial: Dialer) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
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
    bench: KubeletBench, dial: Dialer, path: str, protocols: tuple[str, ...], code: int
) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
    session = await websocket(dial, path, protocols)
    await session.finish()
    assert session.refused == code


async def test_attach_shows_what_the_container_says_and_takes_input(
    bench: KubeletBench, dial: Dialer
) -> None:
    bench.bind(
        "chat",
        restartPolicy="Never",
        containers=[
            {"name": "main", "image": "ubuntu:24.04", "command": ["cat"], "stdin": True, "stdinOnce": True}
        ],
    )
    await bench.phase("chat", "Running")
    session = await websocket(dial, "/attach/default/chat/main?input=1&output=1")
    await session.send(b"\x00hi\n")
    await session.send(b"\xff\x00")
    assert (await session.finish())["status"] == "Success"
    assert session.channels[1] == b"hi\n"
    await bench.phase("chat", "Succeeded")


async def test_input_stays_open_for_others_unless_a_container_takes_it_once(
    bench: KubeletBench, dial: Dialer
) -> None:
    bench.bind(
        "chat",
        restartPolicy="Never",
        containers=[{"name": "main", "image": "ubuntu:24.04", "command": ["cat"], "stdin": True}],
    )
    await bench.phase("chat", "Running")
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


async def test_a_command_runs_over_spdy(bench: KubeletBench, dial: Dialer) -> None:
    bench.bind("web")
    await bench.phase("web", "Running")
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


async def test_spdy_is_refused_where_there_is_nothing_to_run_in(bench: KubeletBench, dial: Dialer) -> None:
    assert await SpdyClient(*(await dial.connect())).upgrade("/exec/default/none/main?command=ls") == 404
    anonymous = SpdyClient(*(await dial.connect(anonymous=True)))
    assert await anonymous.upgrade("/exec/default/none/main?command=ls") == 401


def test_the_dictionary_is_the_one_of_the_specification() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)
