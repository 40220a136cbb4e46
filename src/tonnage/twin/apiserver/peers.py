"""uvicorn's HTTP protocol, telling the application which certificate a client has shown."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

from tonnage.twin.apiserver.exchange import CERTIFICATE


class WithCertificates(H11Protocol):
    """The certificate stands in the state of every request of a connection, WebSockets included."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection whose handshake is done: what it shows has been checked against the CA."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, CERTIFICATE: certificate}
