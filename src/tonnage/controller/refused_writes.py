"""What the API server has refused of late: a right that is gone, a webhook, a quota. Said in a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tonnage.decide.cluster.operate.refusals import RefusedRequest, is_refusal, policy_field
from tonnage.loop.informer import Informer
from tonnage.loop.performer import ActionRecord, Phase, log_record
from tonnage.model.actions.action import Action
from tonnage.model.actions.cluster import (
    ApplyConfigMap,
    ApplyObject,
    ApplyValidation,
    DeleteObject,
    EvictPod,
    PatchDriverStatus,
    PatchGpuClusterStatus,
    PatchNode,
)
from tonnage.ports.clock import Clock

_LASTS_S: Final = 180.0
"""What is refused is tried again within a minute; later it is not wanted any more."""


class RefusedWrites:
    """Takes the performer's records. `on_change` is called when a subject is refused, or not any more."""

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._refused: dict[str, tuple[RefusedRequest, float]] = {}
        self._copies: list[Informer[Any]] = []

    def watch(self, copies: Iterable[Informer[Any]]) -> None:
        """Speak also of these copies, where the API server does not let them be read."""
        self._copies += copies

    def record(self, record: ActionRecord) -> None:
        """Note what became of an action."""
        log_record(record)
        subject = _subject(record.action)
        if not subject or record.phase is Phase.BEGUN:
            return
        before = self._refused.pop(subject, None)
        if record.phase is Phase.FAILED and is_refusal(record.code):
            kind, name = subject.split(" ", 1)
            field = policy_field(kind, name.rpartition("/")[2], record.code)
            request = RefusedRequest(subject, record.why, record.code, field=field)
            self._refused[subject] = request, self._clock.monotonic()
        if (subject in self._refused) != (before is not None):
            self._on_change()

    def current(self) -> list[RefusedRequest]:
        """What is refused now, by subject."""
        now = self._clock.monotonic()
        self._refused = {
            subject: entry for subject, entry in self._refused.items() if now - entry[1] < _LASTS_S
        }
        unread = [
            RefusedRequest(f"the list of {copy.kind.plural}", refusal.message, refusal.code)
            for copy in self._copies
            if (refusal := copy.refusal) is not None
        ]
        return [*unread, *(self._refused[subject][0] for subject in sorted(self._refused))]


def _subject(action: Action) -> str:
    """The object that is written; empty for those of which nobody needs to be told here."""
    match action:
        case PatchNode(node):
            return f"Node {node}"
        case ApplyConfigMap(namespace, name):
            return f"ConfigMap {namespace}/{name}"
        case ApplyObject(kind=kind, name=name, namespace=namespace):
            return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        case DeleteObject(kind, name, _, namespace):
            return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        case ApplyValidation(node):
            return f"NodeGPUStatus {node}"
        case EvictPod(namespace, name):
            return f"Pod {namespace}/{name}"
        case PatchDriverStatus(name):
            return f"NVIDIADriver {name}"
        case PatchGpuClusterStatus(name):
            return f"GPUCluster {name}"
        case _:
            return ""
