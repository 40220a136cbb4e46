"""Counts in the status of workloads: none below zero, parts no more than the whole.

Source: pkg/apis/{apps,core,policy}/validation (Validate…Status), v1.35.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tonnage.decide.kubernetes.api.problems import invalid
from tonnage.decide.kubernetes.api.validation.conditions import conditions
from tonnage.decide.kubernetes.api.validation.fields import Found, nonnegative
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, mappings, number

_COLLISIONS: Final = "collisionCount"


def _status(
    obj: JsonObject, old: JsonObject, *, counts: str, parts: str = "", ready: str = "readyReplicas"
) -> Found:
    """`counts` are not below zero, `parts` no more than `replicas`; `ready` is how ready ones are called."""
    status, before = mapping(obj, "status"), mapping(old, "status")
    for key in counts.split():
        yield from nonnegative(status, key, "status")
    for key in parts.split():
        if (found := number(status, key)) > number(status, "replicas"):
            yield invalid(f"status.{key}", found, "cannot be greater than status.replicas")
    available = number(status, "availableReplicas")
    if parts and available > number(status, "readyReplicas"):
        yield invalid("status.availableReplicas", available, f"cannot be greater than {ready}")
    known = at(before, _COLLISIONS)
    if _COLLISIONS in counts and isinstance(known, int) and number(status, _COLLISIONS) < known:
        yield invalid(f"status.{_COLLISIONS}", number(status, _COLLISIONS), "cannot be decremented")


_Rule = Callable[[JsonObject, JsonObject], Found]
_LABELED: Final = "fullyLabeledReplicas readyReplicas availableReplicas"
replication_controller: Final[_Rule] = partial(
    _status, counts=f"replicas {_LABELED} observedGeneration", parts=_LABELED
)
replica_set: Final[_Rule] = partial(
    _status, counts=f"replicas {_LABELED} observedGeneration terminatingReplicas", parts=_LABELED
)
deployment: Final[_Rule] = partial(
    _status,
    counts="observedGeneration replicas updatedReplicas readyReplicas availableReplicas unavailableReplicas "
    f"terminatingReplicas {_COLLISIONS}",
    parts="updatedReplicas readyReplicas availableReplicas",
)
stateful_set: Final[_Rule] = partial(
    _status,
    counts="replicas readyReplicas currentReplicas updatedReplicas availableReplicas observedGeneration "
    f"{_COLLISIONS}",
    parts="readyReplicas currentReplicas updatedReplicas availableReplicas",
    ready="status.readyReplicas",
)
daemon_set: Final[_Rule] = partial(
    _status,
    counts="currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady observedGeneration "
    f"updatedNumberScheduled numberAvailable numberUnavailable {_COLLISIONS}",
)


def disruption_budget(obj: JsonObject, old: JsonObject) -> Found:
    """The status of a PodDisruptionBudget."""
    yield from conditions(mappings(obj, "status", "conditions"), "status.conditions")
    yield from _status(obj, old, counts="disruptionsAllowed currentHealthy desiredHealthy expectedPods")
