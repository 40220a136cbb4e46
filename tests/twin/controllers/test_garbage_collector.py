"""Owners and dependants on the twin's API server."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.controllers.garbage_collector import GarbageCollector
from tonnage.wire.kinds import CONFIG_MAP, NAMESPACE
from tonnage.wire.objects import ConfigMap

Cluster = Any


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(GarbageCollector(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.advance(0)
    return cluster


async def _map(cluster: Cluster, name: str, *owners: ConfigMap, block: bool = False) -> ConfigMap:
    references: list[JsonObject] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner.metadata.name,
            "uid": owner.metadata.uid,
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    made = await cluster.apply(CONFIG_MAP, name, {"metadata": {"ownerReferences": references}})
    assert isinstance(made, ConfigMap)
    return made


async def _names(cluster: Cluster) -> set[str]:
    return {obj.metadata.name for obj in await cluster.all(CONFIG_MAP, "default")}


async def _delete(cluster: Cluster, name: str, propagation: str = "Background") -> None:
    await cluster.api.delete(CONFIG_MAP, name, namespace="default", propagation=propagation)
    await cluster.clock.advance(1)


async def test_dependants_go_down_the_tree_once_their_last_owner_is_gone(running: Cluster) -> None:
    root = await _map(running, "root")
    other = await _map(running, "other")
    child = await _map(running, "child", root)
    await _map(running, "grandchild", child)
    await _map(running, "shared", root, other)
    await running.clock.advance(1)
    assert await _names(running) == {"root", "other", "child", "grandchild", "shared"}
    await _delete(running, "root")
    assert await _names(running) == {"other", "shared"}
    shared = await running.api.get(CONFIG_MAP, "shared", "default")
    assert [owner.name for owner in shared.metadata.owner_references] == ["other"]
    await _delete(running, "other")
    assert await _names(running) == set()


async def test_a_dependant_made_after_its_owner_went_goes_too(running: Cluster) -> None:
    root = await _map(running, "root")
    await _delete(running, "root")
    await _map(running, "late", root)
    await running.clock.advance(1)
    assert await _names(running) == set()


async def test_an_owner_of_another_uid_is_another_object(running: Cluster) -> None:
    root = await _map(running, "root")
    await _map(running, "child", root)
    await running.api.delete(CONFIG_MAP, "root", namespace="default")
    await _map(running, "root")
    await running.clock.advance(1)
    assert await _names(running) == {"root"}


async def test_orphans_stay_and_forget_their_owner(running: Cluster) -> None:
    root = await _map(running, "root")
    await _map(running, "child", root)
    await running.clock.advance(1)
    await _delete(running, "root", "Orphan")
    assert await _names(running) == {"child"}
    child = await running.api.get(CONFIG_MAP, "child", "default")
    assert child.metadata.owner_references == []


async def test_in_the_foreground_the_owner_goes_after_all_that_block_it(running: Cluster) -> None:
    root = await _map(running, "root")
    child = await _map(running, "child", root, block=True)
    await _map(running, "grandchild", child, block=True)
    held = await _map(running, "held", root, block=True)
    await running.api.patch(
        CONFIG_MAP, held.metadata.name, {"metadata": {"finalizers": ["a.test/hold"]}}, namespace="default"
    )
    await running.clock.advance(1)
    await _delete(running, "root", "Foreground")
    assert await _names(running) == {"root", "held"}
    await running.api.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, namespace="default")
    await running.clock.advance(1)
    assert await _names(running) == set()


async def test_an_owner_of_a_kind_that_nobody_serves_is_left_alone(running: Cluster) -> None:
    reference = {"apiVersion": "b.test/v1", "kind": "Unknown", "name": "x", "uid": "u"}
    await running.apply(CONFIG_MAP, "child", {"metadata": {"ownerReferences": [reference]}})
    await running.clock.advance(5)
    assert await _names(running) == {"child"}
    lost: Any = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "v"}
    await running.apply(CONFIG_MAP, "other", {"metadata": {"ownerReferences": [reference, lost]}})
    await running.clock.advance(5)
    child = await running.api.get(CONFIG_MAP, "other", "default")
    assert len(child.metadata.owner_references) == 2


async def test_what_has_no_namespace_is_left_alone_by_owners_that_have_one(running: Cluster) -> None:
    owner = await _map(running, "owner")
    for name, uid in (("known", owner.metadata.uid), ("unknown", "u")):
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        await running.api.create(NAMESPACE, {"metadata": {"name": name, "ownerReferences": [reference]}})
    await running.clock.advance(5)
    assert {"known", "unknown"} <= {one.metadata.name for one in await running.all(NAMESPACE)}
    where = f"namespace: , name: owner, uid: {owner.metadata.uid}"
    told = f'ownerRef [v1/ConfigMap, {where}] does not exist in namespace ""'
    assert await running.events("OwnerRefInvalidNamespace") == [told]


async def test_an_owner_in_another_namespace_is_told_and_counts_for_nothing(running: Cluster) -> None:
    body = {"metadata": {"name": "far"}}
    far = await running.api.create(CONFIG_MAP, body, namespace="kube-system")
    await _map(running, "child", far)
    await running.clock.settle()
    assert await _names(running) == set()
    where = f"namespace: default, name: far, uid: {far.metadata.uid}"
    told = f'ownerRef [v1/ConfigMap, {where}] does not exist in namespace "default"'
    assert await running.events("OwnerRefInvalidNamespace") == [told]


async def test_owners_in_a_circle_go_together(running: Cluster) -> None:
    first = await _map(running, "first")
    second = await _map(running, "second", first, block=True)
    back = {"apiVersion": "v1", "kind": "ConfigMap", "name": "second", "uid": second.metadata.uid}
    patch: JsonObject = {"metadata": {"ownerReferences": [{**back, "blockOwnerDeletion": True}]}}
    await running.api.patch(CONFIG_MAP, "first", patch, namespace="default")
    await running.clock.advance(1)
    await _delete(running, "first", "Foreground")
    assert await _names(running) == set()
