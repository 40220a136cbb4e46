"""Wire objects as model values: what cannot be read is named, and nothing ever raises but ConfigError."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.adapters.snapshots.bulk import Bulk
from tonnage.decide.kubernetes.requests import pod_requests
from tonnage.model.errors import ConfigError
from tonnage.model.kubernetes.cluster import HeldAmounts, Pod
from tonnage.model.kubernetes.selectors import LabelSelector, Requirement
from tonnage.model.kubernetes.volumes import PodVolume
from tonnage.model.node.software import KubeletPolicies, NodeSoftware, RuntimeInventory, Switch
from tonnage.reading.cluster import BarePod, node_from, pod_from, snapshot_from
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents
from tonnage.reading.gpu_status import gpu_status_from
from tonnage.wire import objects as w

GPU = "nvidia.com/gpu"
Body = dict[str, Any]
NAMED: Body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def read(**spec: Any) -> Pod:
    return pod_from(msgspec.convert({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": spec}, w.Pod))


def test_a_limit_alone_is_a_request_too_and_the_manifest_is_remembered() -> None:
    pod = read(containers=[{"resources": {"limits": {GPU: 2, "cpu": "1"}, "requests": {"cpu": "500m"}}}])
    [container] = pod.containers
    assert container.requests == {GPU: 2, "cpu": 500}
    assert container.limits == {GPU: 2, "cpu": 1000}
    assert container.requested == {"cpu"}


def test_amounts_that_cannot_be_read_are_problems_with_their_place() -> None:
    pod = read(containers=[{"resources": {"limits": {GPU: "two", "memory": "9" * 40}}}])
    assert [problem.where for problem in pod.problems] == [
        "spec.containers[0].resources.limits[nvidia.com/gpu]",
        "spec.containers[0].resources.limits[memory]",
    ]
    assert pod.unmodelled == tuple(f"unreadable {problem.where}" for problem in pod.problems)
    node = node_from(msgspec.convert({"status": {"allocatable": {"cpu": "lots", "pods": 5}}}, w.Node))
    assert node.allocatable == {"pods": 5}
    assert [problem.where for problem in node.problems] == ["status.allocatable[cpu]"]


def test_with_the_hosts_network_every_container_port_is_a_host_port() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 90, "hostPort": 91, "hostIP": "10.0.0.1"}]
    assert [p.port for p in read(containers=[{"ports": ports}]).host_ports] == [91]
    assert [p.port for p in read(containers=[{"ports": ports}], hostNetwork=True).host_ports] == [80, 91]


def test_match_label_keys_become_part_of_the_selector() -> None:
    constraint = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["app", "absent"]}
    [spread] = read(topologySpreadConstraints=[constraint]).spread
    assert spread.selector == LabelSelector((Requirement("app", "In", ("x",)),))


def test_volumes_with_a_say_are_kept() -> None:
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
    disk, scratch = {"name": "disk", "iscsi": {}}, {"name": "scratch", "ephemeral": {}}
    pod = read(volumes=[data, disk, scratch, {"name": "tmp", "emptyDir": {}}])
    assert [(disk.volume, disk.source, disk.read_only) for disk in pod.disks] == [("disk", "iscsi", False)]
    assert pod.volumes == (PodVolume("data", "mine"), PodVolume("scratch", f"{pod.name}-scratch", True))


def test_a_pod_level_limit_is_a_request_only_where_no_container_asks() -> None:
    level = {"limits": {"cpu": "8", "memory": "8Gi", "hugepages-2Mi": "4Mi"}, "requests": {"memory": "1Gi"}}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pod = read(resources=level, containers=[container])
    assert pod.pod_requests == {"memory": 2**30, "hugepages-2Mi": 2**22}
    assert pod_requests(pod) == {"cpu": 1000, "memory": 2**30, "hugepages-2Mi": 2**22}


def test_a_priority_class_gives_its_value_where_admission_has_not() -> None:
    classes = [
        w.PriorityClass(metadata=w.ObjectMeta(name="high"), value=100, preemption_policy="Never"),
        w.PriorityClass(metadata=w.ObjectMeta(name="usual"), value=7, global_default=True),
    ]
    pods = [
        w.Pod(metadata=w.ObjectMeta(name="a"), spec=w.PodSpec(priority_class_name="high")),
        w.Pod(metadata=w.ObjectMeta(name="b")),
        w.Pod(metadata=w.ObjectMeta(name="c"), spec=w.PodSpec(priority_class_name="high", priority=5)),
        w.Pod(metadata=w.ObjectMeta(name="older than the default class"), spec=w.PodSpec(priority=0)),
    ]
    snapshot = snapshot_from([*classes, *pods])
    assert [(p.priority, p.may_preempt) for p in snapshot.pods] == [
        (100, False),
        (7, True),
        (5, True),
        (0, True),
    ]


def test_the_agents_status_is_read_with_holders_and_refused_configuration() -> None:
    holder = {"resource": GPU, "ids": ["GPU-1"], "namespace": "ml", "pod": "p", "container": "c"}
    body = {
        "devices": [
            {"uuid": "GPU-1", "index": 0, "health": "Unhealthy", "reason": "Xid 79", "holders": [holder]}
        ],
        "resources": [{"name": GPU, "replicas": 4, "failRequestsGreaterThanOne": True}],
        "config": {"source": "built-in", "key": "x", "error": "no such key"},
        "problems": ["driver old"],
        "runtime": {"name": "containerd", "version": "2.2.1", "cdi": "on", "cdiReason": "/c:1", "nri": "?"},
        "kubelet": {"version": "1.35.8", "topologyManagerPolicy": "restricted", "sources": ["/k"]},
    }
    status = gpu_status_from(msgspec.convert({"metadata": {"name": "a"}, "status": body}, w.NodeGPUStatus))
    assert (status.replicas, status.single_requests) == ({GPU: 4}, frozenset({GPU}))
    assert status.problems == ("configuration refused, built-in kept: no such key", "driver old")
    assert (status.devices[0].healthy, status.devices[0].holders[0].pod) == (False, "p")
    assert status.software == NodeSoftware(
        RuntimeInventory("containerd", "2.2.1", Switch.ON, "/c:1"),
        "1.35.8",
        KubeletPolicies("restricted", sources=("/k",)),
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
LOOSE = st.fixed_dictionaries(
    {},
    optional={
        "devices": JSON, "resources": JSON, "config": JSON, "problems": JSON,
        "runtime": JSON, "kubelet": JSON,
        "labelSelector": JSON, "matchLabelKeys": JSON, "namespaces": JSON,
        "topologyKey": JSON, "maxSkew": JSON,
        "requiredDuringSchedulingIgnoredDuringExecution": JSON | st.lists(st.fixed_dictionaries(
            {}, optional={"labelSelector": JSON, "namespaces": JSON, "namespaceSelector": JSON,
                          "mismatchLabelKeys": JSON})),
        "preferredDuringSchedulingIgnoredDuringExecution": JSON,
    },
)  # fmt: skip


@given(LOOSE)
def test_parts_of_any_shape_are_read_without_raising(loose: Body) -> None:
    gpu_status_from(w.NodeGPUStatus(status=loose))
    affinity = {"podAffinity": loose, "podAntiAffinity": loose}
    read(affinity=affinity, topologySpreadConstraints=[loose], schedulingGates=[loose], volumes=[loose])


@given(st.dictionaries(st.sampled_from(["cpu", "memory", GPU]), st.text() | st.integers() | st.floats()))
def test_any_text_as_an_amount_is_read_or_named(amounts: dict[str, str | int | float]) -> None:
    resources = w.ResourceRequirements(limits=amounts)
    pod = pod_from(w.Pod(spec=w.PodSpec(containers=[w.Container(resources=resources)])))
    assert len(pod.containers[0].limits) + len(pod.problems) == len(amounts)


def test_a_list_and_lists_in_it_are_opened_and_other_kinds_passed_over() -> None:
    documents: list[Any] = [
        {"kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}},
            {"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "p"}}]},
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
        ]},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"team": "x"}}},
        None,
    ]  # fmt: skip
    snapshot = snapshot_from_documents(documents, server_version="1.36")
    assert [node.name for node in snapshot.nodes] == ["a"]
    assert [pod.name for pod in snapshot.pods] == ["p"]
    assert snapshot.namespaces == {"ml": {"team": "x"}}
    assert snapshot.server_version == "1.36"


def test_objects_of_the_wrong_shape_are_all_named_with_their_place() -> None:
    bad: list[Any] = [
        {"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": 7}},
        {"apiVersion": "v1", "kind": "Node", "spec": {"taints": [{"key": "k"}, {"value": "v"}]}},
    ]
    with pytest.raises(ConfigError) as caught:
        snapshot_from_documents([{"kind": "List", "items": bad}])
    assert [problem.where for problem in caught.value.problems] == [
        "[0].items[0].spec.nodeName",
        "[0].items[1].spec.taints[1]",
    ]
    with pytest.raises(ConfigError, match="no Kubernetes object"):
        snapshot_from_documents([None, {}])


def test_manifests_of_workloads_are_their_templates() -> None:
    template: Body = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c"}]}}
    job: Body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template},
    }
    [manifest] = manifests_from_documents([job, {"kind": "ConfigMap"}], namespace="ml")
    assert (manifest.kind, manifest.name) == ("Job.batch", "j")
    assert (manifest.pod.key, manifest.pod.labels) == (("ml", "j"), {"app": "x"})
    with pytest.raises(ConfigError, match="nothing in it makes a pod"):
        manifests_from_documents([{"kind": "ConfigMap"}])


def test_amounts_that_a_container_has_are_kept_where_they_are_not_what_it_asks() -> None:
    asked = {"cpu": "1"}
    body: Body = {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": n, "resources": {"requests": asked}} for n in ("same", "grows")]},
        "status": {
            "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
            "containerStatuses": [
                {"name": "same", "allocatedResources": asked, "resources": {"requests": asked}},
                {"name": "grows", "allocatedResources": {"cpu": "2"}, "resources": {"limits": {"cpu": "3"}}},
            ],
        },
    }
    usual = pod_from(msgspec.convert(body, w.Pod)).status
    assert usual.resized == (HeldAmounts("grows", {"cpu": 2000}, {}),)
    assert usual.cannot_resize
    quick = Bulk().pod(msgspec.json.encode(body))
    assert isinstance(quick, BarePod)
    assert quick.pod.status == usual


def test_what_selects_pods_by_labels_alone_and_by_expressions() -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}}
    objects: list[Any] = [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}, "spec": spec},
        {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "r"},
         "spec": {"selector": {"app": "x"}}},
    ]  # fmt: skip
    selectors = snapshot_from_documents(objects).selectors
    assert [(selector.kind, selector.selector) for selector in selectors] == [
        (kind, LabelSelector((Requirement("app", "In", ("x",)),)))
        for kind in ("StatefulSet", "ReplicationController")
    ]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([None, 5], "[0].items[0]: no Kubernetes object: it has no kind"),
        ([{"metadata": {"name": "n"}}], "[0].items[0]: no Kubernetes object: it has no kind"),
        (
            [{"apiVersion": "v1", "kind": "Pod", "metadata": None}],
            "[0].items[0].metadata.name: it is missing",
        ),
        (
            [NAMED | {"spec": {"unschedulable": value}} for value in (True, False)],
            "[0].items[1]: another Node n than [0].items[0]",
        ),
    ],
    ids=["no objects", "no kind", "no name", "one name twice"],
)
def test_a_list_says_what_it_cannot_mean(items: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        snapshot_from_documents([{"apiVersion": "v1", "kind": "List", "items": items}])


def test_the_same_object_may_be_given_twice() -> None:
    assert len(snapshot_from_documents([{"apiVersion": "v1", "kind": "List", "items": [NAMED, NAMED]}]).nodes)
