"""The status of admission policies."""

from __future__ import annotations

from typing import Any

from tonnage.twin.controllers.policy_status import POLICY, PolicyStatusController

Cluster = Any


async def test_every_change_of_a_policy_is_told_to_be_seen(cluster: Cluster) -> None:
    cluster.start(PolicyStatusController(cluster.api, cluster.clock, cluster.informers).run())
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    await cluster.apply(POLICY, "p", {"spec": spec})
    await cluster.go_on()
    assert (await cluster.api.get(POLICY, "p")).status == {"observedGeneration": 1, "typeChecking": {}}
    await cluster.api.patch(POLICY, "p", {"spec": {"failurePolicy": "Ignore"}})
    await cluster.go_on()
    assert (await cluster.api.get(POLICY, "p")).status["observedGeneration"] == 2
