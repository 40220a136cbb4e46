"""The server of device metrics: the page, `/health`, and who may ask for them."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final

from tonnage.adapters.http.pages import at_once, text_page
from tonnage.adapters.http.server import HttpServer, open_to_all
from tonnage.adapters.http.web_config_file import WebConfigFile

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exporter_server(
    listening: socket.socket,
    page: Callable[[], str],
    web_config: WebConfigFile | None,
    before: Callable[[], Awaitable[None]] = at_once,
) -> HttpServer:
    """Serves what `page` gives after `before`; without a web config to everybody."""
    routes = {
        "/metrics": text_page(page, _CONTENT_TYPE, before),
        "/health": text_page(lambda: "OK\n", "text/plain; charset=utf-8"),
    }
    if web_config is None:
        return HttpServer(listening, routes, accesses=open_to_all)
    return HttpServer(listening, routes, accesses=web_config.accesses)
