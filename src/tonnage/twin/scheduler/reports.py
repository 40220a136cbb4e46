"""handleSchedulingFailure: a pod's Events, its condition PodScheduled, the node meant for it.

Source: kube-scheduler 1.35 (handleSchedulingFailure, finishBinding, skipPodSchedule, preemption).
"""

from __future__ import annotations

import logging
from typing import Final

from tonnage.loop.status_writes import tell_of_pod
from tonnage.model.errors import ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.scheduler.events import SeriesRecorder, Telling
from tonnage.wire import objects as w

NAME: Final = "default-scheduler"
REFUSED: Final = "Unschedulable"
BROKEN: Final = "SchedulerError"
_GATED: Final = "SchedulingGated"
_SCHEDULED: Final = Telling("Normal", "Scheduled", "Binding")
_FAILED: Final = Telling("Warning", "FailedScheduling", "Scheduling")
_NOTE_LIMIT: Final = 1024
_LOG: Final = logging.getLogger(__name__)


class PodTeller:
    """Tells of pods. Nothing is raised when that fails, but where a pod is to go."""

    def __init__(self, api: KubernetesApi, clock: Clock, host: str) -> None:
        self._api = api
        self._clock = clock
        self._events = SeriesRecorder(api, clock, NAME, host)

    async def run(self) -> None:
        """End Events that recur no more, until cancelled."""
        await self._events.run()

    async def placed(self, pod: w.Pod, node: str) -> None:
        """The pod is bound."""
        head = pod.metadata
        message = f"Successfully assigned {head.namespace}/{head.name} to {node}"
        await self._events.emit(pod, _SCHEDULED, message)

    async def passed_over(self, pod: w.Pod) -> None:
        """The pod's turn came, and it is being deleted."""
        head = pod.metadata
        await self._events.emit(pod, _FAILED, f"skip schedule deleting pod: {head.namespace}/{head.name}")

    async def refused(self, pod: w.Pod, reason: str, message: str, nominated: str) -> None:
        """The pod is not placed; a node may be nominated for it, or no longer be."""
        await self._events.emit(pod, _FAILED, _note(message))
        status = self._condition(pod, reason, message)
        if nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = nominated or None
        if status:
            await self._tell(pod, status)

    async def gated(self, pod: w.Pod, message: str) -> None:
        """The pod is not tried: the API server has said so already, unless somebody overwrote it."""
        standing = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if (standing is None or standing.reason != _GATED) and (
            status := self._condition(pod, _GATED, message)
        ):
            await self._tell(pod, status)

    async def meant_for(self, pod: w.Pod, node: str | None) -> None:
        """Nominate a node for the pod, or none."""
        await self._tell(pod, {"nominatedNodeName": node})

    async def doomed(self, victim: w.Pod) -> None:
        """The pod is about to go for a more important one. Raises ClusterError."""
        target: JsonObject = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{NAME}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": timestamp(self._clock.now()),
            **_observed_generation(victim),
        }
        await tell_of_pod(self._api, victim, {"conditions": [target]})

    async def preempted(self, victim: w.Pod, uid: str, by: w.Pod | None, node: str) -> None:
        """The pod was deleted for the one with this uid."""
        telling = Telling("Normal", "Preempted", "Preempting", by)
        await self._events.emit(victim, telling, f"Preempted by pod {uid} on node {node}")

    def _condition(self, pod: w.Pod, reason: str, message: str) -> JsonObject:
        """The change of status that says why the pod is not placed; empty where it says so already."""
        standing = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        fields = (standing.status, standing.reason, standing.message) if standing is not None else ()
        if fields == ("False", reason, message):
            return {}
        since = standing.last_transition_time if standing and standing.status == "False" else None
        condition: JsonObject = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or timestamp(self._clock.now()),
            **_observed_generation(pod),
        }
        return {"conditions": [condition]}

    async def _tell(self, pod: w.Pod, status: JsonObject) -> None:
        try:
            await tell_of_pod(self._api, pod, status)
        except ClusterError as error:
            head = pod.metadata
            _LOG.warning("pod not told: pod=%s/%s error=%s", head.namespace, head.name, error)


def _observed_generation(pod: w.Pod) -> JsonObject:
    """What a condition says of the pod that it is about."""
    return {"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}


def _note(message: str) -> str:
    """A message as an Event can hold it."""
    return message if len(message) <= _NOTE_LIMIT else f"{message[: _NOTE_LIMIT - 4]} ..."
