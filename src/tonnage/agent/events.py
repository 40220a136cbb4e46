"""Kubernetes Events about the agent's node."""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from tonnage.loop.events import EventRecorder
from tonnage.loop.performer import Performer
from tonnage.ports.clock import Clock
from tonnage.wire.objects import ObjectReference

_WAITING: Final = 64
_COMPONENT: Final = "tonnage-agent"


class NodeEvents:
    """Posts Events in the background. What is said again is counted on the Event that stands.

    Without a `performer` there is no cluster to tell.
    """

    def __init__(self, node: str, performer: Performer | None, clock: Clock) -> None:
        # kubectl describe looks for Events of a node under its name as uid, as kubelet writes them.
        self._node = ObjectReference(api_version="v1", kind="Node", name=node, uid=node)
        # Not sparing: ten GPUs that fail are ten pieces of news about one node.
        self._recorder = (
            None if performer is None else EventRecorder(performer, clock, _COMPONENT, node, sparing=False)
        )
        self._queue: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue(_WAITING)

    def post(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Queue an Event; with a full queue it is dropped, because an Event is only news."""
        if self._recorder is not None and not self._queue.full():
            self._queue.put_nowait((kind, reason, message))

    async def run(self) -> None:
        """Post until cancelled."""
        while self._recorder is not None:
            kind, reason, message = await self._queue.get()
            await self._recorder.emit(self._node, kind, reason, message)
