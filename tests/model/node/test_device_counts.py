"""Devices and replicas by what a node's agent says, by GPU Feature Discovery's labels, and by neither."""

from __future__ import annotations

import pytest

from tonnage.model.kubernetes.cluster import Node
from tonnage.model.node.device_counts import DeviceCount, device_count
from tonnage.model.node.gpu_status import DevicePart, GpuDevice, GpuStatus

GPU, SHARED, SLICE = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def node(amounts: dict[str, int], **labels: str) -> Node:
    keyed = {f"nvidia.com/{key.replace('_', '.')}": value for key, value in labels.items()}
    return Node("n", allocatable=amounts, capacity=amounts, labels=keyed)


@pytest.mark.parametrize(
    ("there", "resource", "expected"),
    [
        pytest.param(
            node({GPU: 8}, gpu_count="8", gpu_replicas="1", gpu_product="NVIDIA-H100-80GB-HBM3"),
            GPU, (8, 1), id="eight whole GPUs",
        ),
        pytest.param(
            node({GPU: 10}, gpu_count="1", gpu_replicas="10", gpu_product="Tesla-T4-SHARED"),
            GPU, (1, 10), id="ten replicas of a T4 under the plain name",
        ),
        pytest.param(
            node({GPU: 12}, gpu_count="2", gpu_replicas="6"), GPU, (2, 6), id="no product label",
        ),
        pytest.param(
            node({SHARED: 6}, gpu_count="2", gpu_replicas="3", gpu_product="NVIDIA-L40S"),
            SHARED, (2, 3), id="under a name of their own",
        ),
        pytest.param(
            node({GPU: 3, SHARED: 4}, gpu_count="4", gpu_replicas="4", gpu_product="NVIDIA-L40S"),
            GPU, (3, 1), id="whole beside renamed replicas",
        ),
        pytest.param(node({GPU: 8}, gpu_count="2"), GPU, (2, 4), id="more than GPUs are counted"),
        pytest.param(node({GPU: 8}), GPU, (8, 1), id="no labels at all"),
        pytest.param(node({SHARED: 8}), SHARED, (None, None), id="shared, and nobody tells how often"),
        pytest.param(
            node({GPU: 8}, gpu_product="Tesla-T4-SHARED"), GPU, (None, None), id="a shared product alone",
        ),
        pytest.param(
            node({GPU: 7, SLICE: 14}, **{"mig-1g_10gb_replicas": "2", "mig-1g_10gb_count": "7"}),
            SLICE, (7, 2), id="replicas of MIG devices",
        ),
        pytest.param(node({GPU: 4}, gpu_replicas="four", gpu_count="-1"), GPU, (4, 1), id="no numbers"),
        pytest.param(node({"amd.com/gpu": 8}), "amd.com/gpu", (8, 1), id="another vendor"),
    ],
)  # fmt: skip
def test_labels_tell_replicas_from_devices(
    there: Node, resource: str, expected: tuple[int | None, int | None]
) -> None:
    count = device_count(there, resource)
    assert (count.devices, count.replicas) == expected
    assert count.shared == (expected[1] != 1)


@pytest.mark.parametrize(
    ("status", "resource", "expected"),
    [
        pytest.param(
            GpuStatus("n", (GpuDevice("a", resource=GPU), GpuDevice("b", resource=GPU)), replicas={GPU: 4}),
            GPU, (2, 4), id="two GPUs four times each",
        ),
        pytest.param(
            GpuStatus("n", (GpuDevice("a", resource=GPU, replicas=8),)), GPU, (1, 8), id="an older agent",
        ),
        pytest.param(
            GpuStatus("n", (GpuDevice("a", parts=(DevicePart("p", resource=SLICE),)),), replicas={SLICE: 8}),
            SLICE, (1, 8), id="a MIG device eight times",
        ),
        pytest.param(GpuStatus("n", replicas={GPU: 1}), GPU, (8, 1), id="exclusive, whatever labels say"),
    ],
)  # fmt: skip
def test_the_agent_knows_better_than_labels(
    status: GpuStatus, resource: str, expected: tuple[int, int]
) -> None:
    there = node({GPU: 8, SLICE: 8}, gpu_count="1", gpu_replicas="2", gpu_product="Tesla-T4-SHARED")
    count = device_count(there, resource, status)
    assert (count.devices, count.replicas) == expected


@pytest.mark.parametrize(
    ("count", "asked", "words"),
    [
        (DeviceCount(GPU, 4, 1, 4), 4, "4 nvidia.com/gpu are replicas of one GPU"),
        (DeviceCount(GPU, 8, 2, 4), 4, "4 nvidia.com/gpu may be replicas of one GPU"),
        (DeviceCount(GPU, 8, 2, 4), 5, "5 nvidia.com/gpu are replicas of 2 GPUs"),
        (DeviceCount(GPU, 32, 8, 4), 6, "6 nvidia.com/gpu may be replicas of 2 GPUs"),
        (DeviceCount(SHARED, 8, None, None), 2, "2 nvidia.com/gpu.shared may be replicas of one GPU"),
        (DeviceCount(SLICE, 14, 7, 2), 2, f"2 {SLICE} may be replicas of one MIG device"),
        (DeviceCount(GPU, 8, 2, 4), None, "8 nvidia.com/gpu are replicas of 2 GPUs"),
    ],
    ids=["one", "one or two", "two", "two to six", "unknown", "MIG", "all that are offered"],
)
def test_replicas_in_words(count: DeviceCount, asked: int | None, words: str) -> None:
    assert count.in_words(asked) == words
