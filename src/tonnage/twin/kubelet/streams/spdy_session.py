"""Exec and attach over SPDY/3.1, which a real API server speaks to its kubelets.

Source: k8s.io/streaming (httpstream/spdy), k8s.io/kubelet remotecommand: streams by the header `streamType`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final

from tonnage.twin.kubelet.containers.runtime_port import ContainerRuntime, RunningContainer
from tonnage.twin.kubelet.streams.remote import RemoteRequest, RemoteStdio, run_session
from tonnage.twin.kubelet.streams.spdy import (
    DataFrame,
    Frame,
    GoAway,
    Ping,
    Reset,
    SpdyCodec,
    SpdyError,
    SynStream,
    data_frames,
    go_away,
    ping,
)

_PROTOCOLS: Final = ("v4.channel.k8s.io", "v5.channel.k8s.io")
_STREAM_WAIT_S: Final = 30.0
_LINES: Final = {
    101: "Switching Protocols",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
}


class SpdyUpgrade:
    """An HTTP connection that wants to become a SPDY one: refuse or accept it, once."""

    def __init__(self, transport: asyncio.Transport, offered: str) -> None:
        """`offered` is what the client's `X-Stream-Protocol-Version` headers list, separated by commas."""
        self._transport = transport
        names = {name.strip() for name in offered.split(",")}
        self._protocol = next((name for name in _PROTOCOLS if name in names), "")

    def refuse(self, status: int, text: str) -> None:
        """Answer with an error and close."""
        body = f"{text}\n".encode()
        headers = {"Content-Type": "text/plain", "Content-Length": str(len(body)), "Connection": "close"}
        self._transport.write(_head(status, headers) + body)
        self._transport.close()

    def accept(
        self, runtime: ContainerRuntime, container: RunningContainer, request: RemoteRequest
    ) -> asyncio.Task[None] | None:
        """Switch protocols and serve the session; None when no known subprotocol was offered."""
        if not self._protocol:
            self.refuse(403, f"unable to upgrade: unable to negotiate protocol: server supports {_PROTOCOLS}")
            return None
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "SPDY/3.1",
            "X-Stream-Protocol-Version": self._protocol,
        }
        self._transport.write(_head(101, headers))
        session = _SpdySession(self._transport, request)
        self._transport.set_protocol(session)
        return asyncio.create_task(session.serve(runtime, container), name="spdy session")


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_LINES[status]}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


class _SpdySession(asyncio.Protocol):
    def __init__(self, transport: asyncio.Transport, request: RemoteRequest) -> None:
        self._transport = transport
        self._request = request
        self._codec = SpdyCodec()
        self._stdio = RemoteStdio()
        self._streams: dict[str, int] = {}
        self._complete = asyncio.Event()
        self._lost = asyncio.Event()
        self._fed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        requested = {
            "error": True,
            "stdin": request.stdin,
            "stdout": request.stdout,
            "stderr": request.stderr,
            "resize": request.tty,
        }
        self._expected = {name for name, needed in requested.items() if needed}

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._codec.receive(data):
                self._handle(frame)
        except SpdyError:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def serve(self, runtime: ContainerRuntime, container: RunningContainer) -> None:
        """Wait for the client's streams, run the session, say how it ended, close."""
        lost = asyncio.ensure_future(self._lost.wait())
        overrun = asyncio.ensure_future(self._stdio.overrun.wait())
        running = asyncio.ensure_future(self._run(runtime, container))
        pacing = asyncio.ensure_future(self._pace())
        try:
            await asyncio.wait({lost, overrun, running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            tasks = (lost, overrun, running, pacing)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._transport.close()

    async def _pace(self) -> None:
        """Let the client send input no faster than the program reads it."""
        while True:
            await self._fed.wait()
            self._fed.clear()
            self._transport.pause_reading()
            await self._stdio.room()
            self._transport.resume_reading()

    async def _run(self, runtime: ContainerRuntime, container: RunningContainer) -> None:
        # The peer's patience, not the cluster's: a virtual clock must not cut a real connection.
        async with asyncio.timeout(_STREAM_WAIT_S):
            await self._complete.wait()
        session = asyncio.ensure_future(run_session(runtime, container, self._request, self._stdio))
        try:
            while (output := await self._stdio.next_output())[0]:
                stream = self._streams.get("stdout" if self._request.tty else output[0])
                await self._writable.wait()
                if stream is not None:
                    self._transport.write(data_frames(stream, output[1]))
            status = await session
        finally:
            session.cancel()
        for name in ("stdout", "stderr"):
            if name in self._streams:
                self._transport.write(data_frames(self._streams[name], b"", fin=True))
        self._transport.write(data_frames(self._streams["error"], json.dumps(status).encode(), fin=True))
        self._transport.write(go_away(max(self._streams.values())))

    def _handle(self, frame: Frame) -> None:
        match frame:
            case SynStream(stream=stream, headers=headers):
                kind = headers.get("streamtype", "")
                self._streams.setdefault(kind, stream)
                self._transport.write(self._codec.syn_reply(stream))
                if self._expected <= self._streams.keys():
                    self._complete.set()
            case DataFrame(stream=stream, payload=content, fin=fin) if stream == self._streams.get("stdin"):
                if content:
                    self._stdio.feed(content)
                    self._fed.set()
                if fin:
                    self._stdio.feed(b"")
            case Reset(stream=stream) if stream == self._streams.get("stdin"):
                self._stdio.feed(b"")
            case Ping(number=number):
                self._transport.write(ping(number))
            case GoAway():
                self._lost.set()
            case _:
                pass  # resize and what is nobody's business here
