"""Exec and attach over WebSocket: channel byte and data, subprotocols v5 and v4.channel.k8s.io.

Source: k8s.io/apimachinery/pkg/util/remotecommand/constants.go and KEP-4006.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from tonnage.twin.kubelet.containers.runtime_port import ContainerRuntime, RunningContainer
from tonnage.twin.kubelet.streams.remote import RemoteRequest, RemoteStdio, run_session

V4: Final = "v4.channel.k8s.io"
V5: Final = "v5.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _ERROR = range(4)
_CLOSE: Final = 255
_CHANNELS: Final = {"stdout": _STDOUT, "stderr": _STDERR}
_GOING_AWAY: Final = 1008
_START_S: Final = 0.05
"""How long a real runtime takes to start a process. kubectl before 1.33 reads the connection before it has
made its streams, and drops what arrives in between: `Unknown stream id 1, discarding message`."""


def choose_subprotocol(offered: list[str]) -> str | None:
    """The newest subprotocol that both sides know."""
    return next((name for name in (V5, V4) if name in offered), None)


async def serve_websocket(
    socket: WebSocket, runtime: ContainerRuntime, container: RunningContainer, request: RemoteRequest
) -> None:
    """Serve one session on an accepted WebSocket and close it."""
    # Nothing in it, as the kubelet does: it tells the client that the connection stands.
    await socket.send_bytes(bytes([_STDOUT if request.stdout else _STDERR if request.stderr else _ERROR]))
    await asyncio.sleep(_START_S)  # the peer's patience, not the cluster's: no virtual time
    stdio = RemoteStdio()
    session = asyncio.ensure_future(run_session(runtime, container, request, stdio))
    receiving = asyncio.ensure_future(_receive(socket, stdio))
    sending = asyncio.ensure_future(_send(socket, stdio, request))
    overrun = asyncio.ensure_future(stdio.overrun.wait())
    try:
        await asyncio.wait({sending, receiving, overrun}, return_when=asyncio.FIRST_COMPLETED)
        if overrun.done():
            await socket.close(_GOING_AWAY, "the client does not read")
        elif sending.done() and not receiving.done():
            sending.result()
            status = await session
            await socket.send_bytes(bytes([_ERROR]) + json.dumps(status).encode())
            await socket.close()
    except WebSocketDisconnect:
        pass  # the client went away first; there is nobody to tell
    finally:
        tasks = (session, receiving, sending, overrun)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _receive(socket: WebSocket, stdio: RemoteStdio) -> None:
    """Feed input until the client is gone."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        received = message.get("bytes") or (message.get("text") or "").encode()
        if received[:1] == bytes([_STDIN]) and len(received) > 1:
            stdio.feed(received[1:])
            await stdio.room()
        elif received[:2] == bytes([_CLOSE, _STDIN]):
            stdio.feed(b"")


async def _send(socket: WebSocket, stdio: RemoteStdio, request: RemoteRequest) -> None:
    """Pass output on until the program has ended."""
    requested = {"stdout": request.stdout, "stderr": request.stderr or request.tty}
    while True:
        stream, content = await stdio.next_output()
        if not stream:
            return
        if requested[stream]:
            channel = _STDOUT if request.tty else _CHANNELS[stream]
            await socket.send_bytes(bytes([channel]) + content)
