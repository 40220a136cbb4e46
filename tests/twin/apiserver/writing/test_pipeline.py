"""What the server itself does to objects: identity, generations, deletion, binding, eviction, admission."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from support.api_stores import new_store
from support.server_in_process import ServerInProcess
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.requests import ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    DEPLOYMENT,
    NODE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
)


@pytest.fixture
def twin() -> ServerInProcess:
    return ServerInProcess()


async def test_a_new_pod_gets_identity_defaults_and_an_empty_status(twin: ServerInProcess) -> None:
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
async def test_quality_of_service_follows_cpu_and_memory(
    twin: ServerInProcess, containers: Any, expected: str
) -> None:
    listed: Any = [{"name": f"c{i}", "image": "i", "resources": one} for i, one in enumerate(containers)]
    await twin.api.create(
        POD, {"metadata": {"name": "p"}, "spec": {"containers": listed}}, namespace="default"
    )
    assert twin.raw()["status"]["qosClass"] == expected


async def test_status_and_spec_are_written_apart(twin: ServerInProcess) -> None:
    await twin.pod()
    whole: JsonObject = {**twin.raw(), "status": {"phase": "Running"}}
    await twin.api.replace(POD, whole, namespace="default")
    assert twin.raw()["status"]["phase"] == "Pending"
    patch: JsonObject = {"status": {"phase": "Running"}, "spec": {"activeDeadlineSeconds": 5}}
    await twin.api.patch(POD, "p", patch, namespace="default", subresource="status")
    assert twin.raw()["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert "activeDeadlineSeconds" not in twin.raw()["spec"]


async def test_generations_count_changes_of_what_is_wanted(twin: ServerInProcess) -> None:
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


async def test_a_binding_assigns_a_pod_once(twin: ServerInProcess) -> None:
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


async def test_the_server_signs_what_admission_writes_to_a_quota(twin: ServerInProcess) -> None:
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
async def test_a_priority_class_is_resolved(
    twin: ServerInProcess, spec: Any, priority: int, policy: str
) -> None:
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
async def test_a_priority_that_is_made_up_is_refused(twin: ServerInProcess, spec: Any, words: str) -> None:
    refused = await twin.refused(twin.pod(**spec))
    assert (refused.code, refused.reason, refused.message) == (403, "Forbidden", words)


async def test_only_one_priority_class_is_the_default(twin: ServerInProcess) -> None:
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

    server = ApiServer(VirtualClock(), random=Stuck(1), store=new_store())
    names = [
        (
            await server.local().create(CONFIG_MAP, {"metadata": {"generateName": "c-"}}, namespace="default")
        ).metadata.name
        for _ in range(3)
    ]
    assert len(set(names)) == 3


async def test_local_watches_tell_of_old_versions_and_see_changes_in_order(twin: ServerInProcess) -> None:
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


async def test_custom_kinds_need_a_version_to_be_replaced(twin: ServerInProcess) -> None:
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


async def test_a_node_keeps_its_status_at_birth_and_apart_from_then_on(twin: ServerInProcess) -> None:
    await twin.api.create(NODE, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
    await twin.api.patch(NODE, "n", {"status": {"capacity": {"cpu": "8"}}})
    assert (await twin.api.get(NODE, "n")).status.capacity == {"cpu": "4"}
