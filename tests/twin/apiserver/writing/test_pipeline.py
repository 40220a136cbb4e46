"""What the server itself does to objects: identity, generations, deletion, binding, eviction, admission."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.requests import DeleteOptions, ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
)


class Twin:
    """A server in process, and short ways to ask it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, random=Random(1))
        self.api = self.server.local()

    async def pod(self, name: str = "p", *, meta: JsonObject | None = None, **spec: Any) -> Any:
        body: JsonObject = {
            "metadata": {"name": name, **(meta or {})},
            "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
        }
        return await self.api.create(POD, body, namespace="default")

    def raw(self, name: str = "p") -> Any:
        """The pod as stored, None when it is gone."""
        stored = self.server.store.get(("", "pods"), ("default", name))
        return None if stored is None else stored.object

    def writers(self, kind: Any, name: str) -> set[tuple[str, str]]:
        """Who has written an object and which part of it."""
        stored: Any = self.server.store.get((kind.group, kind.plural), ("default", name))
        entries = stored.object["metadata"]["managedFields"]
        return {(entry["manager"], entry.get("subresource", "")) for entry in entries}

    async def refused(self, coming: Any) -> ApiError:
        with pytest.raises(ApiError) as caught:
            await coming
        return caught.value


@pytest.fixture
def twin() -> Twin:
    return Twin()


async def test_a_new_pod_gets_identity_defaults_and_an_empty_status(twin: Twin) -> None:
    body: JsonObject = {
        "metadata": {"generateName": "train-", "uid": "mine", "deletionTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {
            "containers": [
                {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
            ]
        },
        "status": {"phase": "Running", "podIP": "1.2.3.4"},
    }
    pod: Any = await twin.api.create(POD, body, namespace="default")
    stored = twin.raw(pod.metadata.name)
    assert pod.metadata.name.startswith("train-")
    assert len(pod.metadata.name) == len("train-") + 5
    assert stored["metadata"]["uid"] != "mine"
    assert stored["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert stored["metadata"]["generation"] == 1
    assert "deletionTimestamp" not in stored["metadata"]
    assert stored["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    assert stored["spec"]["serviceAccountName"] == "default"
    assert [(one["key"], one["tolerationSeconds"]) for one in stored["spec"]["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    assert (stored["spec"]["priority"], stored["spec"]["preemptionPolicy"]) == (0, "PreemptLowerPriority")


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([{}], "BestEffort", id="nothing asked for"),
        pytest.param([{"limits": {"nvidia.com/gpu": "1"}}], "BestEffort", id="only a GPU"),
        pytest.param([{"requests": {"cpu": "1"}}], "Burstable", id="a request alone"),
        pytest.param([{"limits": {"cpu": "1"}}], "Burstable", id="one of two limits"),
        pytest.param([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed", id="both limits"),
        pytest.param(
            [{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable", id="a second container without"
        ),
        pytest.param(
            [{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}],
            "Burstable",
            id="a lower request",
        ),
    ],
)
async def test_quality_of_service_follows_cpu_and_memory(twin: Twin, containers: Any, expected: str) -> None:
    listed: Any = [{"name": f"c{i}", "image": "i", "resources": one} for i, one in enumerate(containers)]
    await twin.api.create(
        POD, {"metadata": {"name": "p"}, "spec": {"containers": listed}}, namespace="default"
    )
    assert twin.raw()["status"]["qosClass"] == expected


async def test_status_and_spec_are_written_apart(twin: Twin) -> None:
    await twin.pod()
    whole: JsonObject = {**twin.raw(), "status": {"phase": "Running"}}
    await twin.api.replace(POD, whole, namespace="default")
    assert twin.raw()["status"]["phase"] == "Pending"
    patch: JsonObject = {"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 5}}
    await twin.api.patch(POD, "p", patch, namespace="default", subresource="status")
    assert twin.raw()["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert "activeDeadlineSeconds" not in twin.raw()["spec"]


async def test_generations_count_changes_of_what_is_wanted(twin: Twin) -> None:
    template: JsonObject = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    body: JsonObject = {
        "metadata": {"name": "d", "generation": 7},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    created = await twin.api.create(DEPLOYMENT, body, namespace="default")
    labelled = await twin.api.patch(
        DEPLOYMENT, "d", {"metadata": {"labels": {"x": "y"}}}, namespace="default"
    )
    reported = await twin.api.patch(
        DEPLOYMENT, "d", {"status": {"replicas": 1}}, namespace="default", subresource="status"
    )
    scaled = await twin.api.patch(DEPLOYMENT, "d", {"spec": {"replicas": 3}}, namespace="default")
    assert [one.metadata.generation for one in (created, labelled, reported, scaled)] == [1, 1, 1, 2]


async def test_a_bound_pod_goes_when_its_kubelet_says_so(twin: Twin) -> None:
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
async def test_of_two_deletions_of_a_pod_counts(twin: Twin, phase: str, finalizers: list[str]) -> None:
    """Seen of random writes to a genuine server of 1.35."""
    await twin.pod(nodeName="n")
    await twin.api.patch(POD, "p", {"status": {"phase": phase}}, namespace="default", subresource="status")
    for propagation in ("Foreground", "Orphan"):
        await twin.api.delete(POD, "p", namespace="default", propagation=propagation)
    assert twin.raw()["metadata"]["finalizers"] == finalizers


async def test_less_than_no_grace_is_one_second(twin: Twin) -> None:
    await twin.pod(nodeName="n", terminationGracePeriodSeconds=10)
    await twin.api.delete(POD, "p", namespace="default", grace_period_s=-1)
    assert twin.raw()["metadata"]["deletionGracePeriodSeconds"] == 1


@pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
async def test_pods_that_no_kubelet_runs_go_at_once(twin: Twin, phase: str) -> None:
    await twin.pod(nodeName="n" if phase else "")
    if phase:
        await twin.api.patch(
            POD, "p", {"status": {"phase": phase}}, namespace="default", subresource="status"
        )
    await twin.api.delete(POD, "p", namespace="default")
    assert twin.raw() is None


async def test_a_finalizer_holds_an_object_until_it_is_taken_away(twin: Twin) -> None:
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
    twin: Twin, propagation: str, finalizers: list[str]
) -> None:
    await twin.api.create(CONFIG_MAP, {"metadata": {"name": "c"}}, namespace="default")
    await twin.api.delete(CONFIG_MAP, "c", namespace="default", propagation=propagation)
    assert (await twin.api.get(CONFIG_MAP, "c", "default")).metadata.finalizers == finalizers


async def test_a_namespace_ends_when_its_controller_has_emptied_it(twin: Twin) -> None:
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


async def test_a_binding_assigns_a_pod_once(twin: Twin) -> None:
    await twin.pod()
    target: JsonObject = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    await twin.api.create_subresource(POD, "p", "binding", target, namespace="default")
    assert twin.raw()["spec"]["nodeName"] == "n1"
    (condition,) = twin.raw()["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    again = await twin.refused(twin.api.create_subresource(POD, "p", "binding", target, namespace="default"))
    assert (again.code, again.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"',
    )


async def test_an_eviction_keeps_within_the_disruption_budget(twin: Twin) -> None:
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


async def test_the_server_signs_what_admission_writes_to_a_quota(twin: Twin) -> None:
    quota: JsonObject = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}}
    counted: JsonObject = {"status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}}
    await twin.api.create(RESOURCE_QUOTA, quota, namespace="default")
    await twin.api.patch(RESOURCE_QUOTA, "q", counted, namespace="default", subresource="status")
    before = twin.writers(RESOURCE_QUOTA, "q")
    await twin.pod()
    assert twin.writers(RESOURCE_QUOTA, "q") - before == {("kube-apiserver", "status")}


@pytest.mark.parametrize(
    ("spec", "priority", "policy"),
    [
        pytest.param({"priorityClassName": "high"}, 1000, "Never", id="a class"),
        pytest.param(
            {"priorityClassName": "system-node-critical"}, 2000001000, "PreemptLowerPriority", id="built in"
        ),
        pytest.param({}, 5, "PreemptLowerPriority", id="the default class"),
    ],
)
async def test_a_priority_class_is_resolved(twin: Twin, spec: Any, priority: int, policy: str) -> None:
    high: JsonObject = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
    await twin.api.create(PRIORITY_CLASS, high)
    await twin.api.create(PRIORITY_CLASS, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    await twin.pod(**spec)
    assert (twin.raw()["spec"]["priority"], twin.raw()["spec"]["preemptionPolicy"]) == (priority, policy)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"priorityClassName": "y"},
            'pods "p" is forbidden: no PriorityClass with name y was found',
            id="unknown",
        ),
        pytest.param(
            {"priority": 7},
            'pods "p" is forbidden: the integer value of priority (7) must not be provided in pod spec; '
            "priority admission controller computed 0 from the given PriorityClass name",
            id="a number of one's own",
        ),
    ],
)
async def test_a_priority_that_is_made_up_is_refused(twin: Twin, spec: Any, words: str) -> None:
    refused = await twin.refused(twin.pod(**spec))
    assert (refused.code, refused.reason, refused.message) == (403, "Forbidden", words)


async def test_only_one_priority_class_is_the_default(twin: Twin) -> None:
    await twin.api.create(PRIORITY_CLASS, {"metadata": {"name": "a"}, "value": 1, "globalDefault": True})
    second: JsonObject = {"metadata": {"name": "b"}, "value": 2, "globalDefault": True}
    refused = await twin.refused(twin.api.create(PRIORITY_CLASS, second))
    assert "PriorityClass a is already marked as default. Only one default can exist" in refused.message


async def test_a_generated_name_that_is_taken_is_made_anew() -> None:
    class Stuck(Random):
        calls = 0

        def choice(self, seq: Any) -> Any:
            self.calls += 1
            return seq[self.calls // 10]

    server = ApiServer(VirtualClock(), random=Stuck(1))
    names = [
        (
            await server.local().create(CONFIG_MAP, {"metadata": {"generateName": "c-"}}, namespace="default")
        ).metadata.name
        for _ in range(3)
    ]
    assert len(set(names)) == 3


async def test_local_watches_tell_of_old_versions_and_see_changes_in_order(twin: Twin) -> None:
    before = (await twin.api.list(CONFIG_MAP, namespace="default")).resource_version
    await twin.api.create(CONFIG_MAP, {"metadata": {"name": "c"}}, namespace="default")
    await twin.api.patch(
        CONFIG_MAP,
        "c",
        [{"op": "add", "path": "/data", "value": {"a": "b"}}],
        namespace="default",
        patch_type=PatchType.JSON,
    )
    stream = twin.api.watch(CONFIG_MAP, resource_version=before, namespace="default")
    changes = [await anext(stream) for _ in range(2)]
    assert [(one.type.value, one.object.data) for one in changes] == [("ADDED", {}), ("MODIFIED", {"a": "b"})]


async def test_deleting_a_collection_takes_what_the_selector_chooses(twin: Twin) -> None:
    for name in ("a", "b"):
        await twin.pod(name, meta={"labels": {"app": name}})
    verbs = twin.server.verbs
    request = verbs.request("deletecollection", ResourcePath(("", "v1", "pods"), "default"))
    from tonnage.twin.apiserver.reading.listing import ListQuery

    await verbs.delete_collection(request, ListQuery("default", "app=a"), DeleteOptions())
    assert (twin.raw("a"), twin.raw("b") is None) == (None, False)


async def test_custom_kinds_need_a_version_to_be_replaced(twin: Twin) -> None:
    definition: JsonObject = {
        "metadata": {"name": "tiers.tonnage.dev"},
        "spec": {
            "group": "tonnage.dev",
            "scope": "Cluster",
            "names": {"plural": "tiers", "kind": "Tier"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    await twin.api.create(CUSTOM_RESOURCE, definition)
    verbs = twin.server.verbs
    address = ResourcePath(("tonnage.dev", "v1", "tiers"), "", "gold")
    body: JsonObject = {"apiVersion": "tonnage.dev/v1", "kind": "Tier", "metadata": {"name": "gold"}}
    await verbs.create(verbs.request("create", ResourcePath(address.path)), body)
    refused = await twin.refused(verbs.update(verbs.request("update", address), body))
    assert refused.message == (
        'tiers.tonnage.dev "gold" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )


async def test_a_node_keeps_its_status_at_birth_and_apart_from_then_on(twin: Twin) -> None:
    await twin.api.create(NODE, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
    await twin.api.patch(NODE, "n", {"status": {"capacity": {"cpu": "8"}}})
    assert (await twin.api.get(NODE, "n")).status.capacity == {"cpu": "4"}


async def test_a_namespace_that_nobody_holds_ends_with_the_second_request(twin: Twin) -> None:
    await twin.api.create(NAMESPACE, {"metadata": {"name": "x"}})
    body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}, "spec": {}}
    await twin.api.replace(NAMESPACE, body, subresource="finalize")
    await twin.api.delete(NAMESPACE, "x")
    ending = await twin.api.get(NAMESPACE, "x")
    assert (ending.status["phase"], ending.spec) == ("Terminating", {})
    await twin.api.delete(NAMESPACE, "x")
    with pytest.raises(ApiError, match="not found"):
        await twin.api.get(NAMESPACE, "x")


async def test_a_namespace_is_held_by_whom_a_finalizer_names(twin: Twin) -> None:
    metadata: JsonObject = {"name": "default"}
    body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    body["spec"] = {"finalizers": ["kubernetes", "bad"]}
    with pytest.raises(ApiError, match=r"spec.finalizers\[1\]: Invalid value: \"bad\": name is neither"):
        await twin.api.replace(NAMESPACE, body, subresource="finalize")
