"""Pods in the way of a MIG layout, asked to leave over an API server with disruption budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.agent_context import context_of
from support.api_stores import new_store
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.clock import SystemClock
from tonnage.agent.mig.eviction import PodEvictions, ask_to_leave
from tonnage.decide.node.mig.obstacles import eviction_words
from tonnage.loop.effects import ActionPorts
from tonnage.loop.performer import Performer
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import DISRUPTION_BUDGET, NAMESPACE, NODE, POD


@pytest.fixture
async def api() -> KubernetesApi:
    api = ApiServer(SystemClock(), store=new_store()).local()
    await api.create(NAMESPACE, {"metadata": {"name": "ml"}})
    await api.create(NODE, {"metadata": {"name": "n"}})
    return api


@pytest.fixture
def evictions(api: KubernetesApi, tmp_path: Path) -> PodEvictions:
    clock = SystemClock()
    return PodEvictions(context_of("n", api, clock, FolderCheckpoints(tmp_path)))


async def pod(api: KubernetesApi, name: str, node: str = "n", **metadata: Any) -> None:
    meta: JsonObject = {"name": name, "labels": {"app": name}, **metadata}
    spec: JsonObject = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    await api.create(POD, {"metadata": meta, "spec": spec}, namespace="ml")
    status: JsonObject = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await api.patch(POD, name, {"status": status}, namespace="ml", subresource="status")


async def there(api: KubernetesApi) -> list[str]:
    pods = (await api.list(POD, namespace="ml")).items
    return sorted(each.metadata.name for each in pods if not each.metadata.deletion_timestamp)


async def test_mig_4_a_pod_is_evicted_and_one_that_its_budget_protects_is_not(
    api: KubernetesApi, evictions: PodEvictions
) -> None:
    await pod(api, "free")
    await pod(api, "kept")
    budget: JsonObject = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    await api.create(DISRUPTION_BUDGET, {"metadata": {"name": "b"}, "spec": budget}, namespace="ml")
    assert await evictions.evict("ml", "free") is None
    assert "disruption budget" in eviction_words(await evictions.evict("ml", "kept"))
    assert "kept" in await there(api)
    assert "free" not in await there(api)


async def test_what_is_not_ours_to_end_is_left_alone(api: KubernetesApi, evictions: PodEvictions) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    await pod(api, "daemon", ownerReferences=[owner])
    await pod(api, "static", annotations={"kubernetes.io/config.mirror": "x"})
    await pod(api, "elsewhere", node="m")
    said = [
        eviction_words(await evictions.evict("ml", name))
        for name in ("daemon", "static", "elsewhere", "gone")
    ]
    assert said == [
        "not evicted: its DaemonSet would bring it back",
        "not evicted: it is a static pod",
        *["not evicted: this node has no such pod"] * 2,
    ]
    unknown = await evictions.evict("", "0b1c-uid")
    assert eviction_words(unknown) == "not evicted: Tonnage does not know its pod"
    assert await there(api) == ["daemon", "elsewhere", "static"]


async def test_mig_4_a_dry_run_says_the_same_and_ends_nobody(api: KubernetesApi) -> None:
    performer = Performer(ActionPorts(api=api))
    await pod(api, "free")
    await pod(api, "kept")
    budget: JsonObject = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    await api.create(DISRUPTION_BUDGET, {"metadata": {"name": "b"}, "spec": budget}, namespace="ml")
    assert await ask_to_leave(api, performer, "n", "ml", "free", dry_run=True) is None
    kept = await ask_to_leave(api, performer, "n", "ml", "kept", dry_run=True)
    assert "disruption budget" in eviction_words(kept)
    assert await there(api) == ["free", "kept"]
