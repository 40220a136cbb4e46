"""ClusterRoleAggregationController: a ClusterRole with selectors has the rules of all that they select.

Source: k8s.io/kubernetes/pkg/controller/clusterroleaggregation (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable

from tonnage.decide.kubernetes.api.selectors import label_requirements, matches_labels
from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject, JsonValue
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.wire.kinds import CLUSTER_ROLE
from tonnage.wire.objects import ClusterRole


class RoleAggregationController:
    """Gathers anew whenever a ClusterRole changes."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._roles = informers.of(CLUSTER_ROLE)
        self._roles.subscribe(self._changed)

    async def run(self) -> None:
        """Gather until cancelled."""
        async with following(self._roles) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _changed(self, delta: Delta[ClusterRole]) -> None:
        if delta.before is not None and delta.after is not None and _same(delta.before, delta.after):
            return
        for role in self._roles:
            if role.aggregation_rule is not None:
                self._queue.add(key_of(role))

    async def _reconcile(self, key: Key) -> None:
        role = self._roles.get(key[1])
        if role is None or role.aggregation_rule is None:
            return
        rules = gathered(role, self._roles)
        if rules == (role.rules or []):
            return
        whole: JsonObject = {"metadata": {"name": key[1]}, **({"rules": rules} if rules else {})}
        await self._api.patch(CLUSTER_ROLE, key[1], whole, patch_type=PatchType.APPLY)


def gathered(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[JsonValue]:
    """The rules that a role gathers from the others, each once, in the order of selectors and names."""
    others = sorted(
        (candidate for candidate in roles if candidate.metadata.name != role.metadata.name),
        key=lambda candidate: candidate.metadata.name,
    )
    rules: list[JsonValue] = []
    for selector in (role.aggregation_rule or {}).get("clusterRoleSelectors") or []:
        requirements = label_requirements(selector)
        for candidate in others:
            if matches_labels(requirements, candidate.metadata.labels):
                rules += [rule for rule in candidate.rules or [] if rule not in rules]
    return rules


def _same(before: ClusterRole, after: ClusterRole) -> bool:
    """Whether nothing has changed that counts."""
    return (before.metadata.labels, before.rules, before.aggregation_rule) == (
        after.metadata.labels,
        after.rules,
        after.aggregation_rule,
    )
