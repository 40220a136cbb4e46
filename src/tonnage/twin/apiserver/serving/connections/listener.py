"""HTTPS on a socket of our own, with uvicorn's protocols but none of its process handling."""

from __future__ import annotations

import errno
import socket
import ssl
from random import Random
from typing import Final

import uvicorn

from tonnage.model.errors import ConfigError, Problem
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.printers.tables import Tables
from tonnage.twin.apiserver.security import Security
from tonnage.twin.apiserver.serving.connections.peers import Peer
from tonnage.twin.apiserver.serving.connections.tls import client_context, server_context
from tonnage.twin.apiserver.serving.http import ApiApplication
from tonnage.twin.apiserver.serving.kubelets.proxy import KubeletProxy
from tonnage.twin.apiserver.serving.streams import WatchStream
from tonnage.twin.apiserver.verbs import Verbs
from tonnage.twin.certificate_authority import CertificateAuthority

_MOST_HEADER: Final = 128 << 10
_IDLE_S: Final = 75
_HOSTS: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "127.0.0.1",
    "::1",
    "10.96.0.1",
)


class HttpsListener:
    """Serves a `Verbs` over HTTPS."""

    def __init__(
        self, verbs: Verbs, clock: Clock, random: Random, authority: CertificateAuthority, security: Security
    ) -> None:
        self._verbs = verbs
        self._authority = authority
        self._kubelet_trust: ssl.SSLContext | None = None
        tables = Tables(clock, verbs.store.shapes)
        proxy = KubeletProxy(verbs.store, self._trust)
        self._app = ApiApplication(verbs, tables, proxy, WatchStream(verbs, tables, random), security)
        self._server: uvicorn.Server | None = None
        self._listening: list[socket.socket] = []

    async def start(self, host: str, port: int) -> int:
        """Listen; the port taken. Raises ConfigError."""
        listening = _bind(host, port)
        hosts = dict.fromkeys((*_HOSTS, host))
        pair = self._authority.issue("kube-apiserver", hosts=list(hosts), server=True)
        config = uvicorn.Config(
            self._app,
            http=Peer,
            ws="wsproto",
            lifespan="off",
            log_config=None,
            access_log=False,
            # What clients do wrong is answered, not logged; our own defects are logged by the application.
            log_level="critical",
            server_header=False,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=_MOST_HEADER,
        )
        config.load()
        config.ssl = server_context(pair, self._authority.certificate_pem)
        # `Server.serve` would take over signals and the program's end: only its start and stop are wanted.
        self._server = uvicorn.Server(config)
        self._server.lifespan = config.lifespan_class(config)
        self._listening = [listening]
        await self._server.startup(sockets=self._listening)
        bound = listening.getsockname()[1]
        assert isinstance(bound, int)
        return bound

    async def stop(self) -> None:
        """Stop listening and let connections end."""
        if self._server is not None:
            await self._server.shutdown(sockets=self._listening)
            self._server = None

    def _trust(self) -> ssl.SSLContext:
        if self._kubelet_trust is None:
            pair = self._authority.issue(
                "kube-apiserver-kubelet-client", organizations=["system:masters"], client=True
            )
            self._kubelet_trust = client_context(self._authority.certificate_pem, pair)
        return self._kubelet_trust


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, the protocol makes asyncio turn Nagle's delay (40 ms an answer) off on every connection.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(512)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise ConfigError(_problem(host, port, error)) from None
    return listening


def _problem(host: str, port: int, error: OSError) -> Problem:
    where = f"{host}:{port}"
    match error.errno:
        case errno.EADDRINUSE:
            return Problem(
                f"port {port} is in use",
                where,
                "another program listens there",
                "stop it, or choose another port with --port (0 takes a free one)",
            )
        case errno.EACCES:
            return Problem(
                f"port {port} may not be taken",
                where,
                "ports below 1024 need privileges",
                "choose a port above 1023 with --port",
            )
        case _:
            why = error.strerror or str(error)
            return Problem("cannot listen", where, why, "choose another address or port")
