"""Tells of every FlowSchema whether the priority level that it names is there.

Source: k8s.io/apiserver/pkg/util/flowcontrol (presyncFlowSchemaStatus), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi, PatchType
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import mappings, text
from tonnage.twin.controllers.refusals import passing_over
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Service
from tonnage.wire.timestamps import timestamp

_GROUP: Final = "flowcontrol.apiserver.k8s.io"
# Services have a spec and a status of any content, so they can stand for these.
FLOW_SCHEMA: Final = Kind(_GROUP, "v1", "FlowSchema", "flowschemas", False, Service)
LEVEL: Final = Kind(_GROUP, "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", False, Service)
_DANGLING: Final = "Dangling"


class FlowLevelsController:
    """Writes the condition `Dangling`."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._schemas = informers.of(FLOW_SCHEMA, self._queue.add)
        self._levels = informers.of(LEVEL)
        self._levels.subscribe(self._level_changed)

    async def run(self) -> None:
        """Tell until cancelled."""
        async with following(self._schemas, self._levels) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _level_changed(self, delta: Delta[Service]) -> None:
        if delta.before is None or delta.after is None:
            for schema in self._schemas:
                self._queue.add(key_of(schema))

    async def _reconcile(self, key: Key) -> None:
        schema = self._schemas.get(key[1])
        if schema is None:
            return
        level = text(schema.spec, "priorityLevelConfiguration", "name")
        wanted = dangling(level, exists=self._levels.get(level) is not None)
        before = mappings(schema.status, "conditions")
        if any(wanted.items() <= one.items() for one in before):
            return
        now = timestamp(self._clock.now())
        status: JsonObject = {"conditions": [{**wanted, "lastTransitionTime": now}]}
        whole: JsonObject = {"metadata": {"name": key[1]}, "status": status}
        with passing_over(404):
            await self._api.patch(
                FLOW_SCHEMA, key[1], whole, subresource="status", patch_type=PatchType.APPLY
            )


def dangling(level: str, *, exists: bool) -> JsonObject:
    """The condition of a FlowSchema that names a priority level, without its time."""
    words = "it exists" if exists else "there is no such object"
    joined = "and" if exists else "but"
    return {
        "type": _DANGLING,
        "status": "False" if exists else "True",
        "reason": "Found" if exists else "NotFound",
        "message": (
            f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" '
            f"{joined} {words}"
        ),
    }
