"""DisruptionController: what a PodDisruptionBudget allows now.

Source: pkg/controller/disruption of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from tonnage.decide.kubernetes.api.selectors import selector_shown
from tonnage.loop.events import recorder_over
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.refusals import or_none
from tonnage.loop.status_writes import replace_status, tell_of_pod
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import moment_of, timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.budgets.plan import (
    Expected,
    Unknown,
    disrupted,
    expected,
    failed_status,
    needs_scales,
    owners_to_ask,
    status_of,
)
from tonnage.twin.controllers.expected_pods import Scales
from tonnage.twin.controllers.label_selection import takes
from tonnage.wire.kinds import DISRUPTION_BUDGET, POD
from tonnage.wire.objects import Pod, PodDisruptionBudget

_STALE_S: Final = 120.0
"""A pod that was to be disrupted and still stands after so long is not any more."""
_UNMANAGED: Final = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, "
    "the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "
    'To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
)


class DisruptionController:
    """Counts anew whenever a budget or a pod changes."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._events = recorder_over(api, clock, "controllermanager")
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._stale: WorkQueue[Key] = WorkQueue(clock)
        self._shared: WorkQueue[Key] = WorkQueue(clock)
        self._budgets = informers.of(DISRUPTION_BUDGET, self._queue.add)
        self._budgets.add_index("namespace", lambda budget: [budget.metadata.namespace])
        self._pods = informers.of(POD)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._pods.subscribe(self._pod_changed)
        self._scales = Scales(api, informers)

    async def run(self) -> None:
        """Count until cancelled."""
        async with following(self._budgets, self._pods, self._scales) as group:
            group.create_task(work(self._queue, self._reconcile))
            group.create_task(work(self._stale, self._clear))
            group.create_task(work(self._shared, self._tell_shared))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        for pod in (delta.before, delta.after):
            for budget in self._budgets_of(pod) if pod is not None else ():
                self._queue.add(key_of(budget))
        if delta.after is not None and len(self._budgets_of(delta.after)) > 1:
            self._shared.add(key_of(delta.after))
        if delta.after is not None and _stale_in_s(delta.after, self._clock) is not None:
            self._stale.add(key_of(delta.after))

    def _budgets_of(self, pod: Pod) -> list[PodDisruptionBudget]:
        budgets = self._budgets.by_index("namespace", pod.metadata.namespace)
        return [budget for budget in budgets if _selects(budget, pod)]

    async def _tell_shared(self, key: Key) -> None:
        """Say of a pod that it has several budgets, for which nobody can evict it."""
        pod = self._pods.get(key[1], key[0])
        budgets = self._budgets_of(pod) if pod is not None else []
        if pod is not None and len(budgets) > 1:
            which = f'Pod "{key[0]}"/"{key[1]}" matches multiple PodDisruptionBudgets.'
            message = f'{which}  Chose "{budgets[0].metadata.name}" arbitrarily.'
            await self._events.emit(pod, "Warning", "MultiplePodDisruptionBudgets", message)

    async def _reconcile(self, key: Key) -> float | None:
        namespace, name = key
        budget = self._budgets.get(name, namespace)
        if budget is None:
            return None
        pods = [pod for pod in self._pods.by_index("namespace", namespace) if _selects(budget, pod)]
        if not pods:
            await self._events.emit(budget, "Normal", "NoPods", "No matching pods found")
        expected = await self._expected(budget, pods)
        now = self._clock.now()
        if isinstance(expected, Unknown):
            why = f"Failed to calculate the number of expected pods: {expected.why}"
            await self._events.emit(budget, "Warning", "CalculateExpectedPodCountFailed", why)
            await self._write(budget, failed_status(budget, expected.why, now))
            return None
        if expected.unmanaged:
            shown = _UNMANAGED.format(selector_shown(budget.spec.get("selector") or {}))
            await self._events.emit(budget, "Warning", "UnmanagedPods", shown)
        going = disrupted(budget, pods, now)
        for pod in going.overdue:
            why = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            await self._events.emit(pod, "Warning", "NotDeleted", why)
        await self._write(budget, status_of(budget, expected, pods, going, now))
        return going.again_s

    async def _expected(self, budget: PodDisruptionBudget, pods: Iterable[Pod]) -> Expected | Unknown:
        listed = list(pods)
        owners = owners_to_ask(listed) if needs_scales(budget) else {}
        namespace = budget.metadata.namespace
        scales = {uid: await self._scales.of(owner, namespace) for uid, owner in owners.items()}
        return expected(budget, listed, scales)

    async def _write(self, budget: PodDisruptionBudget, status: JsonObject) -> None:
        if status == budget.status:
            return
        # As of its version: the server may just have taken an eviction from it.
        await or_none(replace_status(self._api, DISRUPTION_BUDGET, budget, status))

    async def _clear(self, key: Key) -> float | None:
        """Take the mark from a pod that was to be disrupted and was not."""
        namespace, name = key
        pod = self._pods.get(name, namespace)
        wait = _stale_in_s(pod, self._clock) if pod is not None else None
        if pod is None or wait is None or wait > 0:
            return wait
        condition: JsonObject = {
            "type": "DisruptionTarget",
            "status": "False",
            "lastTransitionTime": timestamp(self._clock.now()),
            "reason": None,
            "message": None,
        }
        await tell_of_pod(self._api, pod, {"conditions": [condition]})
        return None


def _selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether a budget is for a pod: an empty selector takes every pod, none takes no pod."""
    selector = budget.spec.get("selector")
    return selector is not None and takes(selector, pod.metadata.labels)


def _stale_in_s(pod: Pod, clock: Clock) -> float | None:
    """Seconds until the mark of a disruption that does not happen is stale; None where there is none."""
    if pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed"):
        return None
    for condition in pod.status.conditions:
        if (condition.type, condition.status) != ("DisruptionTarget", "True"):
            continue
        if condition.reason == "TerminationByKubelet" or condition.last_transition_time is None:
            return None
        end = moment_of(condition.last_transition_time) + timedelta(seconds=_STALE_S)
        return max((end - clock.now()).total_seconds(), 0.0)
    return None
