"""What the driver reports by itself: Xid errors of every device that can tell."""

from __future__ import annotations

import threading
from collections.abc import Set as AbstractSet
from types import ModuleType
from typing import Any

from tonnage.model.devices import RawEvent, RawEventKind


class EventWatch:
    """An event set; another one takes its place when a device is added or comes back.

    `cover` and `next` may run in different threads. Around such a change an event may be heard twice, never
    not at all.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session = 0
        self._set: Any = None
        self._covered: frozenset[str] = frozenset()
        self._former: list[Any] = []

    def cover(self, nvml: ModuleType, session: int, uuids: AbstractSet[str] | None = None) -> None:
        """Listen to these devices, or to all that there are; devices that are none of them are given up."""
        with self._lock:
            if session != self._session:  # the sets of an ended session are void
                self._session, self._set, self._former, self._covered = session, None, [], frozenset()
            if self._set is not None and (uuids is None or uuids <= self._covered):
                self._covered = self._covered if uuids is None else frozenset(uuids)
                return
            made, covered = _registered(nvml)
            if self._set is not None:
                self._former.append(self._set)
            self._set, self._covered = made, covered

    def next(self, nvml: ModuleType, session: int, timeout_ms: int) -> RawEvent | None:
        """What happened, None when nothing did. Raises NVMLError; a later call then starts afresh."""
        self.cover(nvml, session)
        while self._former:  # what it still holds happened before
            try:
                event = self._waited(nvml, self._former[0], 0)
            except nvml.NVMLError:
                event = None  # a device of it is lost
            if event is not None:
                return event
            with self._lock:
                nvml.nvmlEventSetFree(self._former.pop(0))
        watched = self._set
        try:
            return self._waited(nvml, watched, timeout_ms)
        except nvml.NVMLError:
            with self._lock:
                if self._set is watched:
                    self._set = None
            nvml.nvmlEventSetFree(watched)
            raise

    @staticmethod
    def _waited(nvml: ModuleType, event_set: Any, timeout_ms: int) -> RawEvent | None:
        try:
            event = nvml.nvmlEventSetWait_v2(event_set, timeout_ms)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            raise
        try:
            uuid: str = nvml.nvmlDeviceGetUUID(event.device)
        except nvml.NVMLError:
            uuid = ""  # lost since; the scan that follows says which
        return RawEvent(RawEventKind.XID, uuid, int(event.eventData))


def _registered(nvml: ModuleType) -> tuple[Any, frozenset[str]]:
    """A new set, and the uuids of the devices that report to it."""
    event_set, covered = nvml.nvmlEventSetCreate(), set[str]()
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid: str = nvml.nvmlDeviceGetUUID(handle)
            covered.add(uuid)
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, event_set)
        except nvml.NVMLError:
            continue  # too old for events, or lost: the periodic scan still sees it
    return event_set, frozenset(covered)
