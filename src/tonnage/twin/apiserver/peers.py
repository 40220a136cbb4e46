"""uvicorn's HTTP protocol, which tells who a client has shown to be and does not wait for one for ever."""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from tonnage.twin.apiserver.exchange import CERTIFICATE

_HEAD_S: Final = 32.0
"""So long a request's head may take. Source: k8s.io/apiserver, pkg/server/secure_serving.go."""


class Peer(H11Protocol):
    """The certificate stands in the state of every request of a connection, WebSockets included."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection whose handshake is done: what it shows has been checked against the CA."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, CERTIFICATE: certificate}
        self._expect_head(expected=True)

    def data_received(self, data: bytes) -> None:
        """Take bytes. The first of a head start its time; so does a body whose request is answered."""
        super().data_received(data)
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
