"""Plain HTTP clients of API servers, by kubeconfig or by endpoint; and a twin's server for them."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import yaml

from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.twin.apiserver.server import ApiServer, Endpoint

if TYPE_CHECKING:
    from support.apply_scenes import Send


@asynccontextmanager
async def served_twin() -> AsyncIterator[Endpoint]:
    """A twin's API server over HTTPS, without controllers."""
    twin = ApiServer(SystemClock())
    endpoint = await twin.start(Authority.generate(datetime.now(UTC)))
    try:
        yield endpoint
    finally:
        await twin.stop()


def client_of(kubeconfig: Path) -> httpx2.AsyncClient:
    """A client of the server that a kubeconfig of ours names."""
    document = yaml.load(kubeconfig.read_text(), yaml.CSafeLoader)
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"])
    return client_at(Endpoint(cluster["server"], authority, user["token"]))


def client_at(endpoint: Endpoint) -> httpx2.AsyncClient:
    """A client of one server, as its administrator."""
    context = ssl.create_default_context(cadata=endpoint.ca_pem.decode())
    head = {"authorization": f"Bearer {endpoint.token}"}
    return httpx2.AsyncClient(base_url=endpoint.url, verify=context, headers=head, timeout=60)


def sender(client: httpx2.AsyncClient) -> Send:
    """How scenes are played through a client."""

    async def send(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        answer = await client.request(method, path, headers=headers, content=body)
        return answer.status_code, answer.content

    return send
