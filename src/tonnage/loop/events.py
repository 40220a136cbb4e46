"""EventRecorder: what a component tells people about an object; repeated ones are counted.

Source: k8s.io/client-go/tools/record/event.go (v0.35).

Stands on the performer alone, so that the agent and every part of the twin share it.
"""

from __future__ import annotations

import logging
import re
import zlib
from datetime import datetime
from typing import Final
from uuid import NAMESPACE_OID, uuid5

from tonnage.loop.effects import ActionPorts
from tonnage.loop.event_correlation import Correlator, EventSighting
from tonnage.loop.performer import Performer
from tonnage.model.actions.cluster import CountEvent, CreateEvent
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.name_words import SUBDOMAIN
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.objects import Object, ObjectReference

_MESSAGE_LIMIT: Final = 1024
_NAME_ATTEMPTS: Final = 4
_LOG: Final = logging.getLogger(__name__)


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
    type, reason and message about the same object raises `count` of the Event that stands; many alike are
    combined and too many held back, as Kubernetes' own components do, unless `sparing` is False.
    """

    def __init__(
        self, performer: Performer, clock: Clock, component: str, host: str = "", *, sparing: bool = True
    ) -> None:
        self._performer = performer
        self._clock = clock
        self._component = component
        self._host = host
        self._correlator = Correlator(sparing=sparing)
        self._serial = zlib.crc32(f"{component}/{host}".encode())
        """Added to the time in a name, so that components do not meet when the clock stands still."""

    async def emit(self, obj: Object | ObjectReference, event_type: str, reason: str, message: str) -> None:
        """Tell `message` about `obj`. `event_type` is `Normal` or `Warning`, `reason` CamelCase."""
        subject = obj if isinstance(obj, ObjectReference) else reference_to(obj)
        text = message if len(message) <= _MESSAGE_LIMIT else message[: _MESSAGE_LIMIT - 1] + "…"
        now = self._clock.now()
        about = (subject.kind, subject.namespace, subject.name, subject.uid, subject.api_version, event_type)
        correlation_key = (*about, subject.field_path, reason)
        sighting = self._correlator.observe(
            about, correlation_key, text, now, lambda: self._name(subject, now)
        )
        if sighting is None:
            return
        try:
            if sighting.count == 1 or not await self._count_again(subject, sighting, now):
                await self._write(subject, event_type, reason, sighting, now)
        except ClusterError as error:
            _LOG.warning("event not written: object=%s reason=%s error=%s", subject.name, reason, error)

    async def _count_again(self, subject: ObjectReference, sighting: EventSighting, now: datetime) -> bool:
        """Whether the Event that stands for this was there to be counted up."""
        patch: JsonObject = {"count": sighting.count, "lastTimestamp": timestamp(now)}
        if sighting.combined:
            patch["message"] = sighting.message
        try:
            namespace = subject.namespace or "default"
            await self._performer.perform(CountEvent(namespace, sighting.name, patch))
        except ApiError as error:
            if error.code != 404:
                raise
            return False  # its time to live is over, or somebody deleted it
        return True

    async def _write(
        self, subject: ObjectReference, event_type: str, reason: str, sighting: EventSighting, now: datetime
    ) -> None:
        body = _event_body(subject, event_type, reason, sighting.message)
        body["source"] = {"component": self._component, **({"host": self._host} if self._host else {})}
        if not sighting.combined:
            body["reportingComponent"] = self._component
            body["reportingInstance"] = self._host
        body["count"] = sighting.count
        body["firstTimestamp"], body["lastTimestamp"] = timestamp(sighting.first), timestamp(now)
        namespace = subject.namespace or "default"
        for attempt in range(_NAME_ATTEMPTS):
            body["metadata"] = {"name": sighting.name, "namespace": namespace}
            try:
                await self._performer.perform(CreateEvent(namespace, dict(body)))
            except ApiError as error:
                if error.reason != "AlreadyExists" or attempt == _NAME_ATTEMPTS - 1:
                    raise
                sighting.rename(self._name(subject, now))
                continue
            return

    def _name(self, subject: ObjectReference, now: datetime) -> str:
        """The subject's name and a number; where no Event can have such a name, one that says nothing."""
        name = f"{subject.name}.{self._next_suffix(now):x}"
        return name if re.fullmatch(SUBDOMAIN, name) else str(uuid5(NAMESPACE_OID, name))

    def _next_suffix(self, now: datetime) -> int:
        self._serial += 1
        return int(now.timestamp() * 1_000_000) * 1000 + self._serial


def recorder_over(api: KubernetesApi, clock: Clock, component: str, host: str = "") -> EventRecorder:
    """One for a component that changes the cluster by `api` itself."""
    return EventRecorder(Performer(ActionPorts(api=api)), clock, component, host)


def reference_body(subject: ObjectReference) -> JsonObject:
    """A reference as it stands in an Event."""
    whole: JsonObject = {
        "apiVersion": subject.api_version,
        "kind": subject.kind,
        "name": subject.name,
        "namespace": subject.namespace,
        "uid": subject.uid,
        "resourceVersion": subject.resource_version,
        "fieldPath": subject.field_path,
    }
    return {key: value for key, value in whole.items() if value}


def _event_body(subject: ObjectReference, event_type: str, reason: str, message: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": reference_body(subject),
        "type": event_type,
        "reason": reason,
        "message": message,
    }
