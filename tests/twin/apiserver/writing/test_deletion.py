"""How objects go: grace, finalizers, namespaces, evictions, dependants, collections."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from support.server_in_process import ServerInProcess
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.requests import DeleteOptions, ResourcePath
from tonnage.wire.kinds import (
    CONFIG_MAP,
    DISRUPTION_BUDGET,
    NAMESPACE,
    POD,
)


@pytest.fixture
def twin() -> ServerInProcess:
    return ServerInProcess()


async def test_a_bound_pod_goes_when_its_kubelet_says_so(twin: ServerInProcess) -> None:
    await twin.pod(nodeName="n", terminationGracePeriodSeconds=10)
    await twin.api.delete(POD, "p", namespace="default")
    first = twin.raw()["metadata"]
    assert (first["deletionTimestamp"], first["deletionGracePeriodSeconds"]) == ("2026-01-01T00:00:10Z", 10)
    await twin.clock.advance(timedelta(seconds=3).total_seconds())
    await twin.api.delete(POD, "p", namespace="default", grace_period_s=60)
    assert twin.raw()["metadata"]["deletionGracePeriodSeconds"] == 10
    await twin.api.delete(POD, "p", namespace="default", grace_period_s=6)
    assert twin.raw()["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:06Z"
    await twin.api.delete(POD, "p", namespace="default", grace_period_s=2)
    late = twin.raw()["metadata"]
    assert (late["deletionTimestamp"], late["deletionGracePeriodSeconds"]) == ("2026-01-01T00:00:03Z", 1)
    await twin.api.delete(POD, "p", namespace="default", grace_period_s=0)
    assert twin.raw() is None


@pytest.mark.parametrize(
    ("phase", "finalizers"),
    [
        pytest.param("Running", ["foregroundDeletion"], id="what the first one said, while it has time"),
        pytest.param("Failed", ["orphan"], id="what the last one said, without"),
    ],
)
async def test_of_two_deletions_of_a_pod_counts(
    twin: ServerInProcess, phase: str, finalizers: list[str]
) -> None:
    """Seen of random writes to a genuine server of 1.35."""
    await twin.pod(nodeName="n")
    await twin.api.patch(POD, "p", {"status": {"phase": phase}}, namespace="default", subresource="status")
    for propagation in ("Foreground", "Orphan"):
        await twin.api.delete(POD, "p", namespace="default", propagation=propagation)
    assert twin.raw()["metadata"]["finalizers"] == finalizers


async def test_less_than_no_grace_is_one_second(twin: ServerInProcess) -> None:
    await twin.pod(nodeName="n", terminationGracePeriodSeconds=10)
    await twin.api.delete(POD, "p", namespace="default", grace_period_s=-1)
    assert twin.raw()["metadata"]["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
async def test_pods_that_no_kubelet_runs_go_at_once(twin: ServerInProcess, phase: str) -> None:
    await twin.pod(nodeName="n" if phase else "")
    if phase:
        await twin.api.patch(
            POD, "p", {"status": {"phase": phase}}, namespace="default", subresource="status"
        )
    await twin.api.delete(POD, "p", namespace="default")
    assert twin.raw() is None


async def test_a_finalizer_holds_an_object_until_it_is_taken_away(twin: ServerInProcess) -> None:
    await twin.api.create(
        CONFIG_MAP, {"metadata": {"name": "c", "finalizers": ["tonnage.dev/hold"]}}, namespace="default"
    )
    await twin.api.delete(CONFIG_MAP, "c", namespace="default", propagation="Foreground")
    held = await twin.api.get(CONFIG_MAP, "c", "default")
    assert held.metadata.deletion_timestamp == "2026-01-01T00:00:00Z"
    assert held.metadata.finalizers == ["tonnage.dev/hold", "foregroundDeletion"]
    await twin.api.patch(CONFIG_MAP, "c", {"metadata": {"finalizers": None}}, namespace="default")
    assert (await twin.refused(twin.api.get(CONFIG_MAP, "c", "default"))).code == 404


@pytest.mark.parametrize(
    ("propagation", "finalizers"), [("Orphan", ["orphan"]), ("Foreground", ["foregroundDeletion"])]
)
async def test_the_garbage_collector_is_told_what_becomes_of_dependants(
    twin: ServerInProcess, propagation: str, finalizers: list[str]
) -> None:
    await twin.api.create(CONFIG_MAP, {"metadata": {"name": "c"}}, namespace="default")
    await twin.api.delete(CONFIG_MAP, "c", namespace="default", propagation=propagation)
    assert (await twin.api.get(CONFIG_MAP, "c", "default")).metadata.finalizers == finalizers


async def test_a_namespace_ends_when_its_controller_has_emptied_it(twin: ServerInProcess) -> None:
    await twin.api.create(NAMESPACE, {"metadata": {"name": "ml"}})
    await twin.api.delete(NAMESPACE, "ml")
    ending: Any = await twin.api.get(NAMESPACE, "ml")
    assert (ending.status["phase"], ending.spec["finalizers"]) == ("Terminating", ["kubernetes"])
    refused = await twin.refused(twin.api.create(CONFIG_MAP, {"metadata": {"name": "c"}}, namespace="ml"))
    assert refused.message == (
        'configmaps "c" is forbidden: unable to create new content in namespace ml '
        "because it is being terminated"
    )
    body: JsonObject = {"metadata": {"name": "ml"}, "spec": {"finalizers": []}}
    await twin.api.replace(NAMESPACE, body, subresource="finalize")
    assert (await twin.refused(twin.api.get(NAMESPACE, "ml"))).code == 404


async def test_an_eviction_keeps_within_the_disruption_budget(twin: ServerInProcess) -> None:
    await twin.pod(meta={"labels": {"app": "x"}}, nodeName="n")
    await twin.api.patch(
        POD, "p", {"status": {"phase": "Running"}}, namespace="default", subresource="status"
    )
    budget: JsonObject = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    await twin.api.create(DISRUPTION_BUDGET, budget, namespace="default")
    eviction: JsonObject = {"metadata": {"name": "p"}}
    refused = await twin.refused(
        twin.api.create_subresource(POD, "p", "eviction", eviction, namespace="default")
    )
    assert (refused.code, refused.message) == (
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    allowed: JsonObject = {"status": {"observedGeneration": 1, "disruptionsAllowed": 1}}
    await twin.api.patch(DISRUPTION_BUDGET, "b", allowed, namespace="default", subresource="status")
    await twin.api.create_subresource(POD, "p", "eviction", eviction, namespace="default")
    assert "deletionTimestamp" in twin.raw()["metadata"]
    assert ("kube-apiserver", "status") in twin.writers(DISRUPTION_BUDGET, "b")


async def test_deleting_a_collection_takes_what_the_selector_chooses(twin: ServerInProcess) -> None:
    for name in ("a", "b"):
        await twin.pod(name, meta={"labels": {"app": name}})
    verbs = twin.server.verbs
    request = verbs.request("deletecollection", ResourcePath(("", "v1", "pods"), "default"))
    from tonnage.twin.apiserver.reading.listing import ListQuery

    await verbs.delete_collection(request, ListQuery("default", "app=a"), DeleteOptions())
    assert (twin.raw("a"), twin.raw("b") is None) == (None, False)


async def test_a_namespace_that_nobody_holds_ends_with_the_second_request(twin: ServerInProcess) -> None:
    await twin.api.create(NAMESPACE, {"metadata": {"name": "x"}})
    body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}, "spec": {}}
    await twin.api.replace(NAMESPACE, body, subresource="finalize")
    await twin.api.delete(NAMESPACE, "x")
    ending = await twin.api.get(NAMESPACE, "x")
    assert (ending.status["phase"], ending.spec) == ("Terminating", {})
    await twin.api.delete(NAMESPACE, "x")
    with pytest.raises(ApiError, match="not found"):
        await twin.api.get(NAMESPACE, "x")


async def test_a_namespace_is_held_by_whom_a_finalizer_names(twin: ServerInProcess) -> None:
    metadata: JsonObject = {"name": "default"}
    body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    body["spec"] = {"finalizers": ["kubernetes", "bad"]}
    with pytest.raises(ApiError, match=r"spec.finalizers\[1\]: Invalid value: \"bad\": name is neither"):
        await twin.api.replace(NAMESPACE, body, subresource="finalize")
