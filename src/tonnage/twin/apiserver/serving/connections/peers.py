"""uvicorn's HTTP protocol: it tells who a client has shown to be, waits for none long, and writes seldom."""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tonnage.twin.apiserver.serving.exchange import CERTIFICATE, CHUNK

_HEAD_S: Final = 32.0
"""So long a request's head may take. Source: k8s.io/apiserver, pkg/server/secure_serving.go."""
_MOST_HELD: Final = 32 << 10


class Peer(H11Protocol):
    """The certificate stands in the state of every request of a connection, WebSockets included."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection whose handshake is done: what it shows has been checked against the CA."""
        super().connection_made(cast(asyncio.Transport, BufferedTransport(transport)))
        certificate = transport.get_extra_info("peercert")
        self.app_state = {**self.app_state, CHUNK: self._write_chunk, CERTIFICATE: certificate or None}
        self._expect_head(expected=True)

    def data_received(self, received: bytes) -> None:
        """Take bytes. The first of a head start its time; so does a body whose request is answered."""
        super().data_received(received)
        cycle: RequestResponseCycle | None = self.cycle
        answered = cycle is not None and cycle.response_complete
        self._expect_head(expected=answered or self.conn.their_state is h11.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._expect_head(expected=False)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, always in the same words, and end the connection."""
        super().send_400_response("400 Bad Request")

    def _write_chunk(self, content: bytes) -> bool:
        """Write some of a chunked body; False: not now, the client has enough to read."""
        if self.flow.write_paused:
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(content), content))
        return True

    def _expect_head(self, *, expected: bool) -> None:
        if expected and self._late is None:
            self._late = self.loop.call_later(_HEAD_S, self._give_up)
        elif not expected and self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]:
            self.send_400_response("")
        else:
            self.transport.close()


class BufferedTransport:
    """A transport that sends at the end of the loop's turn what was written in it, and is otherwise as given.

    So an answer's head and body, or the events of one moment, are one TLS record and one system call.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] = []
        self._size = 0
        self._closed = False

    def write(self, content: bytes) -> None:
        """Have it sent soon; at once when it is much, so that a slow reader is noticed in time."""
        if not content or self._closed:
            return
        if not self._held:
            asyncio.get_running_loop().call_soon(self._send)
        self._held.append(content)
        self._size += len(content)
        if self._size >= _MOST_HELD:
            self._send()

    def close(self) -> None:
        """Close once all is sent; what is written later goes nowhere."""
        # A second time the transport would forget its protocol, which it still asks.
        if not self._closed:
            self._send()
            self._closed = True
            self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send(self) -> None:
        if self._held:
            held, self._held, self._size = self._held, [], 0
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))
