"""A pod that selects by a label of GPUs which is not true hears it before it runs there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.diagnose.explain.explain import explain
from tonnage.model.kubernetes.cluster import Container, Node, Pod, Snapshot
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus
from tonnage.model.reasons.pod.pods import LabelNotTrue
from tonnage.model.verdict import Verdict

GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
ROOM = {"cpu": 64_000, "memory": 256 << 30, "pods": 110, "ephemeral-storage": 1 << 40, GPU: 1}
H100 = Node("a", allocatable=ROOM, capacity=ROOM, labels={PRODUCT: "NVIDIA-H100-80GB-HBM3"})
T4 = GpuStatus("a", (GpuDevice("GPU-a", "Tesla T4", 0, GPU, memory_mib=15360),))
TRUE = replace(T4, devices=(replace(T4.devices[0], product="NVIDIA H100 80GB HBM3"),))
ENDING = ": the scheduler goes by the label"
ASKING = Pod("train", "ml", containers=(Container("c", requests={GPU: 1}, limits={GPU: 1}),))
SELECTING = replace(ASKING, node_selector={PRODUCT: "NVIDIA-H100-80GB-HBM3"})


@pytest.mark.parametrize(
    ("pod", "status", "messages"),
    [
        pytest.param(
            SELECTING,
            T4,
            [f"on a, label {PRODUCT} says NVIDIA-H100-80GB-HBM3, the agent reads Tesla T4{ENDING}"],
            id="a T4 with the label of an H100",
        ),
        pytest.param(SELECTING, TRUE, [], id="a label that is true"),
        pytest.param(SELECTING, None, [], id="nobody reads the GPUs"),
        pytest.param(ASKING, T4, [], id="a pod that selects by no label"),
    ],
)
def test_a_label_that_decides_is_held_against_the_agent(
    pod: Pod, status: GpuStatus | None, messages: list[str]
) -> None:
    gpu = {status.node: status} if status is not None else {}
    answer = explain(pod, Snapshot(nodes=(H100,), pods=(pod,), gpu=gpu))
    assert answer.verdict is Verdict.FITS
    assert [r.message for r in answer.reasons if isinstance(r, LabelNotTrue)] == messages
