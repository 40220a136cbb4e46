"""ResourceQuotas on the twin: what they refuse, and what the controller says is used (ADM-9, ADM-10)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from tonnage.decide.kubernetes.admission import quota_usage
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.controllers.quotas.resource_quota import ResourceQuotaController
from tonnage.twin.controllers.replicas.replica_set import ReplicaSetController
from tonnage.wire.kinds import (
    CONFIG_MAP,
    EVENT,
    POD,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_QUOTA,
    SERVICE,
    VOLUME_CLAIM,
)

Cluster = Any
GPU = "nvidia.com/gpu"


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(ResourceQuotaController(cluster.api, cluster.clock, cluster.informers).run())
    cluster.start(ReplicaSetController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


def asking(limits: JsonObject, **spec: Any) -> JsonObject:
    return {"spec": {"containers": [{"name": "main", "image": "a", "resources": {"limits": limits}}], **spec}}


async def quota(cluster: Cluster, hard: JsonObject, **spec: Any) -> None:
    await cluster.apply(RESOURCE_QUOTA, "gpus", {"spec": {"hard": hard, **spec}})


async def refused(cluster: Cluster, name: str, body: JsonObject) -> str:
    with pytest.raises(ApiError) as error:
        await cluster.apply(POD, name, body)
    assert error.value.code == 403
    return error.value.message


async def used(cluster: Cluster) -> Any:
    await cluster.clock.advance(1)
    return (await cluster.api.get(RESOURCE_QUOTA, "gpus", "default")).status


async def test_pods_fit_until_the_quota_is_used_up(running: Cluster) -> None:
    """ADM-10."""
    await quota(running, {f"requests.{GPU}": "4", "pods": "10"})
    await running.apply(POD, "a", asking({GPU: 3}))
    assert await refused(running, "b", asking({GPU: 2})) == (
        'pods "b" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=2, '
        "used: requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=4"
    )
    await running.apply(POD, "c", asking({GPU: 1}))
    assert await used(running) == {
        "hard": {f"requests.{GPU}": "4", "pods": "10"},
        "used": {f"requests.{GPU}": "4", "pods": "2"},
    }
    await running.api.delete(POD, "a", namespace="default", grace_period_s=0)
    await used(running)
    await running.apply(POD, "b", asking({GPU: 2}))
    assert (await used(running))["used"][f"requests.{GPU}"] == "3"


async def test_limits_of_devices_are_kept_as_a_limit_and_never_enforced(running: Cluster) -> None:
    """ADM-9: nothing counts them, so nothing is ever used of them."""
    await quota(running, {f"limits.{GPU}": "1"})
    await running.apply(POD, "a", asking({GPU: 8}))
    assert await used(running) == {"hard": {f"limits.{GPU}": "1"}}


async def test_mig_and_shared_devices_have_keys_of_their_own(running: Cluster) -> None:
    """ADM-9."""
    await quota(running, {f"requests.{GPU}": "0"})
    await running.apply(POD, "part", asking({"nvidia.com/mig-1g.10gb": 1}))
    await running.apply(POD, "share", asking({f"{GPU}.shared": 1}))
    assert "exceeded quota" in await refused(running, "whole", asking({GPU: 1}))


async def test_a_replica_set_says_why_its_pods_do_not_come_to_be(running: Cluster) -> None:
    """ADM-10: the pod never exists; its owner has the Event and the condition."""
    await quota(running, {f"requests.{GPU}": "1"})
    template = {"metadata": {"labels": {"app": "web"}}, **asking({GPU: 1})}
    await running.apply(REPLICA_SET, "web", running.workload(2, template=template))
    await running.clock.advance(1)
    assert len(await running.all(POD)) == 1
    [condition] = (await running.api.get(REPLICA_SET, "web", "default")).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
    text = "exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=1"
    assert text in condition.message
    failed = [e for e in await running.all(EVENT) if e.reason == "FailedCreate"]
    assert {e.involved_object.name for e in failed} == {"web"}
    assert text in failed[0].message
    await running.api.patch(
        RESOURCE_QUOTA, "gpus", {"spec": {"hard": {f"requests.{GPU}": "2"}}}, namespace="default"
    )
    await running.clock.advance(60)
    assert len(await running.all(POD)) == 2


async def test_a_quota_on_cpu_makes_containers_declare_it(running: Cluster) -> None:
    await quota(running, {"requests.cpu": "4", "limits.memory": "2Gi"})
    told = await refused(running, "a", asking({"cpu": "1"}))
    assert "failed quota: gpus: must specify limits.memory for: main" in told
    await running.apply(POD, "a", asking({"cpu": "500m", "memory": "1Gi"}))
    assert (await used(running))["used"] == {"requests.cpu": "500m", "limits.memory": "1Gi"}


async def test_a_quota_with_a_scope_counts_the_pods_in_it(running: Cluster) -> None:
    await quota(running, {"pods": "1"}, scopes=["Terminating"])
    for name in ("a", "b"):
        await running.apply(POD, name, asking({GPU: 1}))
    await running.apply(POD, "c", asking({GPU: 1}, activeDeadlineSeconds=60))
    assert "exceeded quota" in await refused(running, "d", asking({GPU: 1}, activeDeadlineSeconds=60))
    assert (await used(running))["used"] == {"pods": "1"}


async def test_quotas_end_at_their_namespace(running: Cluster) -> None:
    await quota(running, {"pods": "0"})
    await running.apply(POD, "a", asking({GPU: 1}), namespace="kube-public")
    invalid = asking({GPU: "0.5"})
    with pytest.raises(ApiError) as error:
        await running.apply(POD, "half", invalid)
    assert error.value.code == 422  # an invalid pod is told so, not counted


async def test_what_is_no_limit_any_more_leaves_the_status(running: Cluster) -> None:
    await quota(running, {f"requests.{GPU}": "4", "pods": "10"})
    assert (await used(running))["used"] == {f"requests.{GPU}": "0", "pods": "0"}
    await running.api.patch(RESOURCE_QUOTA, "gpus", {"spec": {"hard": {"pods": None}}}, namespace="default")
    assert await used(running) == {"hard": {f"requests.{GPU}": "4"}, "used": {f"requests.{GPU}": "0"}}


async def test_objects_of_other_kinds_are_counted_in_the_status(running: Cluster) -> None:
    """ADM-10: only those kinds are watched that some quota names."""
    await running.apply(CONFIG_MAP, "before", {})
    hard: JsonObject = {"count/configmaps": "9", "services.nodeports": "4", "count/things.example.org": "1"}
    await quota(running, hard)
    ports: JsonObject = {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}], "type": "NodePort"}
    await running.apply(SERVICE, "web", {"spec": ports})
    assert await used(running) == {"hard": hard, "used": {"count/configmaps": "1", "services.nodeports": "2"}}
    await running.apply(CONFIG_MAP, "after", {})
    assert (await used(running))["used"]["count/configmaps"] == "2"
    await running.api.delete(CONFIG_MAP, "before", namespace="default")
    assert (await used(running))["used"]["count/configmaps"] == "1"


async def test_claims_for_devices_are_counted_by_class(running: Cluster) -> None:
    key = "gpu.example.org.deviceclass.resource.k8s.io/devices"
    await quota(running, {key: "4"})
    exactly: JsonObject = {"deviceClassName": "gpu.example.org", "count": 3}
    devices: JsonObject = {"requests": [{"name": "r", "exactly": exactly}]}
    await running.apply(RESOURCE_CLAIM, "c", {"spec": {"devices": devices}})
    assert (await used(running))["used"] == {key: "3"}


async def test_what_somebody_says_of_the_status_stays_until_something_changes(running: Cluster) -> None:
    await quota(running, {"pods": "10"})
    told = {"status": {"hard": {"pods": "5"}, "used": {"pods": "3"}}}
    await used(running)
    await running.api.patch(RESOURCE_QUOTA, "gpus", told, namespace="default", subresource="status")
    assert await used(running) == told["status"]
    await running.apply(POD, "a", asking({GPU: 1}))
    assert await used(running) == {"hard": {"pods": "5"}, "used": {"pods": "4"}}
    await running.api.delete(POD, "a", namespace="default", grace_period_s=0)
    assert await used(running) == {"hard": {"pods": "10"}, "used": {"pods": "0"}}


async def test_what_was_charged_for_nothing_stays_charged_until_something_goes(running: Cluster) -> None:
    await quota(running, {"count/configmaps": "5", "pods": "2"})
    await used(running)
    await running.apply(POD, "a", asking({GPU: 1}))
    await running.apply(CONFIG_MAP, "c", {})
    for kind, name, body in ((POD, "a", asking({GPU: 1})), (CONFIG_MAP, "c", {})):
        with pytest.raises(ApiError, match="already exists"):
            await running.apply(kind, name, body)
    assert (await used(running))["used"] == {"count/configmaps": "2", "pods": "2"}
    assert "used: pods=2" in await refused(running, "b", asking({GPU: 1}))
    await running.api.delete(CONFIG_MAP, "c", namespace="default")
    assert (await used(running))["used"] == {"count/configmaps": "0", "pods": "1"}


async def test_amounts_are_summed_as_the_objects_write_them(running: Cluster) -> None:
    await quota(running, {"limits.memory": "8Gi", "requests.storage": "9Gi", "requests.cpu": "4"})
    await used(running)
    await running.apply(POD, "a", asking({"memory": "1G", "cpu": "0.5"}))
    storage: JsonObject = {"resources": {"requests": {"storage": "2G"}}, "accessModes": ["ReadWriteOnce"]}
    await running.apply(VOLUME_CLAIM, "v", {"spec": storage})
    told = {"limits.memory": "1G", "requests.storage": "2G", "requests.cpu": "500m"}
    assert (await used(running))["used"] == told
    await running.apply(POD, "b", asking({"memory": "1Gi", "cpu": "1"}))
    assert (await used(running))["used"]["limits.memory"] == "2073741824"
    assert "requested: limits.memory=8G, used: limits.memory=2073741824, limited: limits.memory=8Gi" in (
        await refused(running, "c", asking({"memory": "8G", "cpu": "1"}))
    )


async def test_a_pod_that_is_given_a_deadline_is_charged_to_quotas_of_such_pods(running: Cluster) -> None:
    await quota(running, {"pods": "1"}, scopes=["Terminating"])
    await used(running)
    late: JsonObject = {"spec": {"activeDeadlineSeconds": 60}}
    for name in ("a", "b"):
        await running.apply(POD, name, asking({}))
    await running.api.patch(POD, "a", late, namespace="default")
    assert (await used(running))["used"] == {"pods": "1"}
    with pytest.raises(ApiError, match="exceeded quota: gpus, requested: pods=1, used: pods=1"):
        await running.api.patch(POD, "b", late, namespace="default")


async def test_what_one_object_costs_does_not_grow_with_those_there(
    running: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither admission nor the controller counts anew what only grows."""
    await quota(running, {"pods": "50", "count/configmaps": "50"})
    await used(running)
    counts: list[str] = []
    for module in ("apiserver.admission.quotas", "controllers.quotas.resource_quota"):
        counted = partial(_counted, counts, module)
        monkeypatch.setattr(f"tonnage.twin.{module}.counted", counted)
    for number in range(20):
        await running.apply(POD, f"p{number}", asking({GPU: 1}))
        await running.apply(CONFIG_MAP, f"c{number}", {})
        await running.clock.advance(1)
    assert counts == []
    assert (await used(running))["used"] == {"pods": "20", "count/configmaps": "20"}
    await running.api.delete(POD, "p0", namespace="default", grace_period_s=0)
    assert (await used(running))["used"] == {"pods": "19", "count/configmaps": "20"}
    assert counts == ["controllers.quotas.resource_quota"]


def _counted(counts: list[str], module: str, *of: Any) -> Any:
    counts.append(module)
    return quota_usage.counted(*of)


async def test_a_pod_that_was_there_first_is_counted_though_it_was_not_seen_yet(cluster: Cluster) -> None:
    """What is charged to no status, as there is none yet, must not be lost."""
    cluster.start(ResourceQuotaController(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    for number in range(8):
        await quota(cluster, {"pods": "9"})
        for _ in range(number):
            await asyncio.sleep(0)
        await cluster.apply(POD, f"p{number}", asking({GPU: 1}))
        assert (await used(cluster))["used"] == {"pods": str(number + 1)}
        await cluster.api.delete(RESOURCE_QUOTA, "gpus", namespace="default")


async def test_a_claim_is_counted_by_each_class_of_volumes_that_it_names(running: Cluster) -> None:
    async def told() -> list[str]:
        await running.clock.advance(1)
        quotas = [await running.api.get(RESOURCE_QUOTA, name, "default") for name in ("gold", "silver")]
        return [one.status["used"]["requests.storage"] for one in quotas]

    def claim(of: str) -> JsonObject:
        asked: JsonObject = {"requests": {"storage": "1Gi"}}
        modes: JsonObject = {"accessModes": ["ReadWriteOnce"], "volumeName": "v"}
        return {"spec": {"volumeAttributesClassName": of, "resources": asked, **modes}}

    for name in ("gold", "silver"):
        chosen: JsonObject = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": [name]}
        hard: JsonObject = {"persistentvolumeclaims": "1", "requests.storage": "5Gi"}
        scoped: JsonObject = {"hard": hard, "scopeSelector": {"matchExpressions": [chosen]}}
        await running.apply(RESOURCE_QUOTA, name, {"spec": scoped})
    await running.apply(VOLUME_CLAIM, "a", claim("gold"))
    assert await told() == ["1Gi", "0"]
    with pytest.raises(ApiError) as error:
        await running.apply(VOLUME_CLAIM, "b", claim("gold"))
    assert "exceeded quota: gold, requested: persistentvolumeclaims=1, used" in error.value.message
    given: JsonObject = {"phase": "Bound", "currentVolumeAttributesClassName": "gold"}
    await running.api.patch(VOLUME_CLAIM, "a", {"status": given}, namespace="default", subresource="status")
    await running.api.patch(VOLUME_CLAIM, "a", claim("silver"), namespace="default")
    assert await told() == ["1Gi", "1Gi"]
    given = {"currentVolumeAttributesClassName": "silver"}
    await running.api.patch(VOLUME_CLAIM, "a", {"status": given}, namespace="default", subresource="status")
    assert await told() == ["0", "1Gi"]
