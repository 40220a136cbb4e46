"""PodDisruptionBudgetStatus as it should be.

Source: pkg/controller/disruption of k8s.io/kubernetes, poddisruptionbudget of component-helpers (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.loop.ownership import controller_of
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.timestamps import moment_of, timestamp
from tonnage.twin.controllers.deployments.replica_sets import int_or_percent
from tonnage.twin.controllers.pod_state import is_ready
from tonnage.wire.objects import OwnerReference, Pod, PodDisruptionBudget

DELETION_TIMEOUT: Final = timedelta(minutes=2)
"""A pod that was evicted and still stands after so long counts as healthy again."""
ALLOWED: Final = "DisruptionAllowed"


@dataclass(frozen=True, slots=True)
class ExpectedPods:
    """How many pods a controller is asked for, or why that cannot be said. `uid` is who is counted once."""

    uid: str
    replicas: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """Pods that there should be, pods that must be healthy, and whether some pods have no controller."""

    pods: int
    healthy: int
    unmanaged: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why the pods of a budget cannot be counted."""

    why: str


def owners_to_ask(pods: Iterable[Pod]) -> dict[str, OwnerReference]:
    """The controllers of these pods by uid, each once, in the order of the pods."""
    owners: dict[str, OwnerReference] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is not None:
            owners.setdefault(owner.uid, owner)
    return owners


def needs_scales(budget: PodDisruptionBudget) -> bool:
    """Whether the budget counts what controllers are asked for, not the pods that there are."""
    spec = budget.spec
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def expected(
    budget: PodDisruptionBudget, pods: list[Pod], scales: Mapping[str, ExpectedPods | None]
) -> Expected | Unknown:
    """What the budget asks for. `scales` is by the uid of a pod's controller; None: there is no such one."""
    most, least = budget.spec.get("maxUnavailable"), budget.spec.get("minAvailable")
    if most is None and least is None:
        return Expected(0, 0)
    if most is None and not isinstance(least, str):
        return Expected(len(pods), int(least) if isinstance(least, int) else 0)
    total: dict[str, int] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is None:
            continue
        scale = scales.get(owner.uid)
        if scale is None:
            return Unknown(f'found no controllers for pod "{pod.metadata.name}"')
        if scale.problem:
            return Unknown(scale.problem)
        total[scale.uid] = scale.replicas
    count = sum(total.values())
    unmanaged = any(controller_of(pod) is None for pod in pods)
    if most is not None:
        return Expected(count, max(count - int_or_percent(most, count, round_up=True), 0), unmanaged)
    return Expected(count, int_or_percent(least, count, round_up=True), unmanaged)


@dataclass(frozen=True, slots=True)
class Disrupted:
    """Evicted pods that have yet to go, those that were not deleted in time, and when to look again."""

    pods: dict[str, str]
    overdue: tuple[Pod, ...]
    again_s: float | None


def disrupted(budget: PodDisruptionBudget, pods: Iterable[Pod], now: datetime) -> Disrupted:
    """Go through the evictions that the server has noted in the budget's status."""
    noted: Mapping[str, str] = budget.status.get("disruptedPods") or {}
    pending: dict[str, str] = {}
    overdue: list[Pod] = []
    waits: list[float] = []
    for pod in pods:
        since = noted.get(pod.metadata.name)
        if since is None or pod.metadata.deletion_timestamp is not None:
            continue
        wait = (moment_of(since) + DELETION_TIMEOUT - now).total_seconds()
        if wait < 0:
            overdue.append(pod)
        else:
            pending[pod.metadata.name] = since
            waits.append(max(wait, 0.001))
    return Disrupted(pending, tuple(overdue), min(waits, default=None))


def status_of(
    budget: PodDisruptionBudget, expected: Expected, pods: Iterable[Pod], going: Disrupted, now: datetime
) -> JsonObject:
    """The status of a budget whose pods could be counted."""
    healthy = sum(
        is_ready(pod)
        for pod in pods
        if pod.metadata.deletion_timestamp is None and pod.metadata.name not in going.pods
    )
    spare = healthy - expected.healthy
    allowed = spare if expected.pods > 0 and spare > 0 else 0
    status: JsonObject = {"observedGeneration": budget.metadata.generation}
    if going.pods:
        status["disruptedPods"] = dict(going.pods)
    status |= {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": expected.healthy,
        "expectedPods": expected.pods,
    }
    reason = "SufficientPods" if allowed else "InsufficientPods"
    status["conditions"] = _with_condition(budget, allowed > 0, reason, "", now)
    return status


def failed_status(budget: PodDisruptionBudget, why: str, now: datetime) -> JsonObject:
    """The status of a budget whose pods could not be counted: nothing may be evicted, the rest stays."""
    status: JsonObject = {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
        **budget.status,
        "disruptionsAllowed": 0,
    }
    # What the budget was when it was last counted; a failure does not observe.
    status["conditions"] = _with_condition(
        budget, False, "SyncFailed", why, now, observed=budget.status.get("observedGeneration", 0)
    )
    return status


def _with_condition(
    budget: PodDisruptionBudget,
    allowed: bool,
    reason: str,
    message: str,
    now: datetime,
    *,
    observed: int | None = None,
) -> list[JsonValue]:
    old: list[JsonObject] = [dict(condition) for condition in budget.status.get("conditions") or []]
    word = "True" if allowed else "False"
    fresh: JsonObject = {"type": ALLOWED, "status": word, "reason": reason, "message": message}
    generation = budget.metadata.generation if observed is None else observed
    if generation:
        fresh["observedGeneration"] = generation
    for place, condition in enumerate(old):
        if condition.get("type") == ALLOWED:
            since = condition.get("lastTransitionTime") if condition.get("status") == word else timestamp(now)
            old[place] = {**fresh, "lastTransitionTime": since}
            return list(old)
    return [*old, {**fresh, "lastTransitionTime": timestamp(now)}]
