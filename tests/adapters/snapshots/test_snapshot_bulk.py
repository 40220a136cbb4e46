"""Lines of pods, nodes and reports read quickly are what they are when read as any other object."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tonnage.adapters.snapshots.bulk import Bulk
from tonnage.adapters.snapshots.limit import Meter, SizeLimit
from tonnage.adapters.snapshots.objects import ObjectReader, load_list
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.node.gpu_status import GpuDevice
from tonnage.reading.cluster import BarePod, node_from, pod_from, read_pod
from tonnage.reading.documents import snapshot_from_documents
from tonnage.reading.gpu_status import gpu_status_from
from tonnage.wire import objects as w

Body = dict[str, Any]
NAMES = st.sampled_from(["a", "b-1", "node-7.example", "N\u00f6de", 'q"', ""])
NOTES = ("hami.io/vgpu-node", "nvidia.com/nouse-gpuuuid", "app")
MOMENTS = st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000001Z", "soon"])
LABELS = st.dictionaries(st.sampled_from(["app", "rack", "k\u00e9y"]), NAMES, max_size=2)
SELECTORS = st.fixed_dictionaries({"matchLabels": LABELS})
TERM = st.fixed_dictionaries(
    {"topologyKey": NAMES, "labelSelector": SELECTORS, "matchLabelKeys": st.just(["app"])}
)
AFFINITY = st.fixed_dictionaries(
    {
        "podAffinity": st.fixed_dictionaries(
            {"requiredDuringSchedulingIgnoredDuringExecution": st.lists(TERM, max_size=1)}
        )
    }
)
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
    st.sampled_from(["1", "500m", "2Gi", "lots"]),
    max_size=2,
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "resources": st.fixed_dictionaries({"limits": AMOUNTS})},
        optional={"env": st.just([{"name": "A"}]), "ports": st.just([{"hostPort": 80}])},
    ),
    max_size=2,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodeName": NAMES,
        "containers": CONTAINERS,
        "initContainers": CONTAINERS,
        "nodeSelector": LABELS,
        "affinity": AFFINITY,
        "tolerations": st.just([{"key": "k", "operator": "Exists", "tolerationSeconds": 3}]),
        "priority": st.integers(-5, 5),
        "priorityClassName": NAMES,
        "preemptionPolicy": st.sampled_from(["Never", "PreemptLowerPriority"]),
        "topologySpreadConstraints": st.lists(TERM, max_size=1),
        "resourceClaims": st.just([{"name": "gpu"}]),
        "volumes": st.just([{"name": "v", "persistentVolumeClaim": {}}]),
        "schedulingGates": st.just([{"name": "g"}]),
        "overhead": AMOUNTS,
        "hostNetwork": st.booleans(),
    },
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["PodScheduled", "DisruptionTarget", "Ready"]),
            "status": st.sampled_from(["True", "False"]),
        },
        optional={"reason": st.sampled_from(["PreemptionByScheduler", "x"]), "message": NAMES},
    ),
    max_size=3,
)
WAITING = st.fixed_dictionaries({"waiting": st.fixed_dictionaries({"reason": NAMES, "message": NAMES})})
ENDED = st.fixed_dictionaries(
    {"terminated": st.fixed_dictionaries({"exitCode": st.integers(0, 2)}, optional={"message": NAMES})}
)
STATES: st.SearchStrategy[list[Body]] = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "state": WAITING | ENDED | st.just({"running": {}})},
        optional={
            "lastState": ENDED,
            "allocatedResources": AMOUNTS,
            "resources": st.fixed_dictionaries({"requests": AMOUNTS}),
        },
    ),
    max_size=2,
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running", "Failed", "Succeeded"]),
        "reason": NAMES,
        "message": NAMES,
        "conditions": CONDITIONS,
        "containerStatuses": STATES,
        "initContainerStatuses": STATES,
        "startTime": MOMENTS,
        "nominatedNodeName": NAMES,
        "resourceClaimStatuses": st.just([{"name": "gpu", "resourceClaimName": "made"}]),
    },
)
METAS = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "generateName": NAMES,
        "namespace": NAMES,
        "uid": NAMES,
        "labels": LABELS,
        "annotations": LABELS | st.dictionaries(st.sampled_from(NOTES), NAMES, max_size=2),
        "creationTimestamp": MOMENTS,
        "deletionTimestamp": MOMENTS,
        "ownerReferences": st.just([{"kind": "Job", "name": "j", "controller": True}]),
    },
)
NAMELESS: Body = {"initContainerStatuses": [{"name": ""}, {"name": "", "allocatedResources": {"cpu": "2"}}]}
PODS = st.fixed_dictionaries({"metadata": METAS}, optional={"spec": SPECS, "status": STATUSES})


@given(st.lists(PODS, min_size=1, max_size=6), st.booleans())
@example([{"metadata": {"name": "p"}, "spec": {"containers": [{"name": ""}]}, "status": NAMELESS}], False)
def test_pods_are_the_same_read_either_way(bodies: list[Body], escaped: bool) -> None:
    quick = ObjectReader().of(("v1", "Pod"))
    assert quick is not None
    for body in [*bodies, *bodies]:  # a second time out of what is remembered
        line = json.dumps(body, ensure_ascii=escaped, separators=(",", ":")).encode()
        usual = msgspec.json.decode(line, type=w.Pod)
        found = quick(line)
        assert (read_pod(found) if isinstance(found, w.Pod) else found) == read_pod(usual)


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "PodScheduled", "status": "False", "message": "0/8 nodes are available"},
        {"type": "PodScheduled", "status": "True", "message": "bound"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    ],
    ids=lambda condition: str(condition["type"]) + str(condition["status"]),
)
def test_what_a_condition_says_is_read(condition: Body) -> None:
    status = {"phase": "Pending", "conditions": [{"lastProbeTime": None, **condition}]}
    line = json.dumps({"metadata": {"name": "p"}, "spec": {}, "status": status}).encode()
    assert _pod(line) == pod_from(msgspec.json.decode(line, type=w.Pod))
    assert (_pod(line).status.unschedulable_message != "") == (condition["status"] == "False")


def test_pods_that_differ_in_what_their_containers_have_differ_in_their_status() -> None:
    bulk = Bulk()
    for cpu in ("1", "2", "3", "1"):
        status = {
            "phase": "Running",
            "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": cpu}}],
        }
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
        line = json.dumps({"metadata": {"name": "p"}, "spec": spec, "status": status}).encode()
        assert _pod(line, bulk) == pod_from(msgspec.json.decode(line, type=w.Pod))
        assert bool(_pod(line, bulk).status.resized) == (cpu != "1")


def test_pods_of_one_workload_share_what_is_the_same() -> None:
    bulk = Bulk()
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    one, other = (_pod(_line_of(name, container), bulk) for name in ("a", "b"))
    assert one.containers is other.containers
    assert (one.node_name, other.node_name) == ("a", "b")


def _pod(line: bytes, bulk: Bulk | None = None) -> Pod:
    found = (bulk or Bulk()).pod(line)
    return found.pod if isinstance(found, BarePod) else found


def _line_of(name: str, container: Body) -> bytes:
    spec = {"nodeName": name, "containers": [container]}
    body = {"metadata": {"name": name, "labels": {"app": "x"}}, "spec": spec}
    return json.dumps(body, separators=(",", ":")).encode()


DEVICES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "uuid": NAMES,
            "index": st.integers(0, 3),
            "product": NAMES,
            "resource": NAMES,
            "replicas": st.integers(0, 4),
            "memoryMiB": st.integers(0, 9),
            "memoryUsedMiB": st.integers(0, 9),
            "health": st.sampled_from(["Healthy", "Unhealthy"]),
            "reason": NAMES,
            "numaNode": st.integers(0, 1),
            "fabric": NAMES,
            "migEnabled": st.one_of(st.none(), st.booleans()),
            "computeCapability": NAMES,
            "pciBusID": NAMES,
            "links": st.lists(st.fixed_dictionaries({"peers": st.lists(st.integers(0, 3)), "path": NAMES})),
            "migDevices": st.lists(
                st.fixed_dictionaries({"uuid": NAMES, "profile": NAMES, "resource": NAMES, "health": NAMES}),
                max_size=1,
            ),
            "holders": st.lists(st.fixed_dictionaries({"pod": NAMES, "ids": st.lists(NAMES)}), max_size=2),
        },
    ),
    max_size=3,
)


@given(DEVICES, st.lists(NAMES, max_size=2))
def test_reports_are_the_same_read_either_way(devices: list[Body], problems: list[str]) -> None:
    config = {"source": "a file", "error": "wrong"}
    resources = [{"name": "nvidia.com/gpu", "replicas": 2, "failRequestsGreaterThanOne": True}]
    status = {"devices": devices, "problems": problems, "config": config, "resources": resources}
    software = {
        "runtime": {"name": "containerd", "cdi": "on"},
        "kubelet": {"version": "v1.35.0"},
        "cudaVersion": "13.0",
    }
    bulk = Bulk()
    for name, more in (("n", {}), ("m", software), ("o", software)):
        line = json.dumps({"metadata": {"name": name}, "status": {**status, **more}}).encode()
        assert bulk.report(line) == gpu_status_from(msgspec.json.decode(line, type=w.NodeGPUStatus))


def test_every_field_of_a_device_is_read_quickly_too() -> None:
    known = "uuid product index resource replicas memory_mib used_mib healthy reason holders"
    more = "compute_capability pci_bus_id numa_node links parts mig_enabled fabric"
    told = "a new field of GpuDevice: read it in Reports._device, and add it to DEVICES above"
    assert {part.name for part in fields(GpuDevice)} == {*known.split(), *more.split()}, told


QUANTITIES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]),
    st.sampled_from(["1", "500m", "2Gi", "lots", 1, 1.5]),
    max_size=3,
)
NODES = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": NAMES}, optional={"labels": LABELS, "annotations": LABELS})},
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "unschedulable": st.booleans(),
                "taints": st.just([{"key": "k", "effect": "NoExecute"}]),
            },
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "allocatable": QUANTITIES,
                "capacity": QUANTITIES,
                "conditions": CONDITIONS,
                "runtimeHandlers": st.just([{"name": "nvidia"}]),
                "images": st.lists(
                    st.fixed_dictionaries(
                        {"names": st.lists(NAMES, max_size=2)}, optional={"sizeBytes": st.just(7)}
                    ),
                    max_size=3,
                ),
            },
        ),
    },
)


@given(st.lists(NODES, min_size=1, max_size=4))
def test_nodes_are_the_same_read_either_way(bodies: list[Body]) -> None:
    bulk = Bulk()
    for body in [*bodies, *bodies]:  # a second time out of what is remembered
        line = json.dumps(body).encode()
        assert bulk.node(line) == node_from(msgspec.json.decode(line, type=w.Node))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"7",
        b'{"metadata":7}',
        b'{"metadata":{"name":"a"},"spec":null}',
        b'{"metadata":{"name":"a","labels":null}}',
    ],
    ids=repr,
)
def test_what_is_not_as_usual_is_left_to_the_usual_reader(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Bulk().pod(line)


def _list(*items: Body, kind: str = "List") -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": kind, "items": items}).encode()


NULLS: Body = {"metadata": {"name": "n", "labels": None}, "spec": {"taints": None}}
NODE = {"apiVersion": "v1", "kind": "Node", **NULLS}
HARD: Body = {"metadata": {"name": "q"}, "status": {"hard": {"pods": "1"}}}
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", **HARD}
BARE: Body = {"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(_list(NODE, QUOTA, SECRET), id="kinds of all sorts, fields that are null"),
        pytest.param(_list(BARE, kind="PodList"), id="a typed list"),
    ],
)
def test_a_large_list_is_what_it_is_when_read_as_a_small_one(content: bytes) -> None:
    assert load_list(content, Meter(SizeLimit(), "c.json")) == snapshot_from_documents([json.loads(content)])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(_list(json.loads(_list(NODE))), id="a list in a list"),
        pytest.param(_list({**NODE, "spec": {"taints": 7}}), id="an object of another shape"),
        pytest.param(_list(NODE)[:-1], id="cut"),
        pytest.param(json.dumps(NODE).encode(), id="one object"),
        pytest.param(b"[]", id="an array"),
        pytest.param(_list(NODE, kind="Lists"), id="another kind"),
    ],
)
def test_what_a_person_must_hear_of_is_left_to_the_exact_reader(content: bytes) -> None:
    assert load_list(content, Meter(SizeLimit(), "c.json")) is None
