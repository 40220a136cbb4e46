"""Unmodified kubectl changes objects: create, apply, patch, label, taint, scale, delete, and refusals."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tonnage.wire.kinds import CONFIG_MAP, DEPLOYMENT, NAMESPACE, NODE, POD
from tonnage.wire.objects import Taint

pytestmark = pytest.mark.long

DEPLOYMENT_YAML = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  replicas: 2
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}}
    spec:
      containers:
      - {name: main, image: "serve:1", env: [{name: A, value: "1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {mode: fast}
"""


async def test_apply_creates_changes_and_leaves_what_it_does_not_own(kubectl: Any, running: Any) -> None:
    created = await kubectl("apply -f -", DEPLOYMENT_YAML)
    assert created.out.split("\n")[:2] == ["deployment.apps/serve created", "configmap/settings created"]
    await kubectl("label configmap settings owner=else")
    await kubectl("scale deployment serve --replicas=4")
    changed = await kubectl(
        "apply -f -", DEPLOYMENT_YAML.replace("serve:1", "serve:2").replace("mode: fast", "speed: slow")
    )
    assert changed.out.split("\n")[:2] == [
        "deployment.apps/serve configured",
        "configmap/settings configured",
    ]
    settings = await running.api.get(CONFIG_MAP, "settings", "default")
    assert settings.data == {"speed": "slow"}
    assert settings.metadata.labels == {"owner": "else"}
    deployment = await running.api.get(DEPLOYMENT, "serve", "default")
    assert deployment.spec.template["spec"]["containers"][0]["image"] == "serve:2"
    assert deployment.spec.template["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}]
    assert deployment.spec.replicas == 2
    unchanged = await kubectl("apply -f -", DEPLOYMENT_YAML.replace("serve:1", "serve:2"))
    assert unchanged.out.startswith("deployment.apps/serve unchanged")


async def test_create_with_protobuf_bodies_and_twice(kubectl: Any, running: Any) -> None:
    await kubectl("create namespace ml")
    await kubectl("create configmap c -n ml --from-literal=a=b")
    await kubectl("create deployment web -n ml --image=nginx --replicas=3")
    assert (await running.api.get(CONFIG_MAP, "c", "ml")).data == {"a": "b"}
    assert (await running.api.get(DEPLOYMENT, "web", "ml")).spec.replicas == 3
    namespace = await running.api.get(NAMESPACE, "ml")
    assert namespace.metadata.labels == {"kubernetes.io/metadata.name": "ml"}
    again = await kubectl.attempt("create namespace ml")
    assert again.code == 1
    assert 'namespaces "ml" already exists' in again.err


async def test_label_annotate_taint_and_cordon_a_node(kubectl: Any, running: Any) -> None:
    await running.node("a100-0")
    await kubectl("label node a100-0 tier=gold")
    await kubectl("annotate node a100-0 note=hello")
    await kubectl("taint node a100-0 nvidia.com/gpu=present:NoSchedule")
    await kubectl("cordon a100-0")
    node = await running.api.get(NODE, "a100-0")
    assert (node.metadata.labels["tier"], node.metadata.annotations["note"]) == ("gold", "hello")
    # Taints by condition go, and that of an unschedulable node comes, by the node lifecycle controller.
    assert {(taint.key, taint.effect) for taint in node.spec.taints} == {
        ("nvidia.com/gpu", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoSchedule"),
    }
    assert (await kubectl("get nodes")).rows[0][1] == "Ready,SchedulingDisabled"
    await kubectl("uncordon a100-0")
    await kubectl("taint node a100-0 nvidia.com/gpu-")
    await kubectl("label node a100-0 tier-")
    node = await running.api.get(NODE, "a100-0")
    assert (node.spec.taints, node.spec.unschedulable, "tier" in node.metadata.labels) == (
        [Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")],
        False,
        False,
    )


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        pytest.param(
            "strategic",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x:2"}]}}}},
            id="a strategic merge patch keeps the container's other fields",
        ),
        pytest.param(
            "merge",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x:2", "env": None}]}}}},
            id="a merge patch replaces the list",
        ),
        pytest.param(
            "json",
            [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "x:2"}],
            id="a json patch names a place",
        ),
    ],
)
async def test_three_kinds_of_patch(kubectl: Any, running: Any, kind: str, patch: Any) -> None:
    await kubectl("apply -f -", DEPLOYMENT_YAML)
    await kubectl(["patch", "deployment", "serve", f"--type={kind}", "-p", json.dumps(patch)])
    (container,) = (await running.api.get(DEPLOYMENT, "serve", "default")).spec.template["spec"]["containers"]
    assert container["image"] == "x:2"
    assert ("env" in container) is (kind != "merge")


async def test_scale_goes_through_the_subresource_with_its_precondition(kubectl: Any, running: Any) -> None:
    await kubectl("apply -f -", DEPLOYMENT_YAML)
    await kubectl("scale deployment serve --replicas=5 --current-replicas=2")
    assert (await running.api.get(DEPLOYMENT, "serve", "default")).spec.replicas == 5
    refused = await kubectl.attempt("scale deployment serve --replicas=6 --current-replicas=2")
    assert refused.code == 1
    assert (await kubectl("get deployment serve")).rows[0][:2] == ["serve", "0/5"]


async def test_delete_waits_until_the_kubelet_has_let_go(kubectl: Any, running: Any) -> None:
    await running.pod("train", nodeName="a100-0")
    process = await kubectl.start("delete", "pod", "train", "--wait")
    async with asyncio.timeout(60):
        assert (await process.stdout.readline()) == b'pod "train" deleted from default namespace\n'
    pod = await running.api.get(POD, "train", "default")
    assert pod.metadata.deletion_timestamp is not None
    assert pod.metadata.deletion_grace_period_seconds == 30
    assert process.returncode is None
    assert (await kubectl("get pods")).rows[0][2] == "Terminating"
    await running.api.delete(POD, "train", namespace="default", grace_period_s=0)
    async with asyncio.timeout(60):
        await process.communicate()
    assert process.returncode == 0


async def test_dry_runs_change_nothing(kubectl: Any) -> None:
    assert "created (server dry run)" in (await kubectl("apply --dry-run=server -f -", DEPLOYMENT_YAML)).out
    assert (await kubectl("get deployments,configmaps -o name")).out == ""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(
            {"spec": {"containers": [{"name": "c", "image": "i", "resource": {}}]}},
            'strict decoding error: unknown field "spec.containers[0].resource"',
            id="a misspelt field",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "c", "image": "i"}], "priorityClassName": "y"}},
            'pods "train" is forbidden: no PriorityClass with name y was found',
            id="an unknown priority class",
        ),
        pytest.param(
            {
                "spec": {
                    "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": 1}}}
                    ]
                }
            },
            'The Pod "train" is invalid: spec.containers[0].resources.limits: Required value: '
            "Limit must be set for non overcommitable resources",
            id="ADM: a GPU request without a limit",
        ),
    ],
)
async def test_pods_that_the_server_refuses(kubectl: Any, body: Any, words: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, **body}
    answer = await kubectl.attempt("apply -f -", json.dumps(pod))
    assert answer.code == 1
    assert words in answer.err


async def test_a_missing_namespace_is_named(kubectl: Any) -> None:
    answer = await kubectl.attempt("create configmap c -n nowhere --from-literal=a=b")
    assert 'namespaces "nowhere" not found' in answer.err


async def test_server_side_apply_names_managers_and_yields_to_force(kubectl: Any) -> None:
    first = await kubectl("apply --server-side -f -", DEPLOYMENT_YAML)
    assert "deployment.apps/serve serverside-applied" in first.out
    other = DEPLOYMENT_YAML.replace("replicas: 2", "replicas: 3")
    answer = await kubectl.attempt("apply --server-side --field-manager=me -f -", other)
    assert answer.code == 1
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas' in answer.err
    assert "--force-conflicts" in answer.err
    await kubectl("apply --server-side --field-manager=me --force-conflicts -f -", other)
    shown = (await kubectl("get deployment serve -o json --show-managed-fields")).json
    owners = {
        entry["manager"]
        for entry in shown["metadata"]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    }
    assert owners == {"me"}


async def test_replace_and_edit_of_something_stale_conflict(kubectl: Any, running: Any) -> None:
    await kubectl("apply -f -", DEPLOYMENT_YAML)
    old = (await kubectl("get configmap settings -o json")).out
    await kubectl("label configmap settings a=b")
    answer = await kubectl.attempt("replace -f -", old)
    assert answer.code == 1
    assert (
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; '
        "please apply your changes to the latest version and try again"
    ) in answer.err
    assert running.server.store.revision > 1


async def test_services_are_given_addresses_and_ports_and_keep_them(kubectl: Any) -> None:
    await kubectl("create service clusterip inner --tcp=80")
    await kubectl("create service nodeport outer --tcp=80")
    await kubectl("create service clusterip none --tcp=80 --clusterip=None")
    first = (await kubectl("get services")).rows
    assert [row[:5] for row in first] == [
        ["inner", "ClusterIP", "10.96.1.1", "<none>", "80/TCP"],
        ["kubernetes", "ClusterIP", "10.96.0.1", "<none>", "443/TCP"],
        ["none", "ClusterIP", "None", "<none>", "80/TCP"],
        ["outer", "NodePort", "10.96.1.2", "<none>", "80:30086/TCP"],
    ]
    await kubectl("label service outer a=b")
    assert [row[:5] for row in (await kubectl("get services")).rows] == [row[:5] for row in first]


async def test_a_job_selects_its_own_pods(kubectl: Any) -> None:
    await kubectl("create job count --image=busybox -- true")
    job = (await kubectl("get job count -o json")).json
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == "count"
    assert (await kubectl("get jobs")).rows[0][:3] == ["count", "Running", "0/1"]


async def test_a_request_for_a_certificate_says_what_its_reader_decides(kubectl: Any) -> None:
    await kubectl(
        "create -f -",
        """
        apiVersion: certificates.k8s.io/v1
        kind: CertificateSigningRequest
        metadata: {name: jane}
        spec: {signerName: example.com/x, usages: [client auth], request: YQ==}
        """,
    )
    await kubectl("certificate approve jane")
    told = await kubectl("get csr jane -o jsonpath={.status.conditions[*].type}")
    assert told.out == "Approved"
