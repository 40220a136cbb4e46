"""Whether FlowSchemas name levels that are there."""

from __future__ import annotations

from typing import Any

from tonnage.twin.controllers.flow_levels import FLOW_SCHEMA, LEVEL, FlowLevelsController

Cluster = Any


async def told(cluster: Cluster) -> tuple[str, str, str]:
    await cluster.go_on()
    [one] = (await cluster.api.get(FLOW_SCHEMA, "mine")).status["conditions"]
    return one["type"], one["status"], one["message"].rpartition('"')[2]


async def test_a_schema_dangles_for_as_long_as_its_level_is_missing(cluster: Cluster) -> None:
    cluster.start(FlowLevelsController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.apply(FLOW_SCHEMA, "mine", {"spec": {"priorityLevelConfiguration": {"name": "slow"}}})
    assert await told(cluster) == ("Dangling", "True", " but there is no such object")
    limited = {"limitResponse": {"type": "Reject"}}
    await cluster.apply(LEVEL, "slow", {"spec": {"type": "Limited", "limited": limited}})
    assert await told(cluster) == ("Dangling", "False", " and it exists")
    await cluster.api.delete(LEVEL, "slow")
    assert await told(cluster) == ("Dangling", "True", " but there is no such object")
