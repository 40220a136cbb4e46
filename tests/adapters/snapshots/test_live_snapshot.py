"""How a command reads a live cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from tonnage.adapters.kubernetes.http import HttpKubernetes
from tonnage.adapters.snapshots.live import read_live
from tonnage.reading.documents import READ_KINDS
from tonnage.wire.kinds import Kind


class _Api:
    """A server that counts what it is asked at the same moment; each such request is a connection."""

    server_ahead_s = 0.0

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.most = 0
        self._now = 0

    async def get_raw(self, _path: str) -> object:
        return {"gitVersion": "v1.35.0"}

    async def read_all(self, kind: Kind[Any], _read: Callable[[bytes], object]) -> list[object]:
        self.asked.append(kind.plural)
        self._now += 1
        self.most = max(self.most, self._now)
        for _ in range(3):
            await asyncio.sleep(0)
        self._now -= 1
        return []


async def test_all_kinds_are_read_over_few_connections() -> None:
    api = _Api()
    snapshot = await read_live(cast(HttpKubernetes, api))
    assert sorted(api.asked) == sorted(kind.plural for kind in READ_KINDS)
    assert 1 < api.most <= 4
    assert snapshot.complete == {kind.kind for kind in READ_KINDS}
