"""A plan says which GPUs a change of mode may reset beside the one that it turns, and who would lose what."""

from __future__ import annotations

import pytest

from tonnage.decide.node.mig.goal import goals_by_entries
from tonnage.diagnose.mig.plans import goal_json, goal_lines, gpus_of, pretended_gpus
from tonnage.diagnose.mig.resets import resets_among
from tonnage.model.mig.layouts import MigEntry
from tonnage.model.node.gpu_status import DeviceHolder, DeviceLinks, DevicePart, GpuDevice, GpuStatus

SXM, PCIE, HOPPER, NVL = (
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA A100 80GB PCIe",
    "NVIDIA H100 80GB HBM3",
    "NVIDIA H100 NVL",
)
FIRST = (MigEntry((0,), True, {"3g.40gb": 2}),)
PART = DevicePart("MIG-1", "3g.40gb", start=0)


def device(
    index: int, product: str = SXM, *, links: tuple[DeviceLinks, ...] = (), **told: object
) -> GpuDevice:
    return GpuDevice(f"GPU-{index}", product, index, links=links, **told)  # type: ignore[arg-type]


def held(pod: str, uuid: str) -> tuple[DeviceHolder, ...]:
    return (DeviceHolder("ml", pod, "c", "nvidia.com/gpu", (uuid,)),)


def said(*devices: GpuDevice, entries: tuple[MigEntry, ...] = FIRST) -> list[str]:
    status = GpuStatus("n", devices)
    gpus = gpus_of(status)
    goals = goals_by_entries(gpus, entries)
    turned = frozenset(goal.gpu.index for goal in goals if goal.mode)
    lines = [
        " ".join(line.split())
        for goal in goals
        for line in goal_lines(goal, resets_among(gpus, status), turned)
    ]
    return [line for line in lines if line.startswith(("mode", "reset", "then"))]


ALONE = ["mode MIG is turned on: resets the GPU"]
UNLESS = "of its board, unless the driver turns one alone; their MIG devices are created again"


@pytest.mark.parametrize(
    ("devices", "lines"),
    [
        pytest.param([device(0, PCIE), device(1, PCIE)], ALONE, id="alone on PCIe"),
        pytest.param(
            [
                device(0),
                device(1, holders=held("train", "GPU-1")),
                device(2, parts=(PART,), holders=held("chat", "MIG-1")),
            ],
            [
                *(*ALONE, f"reset with GPU 1, 2 {UNLESS}"),
                "then ml/train loses GPU 1, ml/chat loses 3g.40gb of GPU 2",
            ],
            id="all behind the switches, with their users",
        ),
        pytest.param(
            [
                device(0, PCIE, links=(DeviceLinks((2,), nvlinks=12),)),
                device(1, PCIE, holders=held("train", "GPU-1")),
                device(2, PCIE, links=(DeviceLinks((0,), nvlinks=12),)),
            ],
            [*ALONE, f"reset with GPU 2 {UNLESS}"],
            id="only the one at its bridge",
        ),
        pytest.param(
            [device(0, HOPPER), device(1, HOPPER, holders=held("train", "GPU-1"))],
            ["mode MIG is turned on: needs no reset, but no process may use the GPU meanwhile"],
            id="Hopper takes no reset",
        ),
    ],
)  # fmt: skip
def test_who_is_reset_beside_is_said_with_what_they_would_lose(
    devices: list[GpuDevice], lines: list[str]
) -> None:
    assert said(*devices) == lines


def test_what_is_turned_itself_loses_nothing_by_its_neighbour() -> None:
    both = (MigEntry(None, True, {"3g.40gb": 2}),)
    lines = said(device(0), device(1, holders=held("train", "GPU-1")), entries=both)
    assert lines == [ALONE[0], "reset with GPU 1 of its board", ALONE[0], "reset with GPU 0 of its board"]


def test_scripts_get_the_same_and_nothing_where_no_reset_is_needed() -> None:
    status = GpuStatus("n", (device(0), device(1, holders=held("train", "GPU-1"))))
    gpus = gpus_of(status)
    goal, other = goals_by_entries(gpus, FIRST)
    resets = resets_among(gpus, status)
    holders = [{"pod": "ml/train", "device": "GPU 1"}]
    assert goal_json(goal, resets)["resetWith"] == [{"index": 1, "uuid": "GPU-1", "holders": holders}]
    assert "resetWith" not in goal_json(other, resets)
    newer = pretended_gpus("H100-94", 2)
    (turned,) = goals_by_entries(newer[:1], (MigEntry(None, True, {"3g.47gb": 1}),))
    assert turned.mode
    assert "resetWith" not in goal_json(turned, resets_among(newer))
