"""The HTTPS endpoints of all kubelets of this process: what an API server dials for logs, exec and attach.

One ASGI app, one TLS configuration, one listening socket per node. Only clients with a certificate of the
cluster's CA get an answer; one without gets 401, one with another CA's does not get past the handshake.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

import h11
import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from tonnage.model.errors import ConfigError, Problem
from tonnage.model.key_pair import KeyPair
from tonnage.twin.kubelet.containers.runtime_port import RunningContainer
from tonnage.twin.kubelet.kubelet import Kubelet
from tonnage.twin.kubelet.streams.container_logs import LogQuery, log_refusal, read_log
from tonnage.twin.kubelet.streams.pod_ports import page_at
from tonnage.twin.kubelet.streams.remote import RemoteRequest
from tonnage.twin.kubelet.streams.spdy_session import SpdyUpgrade
from tonnage.twin.kubelet.streams.websocket import choose_subprotocol, serve_websocket

_BACKLOG: Final = 128
_REQUEST_BYTES: Final = 64 << 10
_CLOSING_S: Final = 1.0


class _KubeletProtocol(H11Protocol):
    """uvicorn's HTTP protocol that knows the client's certificate and hands SPDY upgrades over."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, "authenticated": bool(transport.get_extra_info("peercert"))}

    def _should_upgrade(self) -> bool:
        return self._wants_spdy() or super()._should_upgrade()

    def _wants_spdy(self) -> bool:
        headers = dict(self.headers)
        return headers.get(b"upgrade", b"").lower() == b"spdy/3.1"

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        if not self._wants_spdy():
            super().handle_websocket_upgrade(event)
            return
        self.connections.discard(self)
        scope = cast("dict[str, Any]", self.scope)
        target = _spdy_target(scope) if self.app_state["authenticated"] else (401, "Unauthorized")
        offered = b",".join(v for name, v in self.headers if name == b"x-stream-protocol-version")
        upgrade = SpdyUpgrade(self.transport, offered.decode("latin-1"))
        if isinstance(target, tuple):
            upgrade.refuse(*target)
            return
        kubelet: Kubelet = self.app_state["kubelet"]
        query = HTTPConnection({**scope, "type": "http"}).query_params.multi_items()
        session = upgrade.accept(kubelet.runtime, target, RemoteRequest.parse(query))
        if session is not None:
            self.tasks.add(session)
            session.add_done_callback(self.tasks.discard)


class KubeletServer:
    """Serves any number of kubelets. `serving` is the certificate for all their addresses."""

    def __init__(self, ca_certificate_pem: bytes, serving: KeyPair) -> None:
        self._tls = _tls(ca_certificate_pem, serving)
        self._config = Config(
            _authenticated(Router(_routes())),
            http=_KubeletProtocol,
            ws="wsproto",
            ws_ping_interval=None,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_REQUEST_BYTES,
        )
        self._config.load()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []

    async def listen(self, kubelet: Kubelet) -> int:
        """Serve this kubelet on its address, tell it the port, and return that.

        Raises:
            ConfigError: the port is taken or the address is not this machine's.
        """
        spec = kubelet.spec
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((spec.address, spec.port))
        except OSError as error:
            listener.close()
            where = f"{spec.address}:{spec.port}"
            raise ConfigError(
                Problem(
                    f"kubelet {spec.name} cannot listen", where, error.strerror or "", "choose a free port"
                )
            ) from None
        server = await asyncio.get_running_loop().create_server(
            lambda: _KubeletProtocol(self._config, self._state, {"kubelet": kubelet}),
            sock=listener,
            ssl=self._tls,
            backlog=_BACKLOG,
        )
        self._servers.append(server)
        port: int = listener.getsockname()[1]
        kubelet.serves_at(port)
        return port

    async def close(self) -> None:
        """Stop listening, end every connection and what it runs."""
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            with suppress(AttributeError):  # Python 3.11.2 forgets a TLS connection closed twice
                cast("asyncio.Transport", cast(Any, connection).transport).abort()
        tasks = set(self._state.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSING_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _tls(ca_certificate_pem: bytes, serving: KeyPair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=ca_certificate_pem.decode())
    with tempfile.TemporaryDirectory(prefix="tn-") as folder:
        # The ssl module reads keys from files only; the folder is this user's alone and goes at once.
        file = Path(folder) / "serving.pem"
        file.touch(mode=0o600)
        file.write_bytes(serving.certificate_pem + serving.key_pem)
        context.load_cert_chain(file)
    return context


def _authenticated(app: ASGIApp) -> ASGIApp:
    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["state"].get("authenticated"):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await WebSocket(scope, receive, send).send_denial_response(_plain("Unauthorized", 401))
        else:
            await _plain("Unauthorized", 401)(scope, receive, send)

    return guard


def _routes() -> list[BaseRoute]:
    pod = "{namespace}/{pod}"
    return [
        Route("/healthz", _healthz),
        Route("/pods", _pods),
        Route("/runningpods/", _pods),
        Route(f"/containerLogs/{pod}/{{container}}", _container_logs),
        Route(f"/podPort/{pod}/{{port:int}}/{{rest:path}}", _pod_port),
        *(
            WebSocketRoute(f"/{verb}/{pod}{uid}/{{container}}", _remote)
            for verb in ("exec", "attach")
            for uid in ("", "/{uid}")
        ),
    ]


def _plain(text: str, status: int = 200) -> Response:
    return PlainTextResponse(text + "\n", status)


async def _healthz(request: Request) -> Response:
    del request
    return PlainTextResponse("ok")


async def _pods(request: Request) -> Response:
    kubelet: Kubelet = request.state.kubelet
    listing = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": kubelet.pods.pods()}
    return Response(msgspec.json.encode(listing), media_type="application/json")


async def _pod_port(request: Request) -> Response:
    """What a pod serves at one of its ports. A genuine kubelet has no such path: its pods have a network."""
    kubelet: Kubelet = request.state.kubelet
    names = request.path_params
    worker = kubelet.pods.find(names["namespace"], names["pod"])
    own = None if worker is None else worker.live.served_at(names["port"])
    if own is None:
        return _plain("connection refused", 502)
    path = f"/{quote(names['rest'])}" + (f"?{request.url.query}" if request.url.query else "")
    try:
        return await page_at(own, path, request.headers.get("accept", "*/*"))
    except OSError as error:
        return _plain((error.strerror or "i/o timeout").lower(), 502)


async def _container_logs(request: Request) -> Response:
    kubelet: Kubelet = request.state.kubelet
    try:
        query = LogQuery.parse(request.query_params, kubelet.now())
    except ValueError as error:
        return _plain(str(error), 422)
    namespace, pod, name = (request.path_params[key] for key in ("namespace", "pod", "container"))
    worker = kubelet.pods.find(namespace, pod)
    if worker is None:
        return _plain(f'pod "{pod}" not found', 404)
    slot = worker.slot(name)
    if slot is None:
        return _plain(f"container {name} is not valid for pod {pod}", 400)
    if why := log_refusal(kubelet.status(worker.pod), pod, name, previous=query.previous):
        return _plain(why, 400)
    container = slot.last if query.previous else slot.current or slot.last
    if container is None:  # It ended before the node restarted, and its log went with it.
        return _plain("", 200)
    return StreamingResponse(_flowing(read_log(container.log, query)), media_type="text/plain")


async def _flowing(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Other tasks get their turn between the lines of a long log."""
    async for piece in pieces:
        yield piece
        await asyncio.sleep(0)


async def _remote(websocket: WebSocket) -> None:
    target = _target(websocket.state.kubelet, websocket.path_params)
    if isinstance(target, tuple):
        await websocket.send_denial_response(_plain(target[1], target[0]))
        return
    protocol = choose_subprotocol(websocket.scope["subprotocols"])
    if protocol is None:
        await websocket.send_denial_response(_plain("no supported subprotocol was offered", 400))
        return
    await websocket.accept(protocol)
    request = RemoteRequest.parse(websocket.query_params.multi_items())
    await serve_websocket(websocket, websocket.state.kubelet.runtime, target, request)


def _spdy_target(scope: dict[str, Any]) -> RunningContainer | tuple[int, str]:
    """The container that the path names, or an HTTP status with its text."""
    parts = scope["path"].strip("/").split("/")
    if parts[0] not in {"exec", "attach"} or len(parts) not in {4, 5}:
        return 404, "404 page not found"
    names = {"namespace": parts[1], "pod": parts[2], "container": parts[-1]}
    return _target(scope["state"]["kubelet"], names)


def _target(kubelet: Kubelet, names: dict[str, str]) -> RunningContainer | tuple[int, str]:
    worker = kubelet.pods.find(names["namespace"], names["pod"])
    if worker is None:
        return 404, "pod does not exist"
    slot = worker.slot(names["container"])
    if slot is None or slot.current is None or not slot.current.running:
        return 404, f'container not found ("{names["container"]}")'
    return slot.current
