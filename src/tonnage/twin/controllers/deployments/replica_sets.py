"""The ReplicaSets of a Deployment: which is the new one, their revisions, the body of the next."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.loop.ownership import controller_reference
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.whole_numbers import whole_number
from tonnage.twin.controllers.pod_templates import template_hash, with_labels, without_label
from tonnage.wire.kinds import DEPLOYMENT, REPLICA_SET
from tonnage.wire.objects import Deployment, ReplicaSet

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAXIMUM: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)


_MOST_HISTORY: Final = 2000
"""Characters of the annotation; the oldest revisions are forgotten first."""


@dataclass(frozen=True, slots=True)
class Sets:
    """A Deployment's ReplicaSets. `old` is in order of creation, `new` has the present template."""

    new: ReplicaSet | None
    old: tuple[ReplicaSet, ...]

    @property
    def all(self) -> tuple[ReplicaSet, ...]:
        """The new one first."""
        return (self.new, *self.old) if self.new is not None else self.old


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """How many pods a rolling update may add, and how many it may miss, in pods."""

    surge: int
    unavailable: int


def sets_of(deployment: Deployment, owned: Iterable[ReplicaSet]) -> Sets:
    """Tell the new set from the old ones; of several with the present template the oldest is the new one."""
    ordered = sorted(owned, key=lambda s: (s.metadata.creation_timestamp or "", s.metadata.name))
    template = without_label(deployment.spec.template, HASH_LABEL)
    new = next((s for s in ordered if without_label(s.spec.template, HASH_LABEL) == template), None)
    return Sets(new, tuple(s for s in ordered if s is not new))


def limits_of(deployment: Deployment) -> RolloutLimits:
    """The rolling update's limits; surge rounds up, unavailable down, and never are both zero.

    A strategy without rolling parameters (Recreate) has neither.
    """
    if deployment.spec.strategy.get("type") == "Recreate":
        return RolloutLimits(0, 0)
    rolling = deployment.spec.strategy.get("rollingUpdate") or {}
    replicas = deployment.spec.replicas
    surge = int_or_percent(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = min(
        int_or_percent(rolling.get("maxUnavailable", "25%"), replicas, round_up=False), max(replicas, 0)
    )
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return RolloutLimits(surge, unavailable)


def int_or_percent(value: JsonValue, total: int, *, round_up: bool) -> int:
    """A count, or a share of `total` written as `25%`. What is neither counts as zero.

    >>> int_or_percent("25%", 5, round_up=True), int_or_percent("25%", 5, round_up=False)
    (2, 1)
    """
    if isinstance(value, bool):
        return 0
    if isinstance(value, int):
        return max(value, 0)
    percent = whole_number(value[:-1]) if isinstance(value, str) and value.endswith("%") else None
    if percent is not None:
        share = percent * total / 100
        return math.ceil(share) if round_up else math.floor(share)
    return 0


def revision_of(replica_set: ReplicaSet | Deployment) -> int:
    """The revision that an object carries, 0 without a readable one."""
    text = replica_set.metadata.annotations.get(REVISION, "")
    return whole_number(text) or 0


def next_revision(sets: Sets) -> int:
    """The revision of the new set: one more than the old ones' highest."""
    return max((revision_of(old) for old in sets.old), default=0) + 1


def with_revision(history: str, revision: str) -> str:
    """The revisions that a set had before, one more at their end.

    >>> with_revision("1,3", "5")
    '1,3,5'
    """
    revisions = [*filter(None, history.split(",")), revision]
    while len(",".join(revisions)) > _MOST_HISTORY and len(revisions) > 1:
        del revisions[0]
    return ",".join(revisions)


def scale_annotations(deployment: Deployment) -> dict[str, str]:
    """What a set remembers of its Deployment's size, so that a change of it can be told from a rollout."""
    surge = limits_of(deployment).surge
    return {
        DESIRED: str(deployment.spec.replicas),
        MAXIMUM: str(deployment.spec.replicas + surge),
    }


def copied_annotations(deployment: Deployment) -> dict[str, str]:
    """The Deployment's own annotations, which its new set takes over."""
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _NOT_COPIED}


def new_set_body(deployment: Deployment, replicas: int, revision: int) -> JsonObject:
    """The ReplicaSet for the present template, named after the template's hash."""
    template: JsonObject = dict(deployment.spec.template)
    digest = template_hash(without_label(template, HASH_LABEL), deployment.status.collision_count)
    labels = _labels(template)
    selector = deployment.spec.selector
    expressions: list[JsonValue] = [
        {"key": e.key, "operator": e.operator, **({"values": list(e.values)} if e.values else {})}
        for e in selector.match_expressions
    ]
    annotations: JsonObject = {
        **copied_annotations(deployment),
        REVISION: str(revision),
        **scale_annotations(deployment),
    }
    match: JsonObject = {"matchLabels": {**selector.match_labels, HASH_LABEL: digest}}
    if expressions:
        match["matchExpressions"] = expressions
    return {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": {
            "name": f"{deployment.metadata.name}-{digest}",
            "namespace": deployment.metadata.namespace,
            "labels": {**labels, HASH_LABEL: digest},
            "annotations": annotations,
            "ownerReferences": [controller_reference(deployment, DEPLOYMENT)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": match,
            "template": with_labels(template, {HASH_LABEL: digest}),
        },
    }


def new_set_patch(deployment: Deployment, sets: Sets) -> JsonObject | None:
    """What the new set lacks of its Deployment's annotations, revision and minReadySeconds."""
    new = sets.new
    if new is None:
        return None
    desired = copied_annotations(deployment)
    if revision_of(new) < next_revision(sets):
        desired[REVISION] = str(next_revision(sets))
        if REVISION in new.metadata.annotations:
            before = new.metadata.annotations.get(HISTORY, "")
            desired[HISTORY] = with_revision(before, new.metadata.annotations[REVISION])
    annotations: JsonObject = {
        key: value for key, value in desired.items() if new.metadata.annotations.get(key) != value
    }
    patch: JsonObject = {"metadata": {"annotations": annotations}} if annotations else {}
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        patch["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
    return patch or None


def _labels(template: JsonObject) -> JsonObject:
    metadata = template.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}
