"""Who did what: an event a request, at the level Metadata, as lines of JSON in a file that is rotated.

Source: staging/src/k8s.io/apiserver/pkg/apis/audit/v1 and pkg/audit (v1.35).
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.model.kubernetes.timestamps import micro_timestamp
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.authentication.users import user_info
from tonnage.twin.apiserver.rbac.decisions import AccessDecision
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import User

_LOG: Final = logging.getLogger(__name__)
LARGEST: Final = 64 << 20
"""Bytes of one file."""
OLD_FILES: Final = 3
"""Older files that are kept: FILE.1 is the youngest of them."""
_LONGEST: Final = 256 << 10
_LONG_RUNNING: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})


class AuditLog:
    """Appends events to a file. What cannot be written is told in the log, once in a row, and lost."""

    def __init__(self, path: Path, *, largest: int = LARGEST) -> None:
        """Raises ConfigError when the file cannot be opened."""
        self._path = path
        self._largest = largest
        self._broken = False
        try:
            self._open()
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(
                Problem("the audit log cannot be written", str(path), why, "name another file")
            ) from None

    def write(self, event: JsonObject) -> None:
        """Append an event."""
        line = go_json(event) + b"\n"
        if len(line) > _LONGEST:
            line = go_json({**event, "responseStatus": {"metadata": {}}}) + b"\n"
        try:
            if self._size and self._size + len(line) > self._largest:
                self._rotate()
            self._size += os.write(self._file, line)
            self._broken = False
        except OSError as error:
            if not self._broken:
                _LOG.error("audit events are lost: path=%s error=%s", self._path, error)
            self._broken = True

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size

    def _rotate(self) -> None:
        for number in range(OLD_FILES, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            younger = self._path.with_name(f"{self._path.name}.{number - 1}") if number > 1 else self._path
            if younger.exists():
                younger.replace(older)
        os.close(self._file)
        self._open()


class Trail:
    """What is known of one request, told to the log when its answer begins (if it may last) and ends."""

    def __init__(
        self,
        write: Callable[[JsonObject], None],
        clock: Clock,
        origin: JsonObject,
        annotations: dict[str, str],
        audit_id: str = "",
    ) -> None:
        """`origin` has the request's `requestURI`, `sourceIPs` and `userAgent`; others may annotate too."""
        self._write = write
        self._clock = clock
        self._origin = origin
        self._id = audit_id or str(uuid.uuid4())
        self._received = clock.now()
        self._user: JsonObject = {}
        self._impersonated: JsonObject | None = None
        self._attributes: Attributes | None = None
        self._version = ""
        self._annotations = annotations
        self._named: JsonObject = {}
        self._status: JsonObject = {"metadata": {}}

    def came_from(self, user: User) -> None:
        """Whoever asks is known."""
        self._user = user_info(user)

    def acts_as(self, user: User) -> None:
        """He passes for somebody else."""
        self._impersonated = user_info(user)

    def asks(self, attributes: Attributes, version: str) -> None:
        """What is asked for, in which version of the API."""
        self._attributes, self._version = attributes, version

    def decided(self, decision: AccessDecision) -> None:
        """It is allowed, or not."""
        self._annotations["authorization.k8s.io/decision"] = "allow" if decision.allowed else "forbid"
        self._annotations["authorization.k8s.io/reason"] = decision.reason

    def sent(self, metadata: JsonObject) -> None:
        """The metadata of the object in the body."""
        self._named = metadata

    def answered(self, status: JsonObject) -> None:
        """The answer is this Status."""
        fields = {key: value for key, value in status.items() if key not in ("kind", "apiVersion")}
        self._status = {"metadata": {}, **fields}

    def started(self, code: int) -> None:
        """The answer begins."""
        self._status["code"] = code
        attributes = self._attributes
        if not self._user or (
            attributes is not None and (attributes.verb == "watch" or attributes.subresource in _LONG_RUNNING)
        ):
            self._tell("ResponseStarted")

    def ended(self) -> None:
        """The answer has ended."""
        if self._user:
            self._tell("ResponseComplete")

    def _tell(self, stage: str) -> None:
        event: JsonObject = {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self._id,
            "stage": stage,
            "requestURI": self._origin["requestURI"],
            "verb": self._attributes.verb if self._attributes is not None else "",
            "user": self._user,
        }
        if self._impersonated is not None:
            event["impersonatedUser"] = self._impersonated
        event |= {key: self._origin[key] for key in ("sourceIPs", "userAgent") if self._origin.get(key)}
        if self._attributes is not None and self._attributes.of_resource:
            event["objectRef"] = self._reference(self._attributes)
        event["responseStatus"] = {**self._status}
        event["requestReceivedTimestamp"] = micro_timestamp(self._received)
        event["stageTimestamp"] = micro_timestamp(self._clock.now())
        if self._annotations:
            annotations: JsonObject = {key: self._annotations[key] for key in sorted(self._annotations)}
            event["annotations"] = annotations
        self._write(event)

    def _reference(self, attributes: Attributes) -> JsonObject:
        parts: dict[str, str] = {
            "resource": attributes.resource,
            "namespace": attributes.namespace or text(self._named, "namespace"),
            "name": attributes.name or text(self._named, "name"),
            "uid": text(self._named, "uid"),
            "apiGroup": attributes.group,
            "apiVersion": self._version,
            "resourceVersion": text(self._named, "resourceVersion"),
            "subresource": attributes.subresource,
        }
        return {key: value for key, value in parts.items() if value}


def origin_of(scope: Mapping[str, object], headers: Mapping[str, str]) -> JsonObject:
    """Where a request of HTTP comes from and goes to."""
    path, query, client = (scope.get(key) or b"" for key in ("raw_path", "query_string", "client"))
    uri = b"?".join(part for part in (path, query) if isinstance(part, bytes) and part)
    addresses: list[JsonValue] = [str(client[0])] if isinstance(client, tuple) and client else []
    return {
        "requestURI": uri.decode("latin-1"),
        "sourceIPs": addresses,
        "userAgent": headers.get("user-agent", "")[:1024],
    }
