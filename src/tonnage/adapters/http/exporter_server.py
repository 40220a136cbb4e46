"""The server of device metrics: the page, `/health`, and who may ask for them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from tonnage.adapters.http.pages import text_page
from tonnage.adapters.http.server import HttpServer, open_to_all
from tonnage.adapters.http.web_config_file import WebConfigFile

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exporter_server(
    listening: socket.socket, page: Callable[[], str], web_config: WebConfigFile | None
) -> HttpServer:
    """Serves what `page` gives; without a web config to everybody."""
    routes = {
        "/metrics": text_page(page, _CONTENT_TYPE),
        "/health": text_page(lambda: "OK\n", "text/plain; charset=utf-8"),
    }
    if web_config is None:
        return HttpServer(listening, routes, accesses=open_to_all)
    return HttpServer(listening, routes, accesses=web_config.accesses)
