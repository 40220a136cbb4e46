"""A genuine API server, shared by the tests of a worker."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.genuine import genuine_api_server


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
