"""KUB-2: a running pod is told that a device of its own is not healthy, and nobody else is."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.diagnose.explain.explain import explain, find_pod
from tonnage.model.layer import Layer
from tonnage.model.reasons.gpu.devices import DeviceUnhealthy
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import snapshot_from_documents

GPU, SMALL = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
XID = "Xid 79: GPU has fallen off the bus; needs a reboot of the node"
Body = dict[str, Any]


def running(name: str, resource: str = GPU, phase: str = "Running") -> Body:
    container = {"name": "main", "resources": {"limits": {resource: 1}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"nodeName": "a", "containers": [container]},
        "status": {"phase": phase},
    }


def held(by: str, *ids: str, resource: str = GPU) -> Body:
    return {
        "holders": [{"namespace": "ml", "pod": by, "container": "main", "resource": resource, "ids": [*ids]}]
    }


def asked(name: str, pod: Body, *devices: Body) -> Explanation:
    node: Body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a"},
        "status": {"capacity": {GPU: "4"}},
    }
    status: Body = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": "a"},
        "status": {"devices": [*devices]},
    }
    snapshot = snapshot_from_documents([{"kind": "List", "items": [node, pod, status]}])
    found = find_pod(snapshot, "ml", name)
    assert found is not None
    return explain(found, snapshot)


def ill_of(explanation: Explanation) -> list[str]:
    return [r.message for r in explanation.reasons if r.code == DeviceUnhealthy.code]


ILL = {"uuid": "GPU-1", "index": 1, "resource": GPU, "health": "Unhealthy", "reason": XID}
WELL = {"uuid": "GPU-2", "index": 2, "resource": GPU, "health": "Healthy"}


def test_its_unhealthy_gpu_is_named_and_it_runs_on() -> None:
    explanation = asked("train", running("train"), ILL | held("train", "GPU-1"), WELL)
    assert (explanation.verdict, explanation.layer) == (Verdict.RUNNING, None)
    assert ill_of(explanation) == [
        f"it holds GPU 1 (GPU-1): {XID}; Kubernetes lets it run on, and no new pod gets that device"
    ]
    assert explanation.reasons[0].layer is Layer.HARDWARE
    assert "do on a what the device's reason asks for" in explanation.remedies[0].action


@pytest.mark.parametrize(
    ("pod", "devices"),
    [
        pytest.param(running("train"), (ILL, WELL | held("train", "GPU-2")), id="somebody else's GPU is ill"),
        pytest.param(
            running("train"),
            (ILL | held("other", "GPU-1"), WELL | held("train", "GPU-2")),
            id="another pod's",
        ),
        pytest.param(running("train", phase="Succeeded"), (ILL | held("train", "GPU-1"),), id="it has ended"),
        pytest.param(running("train"), (), id="no agent says what it holds"),
    ],
)
def test_what_is_not_its_own_is_not_told(pod: Body, devices: tuple[Body, ...]) -> None:
    assert ill_of(asked("train", pod, *devices)) == []


def test_of_mig_devices_only_its_own_counts() -> None:
    parts = [
        {
            "uuid": f"MIG-{i}",
            "index": i,
            "profile": "1g.10gb",
            "resource": SMALL,
            "health": health,
            "reason": why,
        }
        for i, (health, why) in enumerate((("Unhealthy", "Xid 94"), ("Healthy", "")))
    ]
    divided = {"uuid": "GPU-1", "index": 0, "resource": SMALL, "health": "Healthy", "migDevices": parts}
    first = asked("p", running("p", SMALL), divided | held("p", "MIG-0", resource=SMALL))
    second = asked("p", running("p", SMALL), divided | held("p", "MIG-1", resource=SMALL))
    assert ["1g.10gb of GPU 0 (MIG-0): Xid 94" in told for told in ill_of(first)] == [True]
    assert ill_of(second) == []
