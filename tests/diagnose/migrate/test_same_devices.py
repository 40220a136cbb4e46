"""DRA-4: the devices that a migrated pod can have, compared one by one with those that it could have."""

from __future__ import annotations

from typing import Any

import pytest

from support.claim_migrations import BIG_A100, GPU, only, pod
from tonnage.diagnose.cluster_view import ground_of
from tonnage.diagnose.lint.manifest_objects import at_path
from tonnage.diagnose.migrate.migrated_texts import MigratedText
from tonnage.diagnose.migrate.same_devices import DeviceComparison, compared_devices
from tonnage.model.kubernetes.cluster import Pod
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents


def node(name: str, product: str, gpus: int = 1, **labels: str) -> dict[str, Any]:
    own = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": "81920", **labels}
    amounts = {GPU: str(gpus), "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": own}, "status": status
    }  # fmt: skip


def agent(name: str, *products: str, memory: int = 81920) -> dict[str, Any]:
    devices = [
        {"uuid": f"GPU-{name}-{i}", "index": i, "product": product, "memoryMiB": memory, "resource": GPU,
         "computeCapability": "8.0"}
        for i, product in enumerate(products)
    ]  # fmt: skip
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": name},
        "status": {"devices": devices, "driverVersion": "570.1", "cudaVersion": "12.8"},
    }


def comparison(text: MigratedText, *objects: dict[str, Any]) -> DeviceComparison:
    migration = only(text)
    ground = ground_of(snapshot_from_documents([{"kind": "List", "items": list(objects)}]))
    before, after = (
        pod_of(spec) for spec in (migration.site.spec, at_path(migration.after(), migration.site.path))
    )
    return compared_devices(migration, before, after, ground)


def pod_of(spec: Any) -> Pod:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    return manifests_from_documents([body])[0].pod


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(
            [
                node("a", "NVIDIA-A100-SXM4-80GB", 2),
                agent("a", *["NVIDIA A100-SXM4-80GB"] * 2),
                node("t", "Tesla-T4"),
                agent("t", "Tesla T4", memory=15360),
            ],
            DeviceComparison(same=("a/gpu-0", "a/gpu-1")),
            id="the same devices",
        ),
        pytest.param(
            [node("a", "NVIDIA-A100-SXM4-80GB"), agent("a", "Tesla T4", memory=15360)],
            DeviceComparison(only_before=("a/gpu-0",)),
            id="a label that is not true",
        ),
        pytest.param(
            [node("a", "Tesla-T4"), agent("a", "NVIDIA A100-SXM4-80GB")],
            DeviceComparison(only_after=("a/gpu-0",)),
            id="a GPU that no label tells of",
        ),
        pytest.param(
            [node("a", "NVIDIA-A100-SXM4-80GB")],
            DeviceComparison(unknown=("a",)),
            id="a node without an agent",
        ),
    ],
)
def test_devices_are_compared_one_by_one(objects: list[dict[str, Any]], expected: DeviceComparison) -> None:
    compared = comparison(pod(BIG_A100), *objects)
    assert compared == expected
    assert compared.proven == bool(expected.same)
    assert list(compared.lines())


def test_a_node_that_offers_claims_is_judged_by_its_slices() -> None:
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": "GPU-a-0"},
        "productName": {"string": "NVIDIA A100-SXM4-80GB"},
    }
    published = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "00"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-7", "attributes": attributes}],
        },
    }
    label, report = node("a", "NVIDIA-A100-SXM4-80GB"), agent("a", "NVIDIA A100-SXM4-80GB")
    compared = comparison(pod(BIG_A100), label, report, published)
    assert compared.only_before == ("a/gpu-7",)
    assert compared.failures == ("gpu-7: no such key: memory",)


def test_a_gpu_whose_mig_devices_are_made_for_claims_has_those_that_its_slices_name() -> None:
    """The agent reports one that a claim has now, too; the GPU in MIG mode without any is no whole GPU."""
    made = {
        "uuid": "MIG-0", "profile": "3g.40gb", "resource": "", "health": "Healthy", "memoryMiB": 40192,
    }  # fmt: skip
    report = agent("a", *["NVIDIA A100-SXM4-80GB"] * 3)
    for device in report["status"]["devices"]:
        device |= {"migEnabled": True}
    report["status"]["devices"][0] |= {"migDevices": [made]}
    places = [
        {
            "name": f"gpu-{gpu}-mig-3g40gb-9-{start}",
            "attributes": {
                "type": {"string": "mig"},
                "parentUUID": {"string": f"GPU-a-{gpu}"},
                "profile": {"string": "3g.40gb"},
            },
        }
        for gpu in range(2)
        for start in (0, 4)
    ]
    published = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "00"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "a",
            "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
            "devices": places,
        },
    }
    objects = node("a", "NVIDIA-A100-SXM4-80GB"), report, published
    half = comparison(pod("", "{limits: {nvidia.com/mig-3g.40gb: 1}}"), *objects)
    assert half == DeviceComparison(same=tuple(f"a/{place['name']}" for place in places))
    assert not comparison(pod(BIG_A100), *objects).same


def test_whole_gpus_and_mig_devices_of_one_claim_are_both_compared() -> None:
    profile = {
        "uuid": "MIG-0", "profile": "1g.10gb", "resource": "nvidia.com/mig-1g.10gb", "health": "Healthy",
        "memoryMiB": 9728,
    }  # fmt: skip
    report = agent("a", *["NVIDIA A100-SXM4-80GB"] * 2)
    report["status"]["devices"][1] |= {"migDevices": [profile]}
    text = pod(
        "nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB}",
        "{limits: {nvidia.com/gpu: 1, nvidia.com/mig-1g.10gb: 1}}",
    )
    compared = comparison(text, node("a", "NVIDIA-A100-SXM4-80GB"), report)
    assert compared == DeviceComparison(same=("a/gpu-0", "a/gpu-1-mig-1g.10gb"))
