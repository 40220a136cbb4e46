"""Roles that gather the rules of others."""

from __future__ import annotations

from typing import Any

from tonnage.twin.controllers.role_aggregation import RoleAggregationController
from tonnage.wire.kinds import CLUSTER_ROLE

Cluster = Any
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
GPUS = {"apiGroups": ["tonnage.dev"], "resources": ["gpus"], "verbs": ["list"]}


async def rules_of(cluster: Cluster, name: str) -> list[Any]:
    return (await cluster.api.get(CLUSTER_ROLE, name)).rules or []


async def test_a_role_has_the_rules_of_those_that_it_selects_for_as_long_as_it_does(cluster: Cluster) -> None:
    cluster.start(RoleAggregationController(cluster.api, cluster.clock, cluster.informers).run())
    gathers = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    await cluster.apply(CLUSTER_ROLE, "all", {"aggregationRule": gathers, "rules": [GPUS]})
    await cluster.apply(
        CLUSTER_ROLE, "b", {"metadata": {"name": "b", "labels": {"to": "all"}}, "rules": [PODS, GPUS]}
    )
    await cluster.apply(
        CLUSTER_ROLE, "a", {"metadata": {"name": "a", "labels": {"to": "all"}}, "rules": [GPUS]}
    )
    await cluster.apply(CLUSTER_ROLE, "other", {"rules": [PODS]})
    await cluster.go_on()
    assert await rules_of(cluster, "all") == [GPUS, PODS]
    await cluster.api.delete(CLUSTER_ROLE, "b")
    await cluster.go_on()
    assert await rules_of(cluster, "all") == [GPUS]


async def test_the_default_roles_gather_what_upstreams_do(cluster: Cluster) -> None:
    cluster.start(RoleAggregationController(cluster.api, cluster.clock, cluster.informers).run())
    assert await rules_of(cluster, "admin") == []
    await cluster.go_on()
    admin, edit, view = [await rules_of(cluster, name) for name in ("admin", "edit", "view")]
    assert all(rule in edit for rule in view), "view's are part of edit's"
    assert all(rule in admin for rule in edit), "edit's are part of admin's"
    assert {"escalate", "bind"}.isdisjoint(verb for rule in admin for verb in rule["verbs"])
