"""A server in process, and short ways to ask it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import (
    POD,
)


class ServerInProcess:
    """A server in process, and short ways to ask it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, random=Random(1))
        self.api = self.server.local()

    async def pod(self, name: str = "p", *, meta: JsonObject | None = None, **spec: Any) -> Any:
        body: JsonObject = {
            "metadata": {"name": name, **(meta or {})},
            "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
        }
        return await self.api.create(POD, body, namespace="default")

    def raw(self, name: str = "p") -> Any:
        """The pod as stored, None when it is gone."""
        stored = self.server.store.get(("", "pods"), ("default", name))
        return None if stored is None else stored.object

    def writers(self, kind: Any, name: str) -> set[tuple[str, str]]:
        """Who has written an object and which part of it."""
        stored: Any = self.server.store.get((kind.group, kind.plural), ("default", name))
        entries = stored.object["metadata"]["managedFields"]
        return {(entry["manager"], entry.get("subresource", "")) for entry in entries}

    async def refused(self, coming: Any) -> ApiError:
        with pytest.raises(ApiError) as caught:
            await coming
        return caught.value
