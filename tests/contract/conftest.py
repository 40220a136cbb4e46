"""API servers, genuine and pretended, shared by the tests of a worker."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.api_stores import new_store
from support.genuine import genuine_api_server
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer

ENGINES = [pytest.param("kubernetes", marks=pytest.mark.kubernetes), "twin"]


@pytest.fixture(scope="session", params=ENGINES)
def api_kubeconfig(request: pytest.FixtureRequest) -> Path:
    """The administrator's, of a genuine API server and of the twin's."""
    fixture = "genuine_kubeconfig" if request.param == "kubernetes" else "twin_kubeconfig"
    found: Path = request.getfixturevalue(fixture)
    return found


@pytest.fixture(scope="session")
def twin_kubeconfig() -> Iterator[Path]:
    """Of the twin's API server alone, which serves from a thread of its own."""
    server, loop = ApiServer(SystemClock(), store=new_store()), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    authority = Authority.generate(datetime.now(UTC))
    endpoint = asyncio.run_coroutine_threadsafe(server.start(authority), loop).result(30)
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        path = Path(folder) / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(kubeconfig_text(endpoint))
        yield path
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


@pytest.fixture(scope="session")
def genuine_kubeconfig() -> Iterator[Path]:
    """The administrator's."""
    with (
        tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder,
        asyncio.Runner() as runner,
    ):
        server = genuine_api_server(Path(folder))
        yield runner.run(server.__aenter__())
        runner.run(server.__aexit__(None, None, None))
