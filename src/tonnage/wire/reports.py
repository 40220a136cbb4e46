"""What components report: Events about objects, Leases that say that they live, answers about access.

Source: core/v1, coordination.k8s.io/v1 and authorization.k8s.io/v1 of the Kubernetes API, v1.35.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.wire.objects import Object, ObjectReference, Wire


class Event(Object):
    """core/v1 Event, the shape that `kubectl describe` and `kubectl events` read."""

    involved_object: ObjectReference = msgspec.field(default_factory=ObjectReference)
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int = 1
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    source: dict[str, str] = msgspec.field(default_factory=dict)
    reporting_component: str = ""
    reporting_instance: str = ""
    action: str = ""
    related: ObjectReference | None = None
    series: dict[str, Any] = msgspec.field(default_factory=dict)


class LeaseSpec(Wire):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Object):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class AccessAnswer(Wire):
    allowed: bool = False


class AccessReview(Object):
    """authorization.k8s.io/v1 SelfSubjectAccessReview: whether whoever sends it may do a thing."""

    status: AccessAnswer = msgspec.field(default_factory=AccessAnswer)
