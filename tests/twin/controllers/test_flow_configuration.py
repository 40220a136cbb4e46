"""What every server has of priority and fairness stays."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.twin.controllers.flow_configuration import FlowConfigurationController
from tonnage.twin.controllers.flow_levels import FLOW_SCHEMA, LEVEL

Cluster = Any
UPDATED = "apf.kubernetes.io/autoupdate-spec"


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(FlowConfigurationController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def test_what_is_deleted_comes_back_as_it_was(running: Cluster) -> None:
    for kind, name in ((FLOW_SCHEMA, "probes"), (LEVEL, "system"), (LEVEL, "exempt")):
        before = await running.api.get(kind, name)
        await running.api.delete(kind, name)
        await running.clock.advance(61)
        after = await running.api.get(kind, name)
        assert (after.spec, after.metadata.annotations) == (before.spec, before.metadata.annotations)
        assert after.metadata.uid != before.metadata.uid


@pytest.mark.parametrize(
    ("name", "annotation", "stays", "told"),
    [
        pytest.param("probes", "true", False, "true", id="one that is kept up to date"),
        pytest.param("probes", "false", True, "false", id="one that people have made their own"),
        pytest.param("probes", None, True, "false", id="one changed before anybody said whose it is"),
        pytest.param("catch-all", "false", False, "true", id="one that nobody may change"),
    ],
)
async def test_what_is_changed_is_put_right_unless_people_may(
    running: Cluster, name: str, annotation: str | None, stays: bool, told: str
) -> None:
    before = await running.api.get(FLOW_SCHEMA, name)
    level = {"priorityLevelConfiguration": {"name": "global-default"}} if name != "catch-all" else {}
    said = {"metadata": {"annotations": {UPDATED: annotation}}, "spec": level}
    await running.api.patch(FLOW_SCHEMA, name, said)
    await running.clock.advance(61)
    after = await running.api.get(FLOW_SCHEMA, name)
    assert (after.spec != before.spec, after.metadata.annotations[UPDATED]) == (stays, told)


async def test_what_only_claims_to_be_the_servers_is_removed(running: Cluster) -> None:
    level = {"priorityLevelConfiguration": {"name": "system"}}
    for name, said in (("mine", {}), ("ours", {UPDATED: "false"}), ("theirs", {UPDATED: "true"})):
        await running.apply(FLOW_SCHEMA, name, {"metadata": {"annotations": said}, "spec": level})
    await running.clock.advance(61)
    names = {one.metadata.name for one in await running.all(FLOW_SCHEMA)}
    assert names & {"mine", "ours", "theirs"} == {"mine", "ours"}
