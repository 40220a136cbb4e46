"""The contract of registries over one that pretends; tests/kubernetes has it over Debian's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adapters.http.test_registry import Server
from support.registry_contract import (
    LOGIN,
    NAME,
    TAG,
    RegistryContract,
    ServedRegistry,
    credentials,
    listening,
    served_with,
)


def _answers(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    if headers.get("authorization") != f"Basic {LOGIN}":
        return 401, {"WWW-Authenticate": 'Basic realm="pretended"'}, b""
    return (200 if path == f"/v2/{NAME}/manifests/{TAG}" else 404), {}, b""


class TestPretendedRegistry(RegistryContract):
    @pytest.fixture
    async def served(self, tmp_path: Path) -> AsyncIterator[ServedRegistry]:
        certificate, key, authority = credentials(tmp_path)
        context = served_with(certificate, key)
        async with listening(Server(_answers).serve, context, address="0.0.0.0") as port:
            yield ServedRegistry(port, authority)
