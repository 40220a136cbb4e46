"""Who may do what, as a genuine Kubernetes 1.35.8 was recorded to answer and audit (`record_access.py`)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.access_requests import Asker, audited, comparable, comparable_event, recorded, scenes, title
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.twin.apiserver.audit import AuditLog
from tonnage.twin.apiserver.server import ApiServer
from twin.apiserver.conftest import Client


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """Of a server that audits."""
    audit = AuditLog(tmp_path / "audit.log")
    server = ApiServer(SystemClock(), audit=audit)
    yield Client(await server.start(Authority.generate(datetime.now(UTC))))
    await server.stop()
    audit.close()


async def test_every_request_is_answered_and_audited_as_by_the_genuine_server(
    client: Client, tmp_path: Path
) -> None:
    async def send(method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, bytes]:
        answer = await client(method, path, body, token=None, pairs=headers)
        return answer.code, answer.out.encode()

    asker = Asker(send, client.token)
    wrong = []
    for scene in scenes():
        for request, (recorded_request, code, body) in zip(
            scene.requests, recorded()[scene.name], strict=True
        ):
            assert request == recorded_request, "record again: python scripts/record_access.py"
            found = await asker.ask(request)
            if found != (code, body):
                wrong.append((f"{scene.name}: {title(request)}", (code, body), found))
    for what, genuine, found in wrong:
        print(what, "\n  genuine", json.dumps(genuine), "\n  twin   ", json.dumps(found))
    assert [what for what, *_ in wrong] == []
    lines = (tmp_path / "audit.log").read_bytes().splitlines()
    events: list[dict[str, Any]] = [comparable_event(comparable(line)) for line in lines]
    for expected, event in zip(audited(), events, strict=True):
        assert event == expected
