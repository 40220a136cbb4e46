"""TriggerTimeTracker: when what changed a service's endpoints happened, for measuring delays.

Source: k8s.io/endpointslice/util/trigger_time_tracker.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.loop.informer import Key, key_of
from tonnage.wire.objects import Pod, Service

TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """Remembers of each service when it was made and when its pods last became ready or unready."""

    def __init__(self) -> None:
        self._times: dict[Key, tuple[str, dict[str, str]]] = {}

    def since(self, service: Service, pods: Iterable[Pod]) -> str:
        """The earliest of the moments that were not known the last time; empty without any."""
        key, made = key_of(service), service.metadata.creation_timestamp or ""
        turned = {pod.metadata.name: when for pod in pods if (when := _turned(pod))}
        before = self._times.get(key)
        self._times[key] = (made, turned)
        if before is None:
            return made
        new = [when for name, when in turned.items() if when > before[1].get(name, "")]
        return min([*new, *([made] if made > before[0] else [])], default="")

    def forget(self, key: Key) -> None:
        """The service is gone."""
        self._times.pop(key, None)


def _turned(pod: Pod) -> str:
    """When the pod's Ready condition last changed. Timestamps of one form sort as they follow each other."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.last_transition_time or ""
    return ""
