"""Events: what a component tells people about an object, repeated ones counted instead of written again.

Stands on the Kubernetes port alone, so that the agent and every part of the twin share it.
"""

from __future__ import annotations

import logging
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.wire import kinds
from tonnage.wire.objects import Object, ObjectReference
from tonnage.wire.timestamps import timestamp

_REMEMBERED: Final = 4096
_MESSAGE_LIMIT: Final = 1024
_NAME_ATTEMPTS: Final = 4
_LOG: Final = logging.getLogger(__name__)

_Told = tuple[str, str, str, str, str, str, str, str]


@dataclass(slots=True)
class _Written:
    """The Event object that stands for one thing told."""

    namespace: str
    name: str
    count: int


def reference_to(obj: Object, field_path: str = "") -> ObjectReference:
    """A reference to `obj`, or to a part of it such as `spec.containers{main}`."""
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        name=obj.metadata.name,
        namespace=obj.metadata.namespace,
        uid=obj.metadata.uid,
        resource_version=obj.metadata.resource_version,
        field_path=field_path,
    )


class EventRecorder:
    """Writes Events in the name of one component.

    An Event is never worth a loop: when it cannot be written, that is logged and nothing is raised. The same
    type, reason and message about the same object raises `count` of the Event that stands; the last 4096
    things told are remembered for that.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, component: str, host: str = "") -> None:
        self._api = api
        self._clock = clock
        self._component = component
        self._host = host
        self._told: OrderedDict[_Told, _Written] = OrderedDict()
        self._serial = zlib.crc32(f"{component}/{host}".encode())
        """Added to the time in a name, so that components do not meet when the clock stands still."""

    async def emit(self, obj: Object | ObjectReference, event_type: str, reason: str, message: str) -> None:
        """Tell `message` about `obj`. `event_type` is `Normal` or `Warning`, `reason` CamelCase."""
        subject = obj if isinstance(obj, ObjectReference) else reference_to(obj)
        text = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
        try:
            if not await self._count_again(subject, event_type, reason, text):
                await self._write(subject, event_type, reason, text)
        except ClusterError as error:
            _LOG.warning("event not written: object=%s reason=%s error=%s", subject.name, reason, error)

    async def _count_again(
        self, subject: ObjectReference, event_type: str, reason: str, message: str
    ) -> bool:
        """True when an Event that says the same stands and was counted up."""
        key = _told(subject, event_type, reason, message)
        written = self._told.get(key)
        if written is None:
            return False
        patch: JsonObject = {"count": written.count + 1, "lastTimestamp": timestamp(self._clock.now())}
        try:
            await self._api.patch(kinds.EVENT, written.name, patch, namespace=written.namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            self._told.pop(key, None)  # its time to live is over, or somebody deleted it
            return False
        written.count += 1
        self._told.move_to_end(key)
        return True

    async def _write(self, subject: ObjectReference, event_type: str, reason: str, message: str) -> None:
        namespace = subject.namespace or "default"
        now = self._clock.now()
        for attempt in range(_NAME_ATTEMPTS):
            name = f"{subject.name}.{self._next_suffix(now):x}"
            body = _event_body(subject, event_type, reason, message)
            body["metadata"] = {"name": name, "namespace": namespace}
            body["source"] = {"component": self._component, **({"host": self._host} if self._host else {})}
            body["reportingComponent"] = self._component
            body["reportingInstance"] = self._host
            body["firstTimestamp"] = body["lastTimestamp"] = timestamp(now)
            try:
                await self._api.create(kinds.EVENT, body, namespace=namespace)
            except ApiError as error:
                if error.reason != "AlreadyExists" or attempt == _NAME_ATTEMPTS - 1:
                    raise
                continue
            break
        self._told[_told(subject, event_type, reason, message)] = _Written(namespace, name, 1)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

    def _next_suffix(self, now: datetime) -> int:
        self._serial += 1
        return int(now.timestamp() * 1_000_000) * 1000 + self._serial


def _told(subject: ObjectReference, event_type: str, reason: str, message: str) -> _Told:
    return (
        subject.kind,
        subject.namespace,
        subject.name,
        subject.uid,
        subject.field_path,
        event_type,
        reason,
        message,
    )


def _event_body(subject: ObjectReference, event_type: str, reason: str, message: str) -> JsonObject:
    involved: JsonObject = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "name": subject.name,
        "namespace": subject.namespace,
        "uid": subject.uid,
        "resourceVersion": subject.resource_version,
        "fieldPath": subject.field_path,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {key: value for key, value in involved.items() if value},
        "type": event_type,
        "reason": reason,
        "message": message,
        "count": 1,
    }
