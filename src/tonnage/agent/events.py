"""Kubernetes Events about the agent's node."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import Final, Literal

from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.model.errors import ClusterError
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import EVENT

_LOG: Final = logging.getLogger(__name__)
_LONGEST_MESSAGE: Final = 1024
_WAITING: Final = 64
_NAMESPACE: Final = "default"
"""Where Events about cluster-scoped objects live."""


class NodeEvents:
    """Posts Events in the background; what cannot be posted is logged and dropped."""

    def __init__(self, node: str, api: KubernetesApi | None, clock: Clock) -> None:
        self._node = node
        self._api = api
        self._clock = clock
        self._queue: asyncio.Queue[JsonObject] = asyncio.Queue(_WAITING)

    def post(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Queue an Event; with a full queue it is dropped, because an Event is only news."""
        if self._api is not None and not self._queue.full():
            self._queue.put_nowait(self._event(kind, reason, message[:_LONGEST_MESSAGE]))

    async def run(self) -> None:
        """Post until cancelled."""
        if self._api is None:
            return
        while True:
            event = await self._queue.get()
            try:
                await self._api.create(EVENT, event, namespace=_NAMESPACE)
            except ClusterError as error:
                _LOG.warning("event not posted: node=%s error=%s", self._node, error)

    def _event(self, kind: str, reason: str, message: str) -> JsonObject:
        now = self._clock.now()
        at = now.isoformat(timespec="seconds").replace("+00:00", "Z")
        mark = hashlib.sha256(f"{reason} {message} {now.isoformat()}".encode()).hexdigest()[:16]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{self._node}.{mark}", "namespace": _NAMESPACE},
            # kubectl describe looks for Events of a node under its name as uid, as kubelet writes them.
            "involvedObject": {"kind": "Node", "name": self._node, "uid": self._node, "apiVersion": "v1"},
            "reason": reason,
            "message": message,
            "type": kind,
            "count": 1,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "source": {"component": "tonnage-agent", "host": self._node},
            "reportingComponent": "tonnage-agent",
            "reportingInstance": self._node,
        }
