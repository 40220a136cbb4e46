"""status.Manager, and Events: what the kubelet tells the API server beside its own work, in order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from tonnage.loop.events import EventRecorder
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.wire import kinds
from tonnage.wire.objects import ObjectReference, Pod

_LOG: Final = logging.getLogger(__name__)
_WORKERS: Final = 4
_EVENTS_LIMIT: Final = 2000


class StatusWriter:
    """Brings the newest status of every pod to the API server; older ones that still wait are left out."""

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._pending: dict[str, tuple[Pod, JsonObject, JsonObject]] = {}
        self._written: dict[str, tuple[JsonObject, JsonObject]] = {}
        self._idle: dict[str, asyncio.Event] = {}

    def put(self, pod: Pod, status: JsonObject, annotations: JsonObject | None = None) -> None:
        """Have this status written, unless it is the one that stands, and these annotations beside it."""
        uid, notes = pod.metadata.uid, annotations or {}
        if self._written.get(uid) == (status, notes) and uid not in self._pending:
            return
        self._pending[uid] = (pod, status, notes)
        self._idle.setdefault(uid, asyncio.Event()).clear()
        self._queue.add(uid)

    def newest(self, pod_uid: str) -> JsonObject:
        """What was put last; empty where nothing was."""
        waiting = self._pending.get(pod_uid)
        return waiting[1] if waiting is not None else self._written.get(pod_uid, ({}, {}))[0]

    async def flush(self, pod_uid: str) -> None:
        """Return once nothing waits to be written for the pod."""
        idle = self._idle.get(pod_uid)
        if idle is not None:
            await idle.wait()

    def forget(self, pod_uid: str) -> None:
        """The pod is gone: whatever waits is dropped."""
        self._pending.pop(pod_uid, None)
        self._written.pop(pod_uid, None)
        idle = self._idle.pop(pod_uid, None)
        if idle is not None:
            idle.set()

    async def run(self) -> None:
        """Write until cancelled."""
        await work(self._queue, self._write, workers=_WORKERS)

    async def _write(self, uid: str) -> None:
        pending = self._pending.get(uid)
        if pending is None:
            return
        pod, status, notes = pending
        meta = pod.metadata
        head: JsonObject = {"uid": meta.uid, "annotations": notes} if notes else {"uid": meta.uid}
        patch: JsonObject = {"metadata": head, "status": _in_order(pod, status)}
        try:
            await self._api.patch(
                kinds.POD,
                meta.name,
                patch,
                namespace=meta.namespace,
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
        except ApiError as error:
            if error.code not in {404, 409, 422}:
                raise
            # The pod is gone, or another one has its name: there is nobody left to tell.
            _LOG.info("pod status not written: pod=%s/%s error=%s", meta.namespace, meta.name, error)
        if uid not in self._idle:
            return
        self._written[uid] = status, notes
        if self._pending.get(uid) is pending:
            del self._pending[uid]
            self._idle[uid].set()
        else:
            self._queue.add(uid)


def _in_order(pod: Pod, status: JsonObject) -> JsonObject:
    """The status as a patch that keeps the kubelet's conditions behind those of others."""
    conditions = status.get("conditions")
    if not isinstance(conditions, list):
        return status
    reported = [entry for entry in conditions if isinstance(entry, dict)]
    named = {entry["type"] for entry in reported}
    own = [entry["type"] for entry in reported if "$patch" not in entry]
    others = [condition.type for condition in pod.status.conditions if condition.type not in named]
    return {**status, "$setElementOrder/conditions": [{"type": kind} for kind in (*others, *own)]}


class Outbox:
    """Events in the order in which they happened, written beside the work that they tell about."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._waiting: deque[tuple[ObjectReference, str, str, str]] = deque(maxlen=_EVENTS_LIMIT)
        self._filled = asyncio.Event()

    def tell(self, subject: ObjectReference, event_type: str, reason: str, message: str) -> None:
        """Have an Event written; `event_type` is Normal or Warning."""
        self._waiting.append((subject, event_type, reason, message))
        self._filled.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._filled.wait()
            while self._waiting:
                await self._recorder.emit(*self._waiting.popleft())
            self._filled.clear()
