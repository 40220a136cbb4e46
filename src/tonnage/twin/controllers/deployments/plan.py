"""What a Deployment does next: pure, from its ReplicaSets to the actions of one step.

Source: k8s.io/kubernetes/pkg/controller/deployment (v1.35), for the order and the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tonnage.model.whole_numbers import whole_number
from tonnage.twin.controllers.deployments.replica_sets import (
    DESIRED,
    MAXIMUM,
    RolloutLimits,
    Sets,
    limits_of,
    revision_of,
)
from tonnage.wire.objects import Deployment, ReplicaSet


@dataclass(frozen=True, slots=True)
class CreateSet:
    """Make the ReplicaSet of the present template."""

    replicas: int


@dataclass(frozen=True, slots=True)
class ScaleSet:
    """Give a ReplicaSet another size."""

    target: ReplicaSet
    replicas: int


@dataclass(frozen=True, slots=True)
class DeleteSet:
    """Forget an old revision."""

    target: ReplicaSet


Action: TypeAlias = CreateSet | ScaleSet | DeleteSet


def plan(deployment: Deployment, sets: Sets, *, old_pods_remain: bool) -> tuple[Action, ...]:
    """The actions of one step; after they show, the next step is planned. Empty when nothing is left to do.

    `old_pods_remain`: an old ReplicaSet still has a pod that has not finished (what Recreate waits for).
    """
    if deployment.metadata.deletion_timestamp is not None:
        return ()
    if deployment.spec.paused or _was_resized(deployment, sets):
        actions = _scale(deployment, sets)
        if deployment.spec.paused:
            return actions or _history(deployment, sets)
        if actions:
            return actions
    if deployment.spec.strategy.get("type") == "Recreate":
        actions = _recreate(deployment, sets, old_pods_remain)
    else:
        actions = _roll(deployment, sets)
    if actions or not is_complete(deployment, sets):
        return actions
    return _history(deployment, sets)


def is_complete(deployment: Deployment, sets: Sets) -> bool:
    """Whether all pods are of the new set, and available, and no others are left."""
    replicas = deployment.spec.replicas
    return (
        sets.new is not None
        and sets.new.status.replicas == replicas
        and sets.new.status.available_replicas == replicas
        and sum(s.status.replicas for s in sets.all) == replicas
    )


def _was_resized(deployment: Deployment, sets: Sets) -> bool:
    replicas = str(deployment.spec.replicas)
    return any(
        s.metadata.annotations.get(DESIRED, replicas) != replicas for s in sets.all if s.spec.replicas > 0
    )


def _recreate(deployment: Deployment, sets: Sets, old_pods_remain: bool) -> tuple[Action, ...]:
    down = tuple(ScaleSet(old, 0) for old in sets.old if old.spec.replicas > 0)
    if down or old_pods_remain:
        return down
    return _grow_new(deployment, sets, deployment.spec.replicas)


def _grow_new(deployment: Deployment, sets: Sets, replicas: int) -> tuple[Action, ...]:
    if sets.new is None:
        return (CreateSet(replicas),)
    return (ScaleSet(sets.new, replicas),) if sets.new.spec.replicas != replicas else ()


def _roll(deployment: Deployment, sets: Sets) -> tuple[Action, ...]:
    limits = limits_of(deployment)
    replicas = deployment.spec.replicas
    present = 0 if sets.new is None else sets.new.spec.replicas
    if present > replicas:
        return _grow_new(deployment, sets, replicas)
    room = replicas + limits.surge - sum(s.spec.replicas for s in sets.all)
    grown = present + max(min(room, replicas - present), 0)
    return _grow_new(deployment, sets, grown) or _shrink_old(deployment, sets, limits)


def _shrink_old(deployment: Deployment, sets: Sets, limits: RolloutLimits) -> tuple[Action, ...]:
    """Take away old pods: those that are not available, then as many as may be missed; oldest set first."""
    if sets.new is None:
        return ()
    minimum = deployment.spec.replicas - limits.unavailable
    new_unavailable = sets.new.spec.replicas - sets.new.status.available_replicas
    budget = sum(s.spec.replicas for s in sets.all) - minimum - new_unavailable
    if budget <= 0:
        return ()
    sizes = {old.metadata.name: old.spec.replicas for old in sets.old}
    for old in sets.old:
        unhealthy = max(old.spec.replicas - old.status.available_replicas, 0)
        removed = min(budget, unhealthy)
        sizes[old.metadata.name] -= removed
        budget -= removed
    spare = sum(s.status.available_replicas for s in sets.all) - minimum
    for old in sets.old:
        removed = min(max(spare, 0), sizes[old.metadata.name])
        sizes[old.metadata.name] -= removed
        spare -= removed
    return tuple(
        ScaleSet(old, sizes[old.metadata.name])
        for old in sets.old
        if sizes[old.metadata.name] != old.spec.replicas
    )


def _scale(deployment: Deployment, sets: Sets) -> tuple[Action, ...]:
    """Follow a change of `replicas`: the only active set takes it all; amid a rollout all share it."""
    replicas = deployment.spec.replicas
    active = [s for s in sets.all if s.spec.replicas > 0]
    if len(active) <= 1:
        only = active[0] if active else sets.new or (sets.old[-1] if sets.old else None)
        if only is None or (only.spec.replicas == replicas and not _stale(deployment, only)):
            return ()
        return (ScaleSet(only, replicas),)
    if sets.new is not None and _saturated(deployment, sets.new):
        return tuple(ScaleSet(old, 0) for old in sets.old if old.spec.replicas > 0)
    if deployment.spec.strategy.get("type") == "Recreate":
        return ()
    return _share(deployment, active)


def _stale(deployment: Deployment, replica_set: ReplicaSet) -> bool:
    return replica_set.metadata.annotations.get(DESIRED) != str(deployment.spec.replicas)


def _saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    replicas = deployment.spec.replicas
    return (
        new.spec.replicas == replicas
        and new.metadata.annotations.get(DESIRED) == str(replicas)
        and new.status.available_replicas == replicas
    )


def _share(deployment: Deployment, active: list[ReplicaSet]) -> tuple[Action, ...]:
    """Proportional scaling: what is to be added or taken is split by the sets' sizes, the rest to the first.

    Larger sets come first; of equal ones the newest when adding, the oldest when taking.
    """
    total = sum(s.spec.replicas for s in active)
    allowed = deployment.spec.replicas + limits_of(deployment).surge if deployment.spec.replicas > 0 else 0
    to_add = allowed - total
    by_age = sorted(active, key=lambda s: s.metadata.creation_timestamp or "", reverse=to_add > 0)
    ordered = sorted(by_age, key=lambda s: -s.spec.replicas)
    sizes: list[int] = []
    added = 0
    for replica_set in ordered:
        size = replica_set.spec.replicas
        if to_add:
            share = _proportion(replica_set, allowed, to_add, added)
            size += share
            added += share
        sizes.append(size)
    if to_add:
        sizes[0] = max(sizes[0] + to_add - added, 0)
    return tuple(ScaleSet(s, size) for s, size in zip(ordered, sizes, strict=True))


def _proportion(replica_set: ReplicaSet, allowed: int, to_add: int, added: int) -> int:
    size = replica_set.spec.replicas
    if size == 0 or to_add == added:
        return 0
    text = replica_set.metadata.annotations.get(MAXIMUM, "")
    before = whole_number(text) or allowed
    share = _rounded(size * allowed, before) - size
    left = to_add - added
    return min(share, left) if to_add > 0 else max(share, left)


def _rounded(numerator: int, denominator: int) -> int:
    """The quotient rounded half up.

    >>> _rounded(5, 2), _rounded(4, 3)
    (3, 1)
    """
    return (2 * numerator + denominator) // (2 * denominator)


def _history(deployment: Deployment, sets: Sets) -> tuple[Action, ...]:
    """Old sets beyond the history limit, lowest revision first. A set with pods or unseen changes is kept."""
    surplus = len(sets.old) - deployment.spec.revision_history_limit
    if surplus <= 0:
        return ()
    by_revision = sorted(sets.old, key=lambda s: (revision_of(s), s.metadata.creation_timestamp or ""))
    return tuple(DeleteSet(old) for old in by_revision[:surplus] if _idle(old))


def _idle(old: ReplicaSet) -> bool:
    return (
        old.spec.replicas == 0
        and old.status.replicas == 0
        and old.metadata.generation <= old.status.observed_generation
        and old.metadata.deletion_timestamp is None
    )
