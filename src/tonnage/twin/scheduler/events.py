"""EventRecorder of client-go's tools/events, as the scheduler has it: what recurs soon is one series.

Source: k8s.io/client-go/tools/events (v0.35).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from tonnage.loop.events import reference_body, reference_to
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import micro_timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Object

SERIES_EVENT: Final = Kind("events.k8s.io", "v1", "Event", "events", True, Object)
_ENDS_AFTER: Final = timedelta(minutes=6)
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Telling:
    """What an Event says but for its note: type, reason, action, and the other object that it is about."""

    event_type: str
    reason: str
    action: str
    related: Object | None = None


@dataclass(slots=True)
class _Standing:
    """An Event that was written, how often it was told, and when last."""

    body: JsonObject
    name: str
    namespace: str
    last: datetime
    count: int = 1


class SeriesRecorder:
    """Writes Events in the name of one controller on one host; nothing is raised when that fails.

    The same about an object of the same version makes the Event a series, whatever its note: its count is
    written when it recurs for the first time, and when it has not for six minutes.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, controller: str, host: str) -> None:
        self._api = api
        self._clock = clock
        self._reporting: JsonObject = {
            "reportingController": controller,
            "reportingInstance": f"{controller}-{host}",
        }
        self._standing: dict[bytes, _Standing] = {}
        self._serial = 0
        """Added to the time in a name, so that two do not meet when the clock stands still."""

    async def run(self) -> None:
        """End the series that have not gone on for a while, until cancelled."""
        while True:
            await self._clock.sleep(_ENDS_AFTER.total_seconds())
            await self._finish()

    async def emit(self, obj: Object, telling: Telling, note: str) -> None:
        """Tell `note` about `obj`."""
        now = self._clock.now()
        body: JsonObject = {
            "type": telling.event_type,
            "reason": telling.reason,
            "action": telling.action,
            "regarding": reference_body(reference_to(obj)),
            **({"related": reference_body(reference_to(telling.related))} if telling.related else {}),
            **self._reporting,
        }
        key = msgspec.json.encode(body)
        standing = self._standing.get(key)
        if standing is None:
            self._serial += 1
            name = f"{obj.metadata.name}.{int(now.timestamp() * 1_000_000) * 1000 + self._serial % 1000:x}"
            namespace = obj.metadata.namespace or "default"
            body |= {"metadata": {"name": name, "namespace": namespace}}
            body |= {"note": note, "eventTime": micro_timestamp(now)}
            standing = self._standing[key] = _Standing(body, name, namespace, now)
            await self._write(standing)
            return
        standing.count += 1
        standing.last = now
        if standing.count == 2:
            await self._write(standing)

    async def _finish(self) -> None:
        """Write the counts of series that ended; forget them, and what came once and is as old."""
        since = self._clock.now() - _ENDS_AFTER
        for key, standing in list(self._standing.items()):
            if standing.last < since:
                del self._standing[key]
                if standing.count > 1:
                    await self._write(standing)

    async def _write(self, standing: _Standing) -> None:
        """Write an Event for the first time, or the series that it has become."""
        body, name, namespace = standing.body, standing.name, standing.namespace
        try:
            if standing.count > 1:
                last = micro_timestamp(standing.last)
                series: JsonObject = {"series": {"count": standing.count, "lastObservedTime": last}}
                try:
                    await self._api.patch(SERIES_EVENT, name, series, namespace=namespace)
                except ApiError as error:
                    if error.code != 404:
                        raise
                    body = {**body, **series}  # its time to live is over, or somebody deleted it
                else:
                    return
            await self._api.create(SERIES_EVENT, body, namespace=namespace)
        except ClusterError as error:
            _LOG.warning("event not written: object=%s error=%s", name, error)
