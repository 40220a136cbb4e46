"""Namespaces on the twin's API server."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.errors import ApiError
from tonnage.twin.controllers.namespaces import ROOT_CA, SERVICE_ACCOUNT, NamespaceController
from tonnage.wire.kinds import CONFIG_MAP, NAMESPACE, POD

Cluster = Any


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(NamespaceController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def _terminating(cluster: Cluster, name: str) -> dict[str, tuple[str, str, str]]:
    namespace = await cluster.api.get(NAMESPACE, name)
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in namespace.status["conditions"]}


async def test_the_first_namespaces_stand_and_have_their_account(running: Cluster) -> None:
    names = {namespace.metadata.name for namespace in await running.all(NAMESPACE)}
    assert names == {"default", "kube-system", "kube-public", "kube-node-lease"}
    accounts = {account.metadata.namespace for account in await running.all(SERVICE_ACCOUNT)}
    assert accounts == names
    await running.api.delete(SERVICE_ACCOUNT, "default", namespace="default")
    await running.clock.advance(1)
    assert await running.api.get(SERVICE_ACCOUNT, "default", "default")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"data": {"ca.crt": "other"}}, id="another certificate"),
        pytest.param({"data": {"more": "x"}}, id="more beside it"),
        pytest.param({"metadata": {"annotations": None}}, id="no word what it is for"),
    ],
)
async def test_what_others_do_to_the_authority_of_a_namespace_is_put_right(
    cluster: Cluster, change: dict[str, Any]
) -> None:
    controller = NamespaceController(cluster.api, cluster.clock, cluster.informers, root_ca="PEM")
    cluster.start(controller.run())
    await cluster.clock.settle()
    before = await cluster.api.get(CONFIG_MAP, ROOT_CA, "default")
    await cluster.api.patch(CONFIG_MAP, ROOT_CA, change, namespace="default")
    await cluster.clock.advance(1)
    after = await cluster.api.get(CONFIG_MAP, ROOT_CA, "default")
    assert after.data == {"ca.crt": "PEM"}
    assert after.metadata.annotations == before.metadata.annotations


async def test_a_namespace_takes_all_its_contents_with_it(running: Cluster) -> None:
    await running.apply(NAMESPACE, "ml", {})
    await running.apply(CONFIG_MAP, "settings", {}, namespace="ml")
    await running.apply(POD, "train", running.template(), namespace="ml")
    await running.clock.settle()
    await running.api.delete(NAMESPACE, "ml")
    await running.clock.advance(5)
    with pytest.raises(ApiError) as refused:
        await running.api.get(NAMESPACE, "ml")
    assert refused.value.code == 404
    for kind in (CONFIG_MAP, POD, SERVICE_ACCOUNT):
        assert [obj for obj in await running.all(kind) if obj.metadata.namespace == "ml"] == []


async def test_what_holds_a_namespace_up_stands_in_its_conditions(running: Cluster) -> None:
    await running.apply(NAMESPACE, "ml", {})
    await running.apply(CONFIG_MAP, "held", {"metadata": {"finalizers": ["a.test/hold"]}}, namespace="ml")
    await running.api.delete(NAMESPACE, "ml")
    await running.clock.advance(5)
    conditions = await _terminating(running, "ml")
    assert conditions["NamespaceContentRemaining"] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: configmaps. has 1 resource instances",
    )
    assert conditions["NamespaceFinalizersRemaining"] == (
        "True",
        "SomeFinalizersRemain",
        "Some content in the namespace has finalizers remaining: a.test/hold in 1 resource instances",
    )
    assert conditions["NamespaceDeletionContentFailure"][0] == "False"
    await running.api.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, namespace="ml")
    await running.clock.advance(5)
    assert "ml" not in {namespace.metadata.name for namespace in await running.all(NAMESPACE)}


async def test_pods_go_before_anything_else_and_are_told_when_they_do_not_in_time(running: Cluster) -> None:
    await running.apply(NAMESPACE, "ml", {})
    await running.apply(CONFIG_MAP, "settings", {}, namespace="ml")
    template = running.template(nodeName="a", terminationGracePeriodSeconds=5)
    await running.apply(POD, "slow", template, namespace="ml")
    await running.api.delete(NAMESPACE, "ml")
    await running.clock.advance(3)
    conditions = await _terminating(running, "ml")
    assert {status for status, _, _ in conditions.values()} == {"False"}
    await running.clock.advance(5)
    conditions = await _terminating(running, "ml")
    why = "unexpected items still remain in namespace: ml for gvr: /v1, Resource=pods"
    assert conditions["NamespaceDeletionContentFailure"] == (
        "True",
        "ContentDeletionFailed",
        f"Failed to delete all resource types, 1 remaining: {why}",
    )
    assert conditions["NamespaceContentRemaining"][0] == "False"
    assert (await running.api.get(CONFIG_MAP, "settings", "ml")).metadata.deletion_timestamp is None
    await running.api.delete(POD, "slow", namespace="ml", grace_period_s=0)
    await running.clock.advance(2)
    assert "ml" not in {namespace.metadata.name for namespace in await running.all(NAMESPACE)}


async def test_what_others_said_of_a_namespace_that_ends_stays(running: Cluster) -> None:
    made = await running.api.create(NAMESPACE, {"metadata": {"generateName": "ml-"}})
    name = made.metadata.name
    assert made.metadata.labels == {"kubernetes.io/metadata.name": name}
    await running.apply(
        CONFIG_MAP, "held", {"metadata": {"finalizers": ["example.org/wait"]}}, namespace=name
    )
    said = {"type": "Audited", "status": "True", "reason": "Asked", "message": "so"}
    await running.api.patch(NAMESPACE, name, {"status": {"conditions": [said]}}, subresource="status")
    await running.clock.settle()
    await running.api.delete(NAMESPACE, name)
    await running.clock.advance(5)
    told = await _terminating(running, name)
    assert told["Audited"] == ("True", "Asked", "so")
    assert len(told) == 6
