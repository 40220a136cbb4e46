"""What the driver reports by itself: Xid errors of every device that can tell, and that it needs a look."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import ModuleType
from typing import Any, Final

from tonnage.model.devices.inventory import RawEvent, RawEventKind

_WORTH_A_LOOK: Final = (
    "nvmlEventTypeDoubleBitEccError",
    "nvmlEventTypeDramRetirementEvent",
    "nvmlEventTypeDramRetirementFailure",
    "nvmlEventTypeNonFatalPoisonError",
    "nvmlEventTypeFatalPoisonError",
    "nvmlEventTypeGpuUnavailableError",
    "nvmlEventTypeGpuRecoveryAction",
)
"""Beside Xids; older bindings do not name the last ones."""
_MIG_CHANGED: Final = 0x100
"""nvmlEventMigConfigChange of nvml.h, which the bindings do not name."""
_NO_INSTANCE: Final = 0xFFFFFFFF
_NOTHING: Final[frozenset[int]] = frozenset()


class EventWatch:
    """An event set; another one takes its place when a device is added or comes back.

    `cover` is for one thread and `next` for another. Around such a change an event may be heard twice, never
    not at all. Only `cover` asks the driver about single devices, which may hang.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = threading.Condition(self._lock)
        self._session = 0
        self._set: Any = None
        self._covered: frozenset[str] = frozenset()
        self._former: list[Any] = []
        self._uuid_by_handle: dict[int, str] = {}
        """Kept here because a lost device no longer tells its UUID. The key is the handle's address."""
        self._failure: Exception | None = None

    def cover(
        self,
        nvml: ModuleType,
        session: int,
        uuids: AbstractSet[str] | None = None,
        *,
        skip: AbstractSet[int] = _NOTHING,
        step: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Listen to these devices, or to all that there are; devices that are none of them are given up.

        Nothing is asked about the devices whose index is in `skip`. Raises NVMLError; `next` does then, too.
        """
        with self._lock:
            if session != self._session:  # the sets of an ended session are void
                self._session, self._set, self._former, self._covered = session, None, [], frozenset()
            if self._set is not None and (uuids is None or uuids <= self._covered):
                self._covered = self._covered if uuids is None else frozenset(uuids)
                return
        try:
            event_set, uuid_by_handle = _registered(nvml, skip, step)
        except nvml.NVMLError as error:
            with self._lock:
                self._failure = error
                self._made.notify_all()
            raise
        with self._lock:
            if self._set is not None:
                self._former.append(self._set)
            self._set, self._covered, self._failure = event_set, frozenset(uuid_by_handle.values()), None
            self._uuid_by_handle |= uuid_by_handle
            self._made.notify_all()

    def next(self, nvml: ModuleType, session: int, timeout_ms: int) -> RawEvent | None:
        """What happened, None when nothing did. Raises NVMLError; `cover` must be called again then."""
        with self._lock:
            if session != self._session or self._set is None:
                failure, self._failure = self._failure, None
                if failure is not None:
                    raise failure
                self._made.wait(timeout_ms / 1000)
                return None
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

    def _waited(self, nvml: ModuleType, event_set: Any, timeout_ms: int) -> RawEvent | None:
        try:
            event = nvml.nvmlEventSetWait_v2(event_set, timeout_ms)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            raise
        return _raw_event(nvml, event, self._uuid_by_handle)


def _raw_event(nvml: ModuleType, event: Any, uuid_by_handle: Mapping[int, str]) -> RawEvent:
    """An nvmlEventData_t in the model's words: an Xid keeps its number, all else asks for a new scan."""
    uuid = uuid_by_handle.get(_address(event.device), "")
    if event.eventType != nvml.nvmlEventTypeXidCriticalError:
        return RawEvent(RawEventKind.CHANGED, uuid)
    gi, ci = int(event.gpuInstanceId), int(event.computeInstanceId)
    return RawEvent(
        RawEventKind.XID,
        uuid,
        int(event.eventData),
        None if gi == _NO_INSTANCE else gi,
        None if _NO_INSTANCE in (gi, ci) else ci,
    )


def _registered(
    nvml: ModuleType, skip: AbstractSet[int], step: Callable[[int], None]
) -> tuple[Any, dict[int, str]]:
    """A new set, and the devices that report to it: uuids by handle."""
    event_set, uuid_by_handle = nvml.nvmlEventSetCreate(), dict[int, str]()
    event_types = nvml.nvmlEventTypeXidCriticalError | _MIG_CHANGED
    for name in _WORTH_A_LOOK:
        event_types |= getattr(nvml, name, 0)
    for index in range(nvml.nvmlDeviceGetCount()):
        if index in skip:
            continue
        step(index)
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid_by_handle[_address(handle)] = nvml.nvmlDeviceGetUUID(handle)
            supported = nvml.nvmlDeviceGetSupportedEventTypes(handle)
            nvml.nvmlDeviceRegisterEvents(handle, event_types & supported, event_set)
        except (nvml.NVMLError, ValueError):
            continue  # too old for events, or lost: the periodic scan still sees it
    return event_set, uuid_by_handle


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
