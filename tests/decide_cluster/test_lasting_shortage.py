"""Whether what a node is short of can ever be had there: verdicts hang on it, NEVER or NOT_NOW."""

from __future__ import annotations

import pytest

from tonnage.decide.cluster.scheduling import schedule
from tonnage.model.cluster import Container, Node, Pod, Snapshot

GIB = 1024**3
NODE = Node(
    "a",
    allocatable={"cpu": 31850, "memory": 125 * GIB, "pods": 110, "nvidia.com/gpu": 7},
    capacity={"cpu": 32000, "memory": 128 * GIB, "pods": 110, "nvidia.com/gpu": 8},
)


@pytest.mark.parametrize(
    ("resource", "amount", "lasting"),
    [
        pytest.param("cpu", 32000, True, id="CPUs that are kept for the system"),
        pytest.param("memory", 128 * GIB, True, id="memory that is kept for the system"),
        pytest.param("nvidia.com/gpu", 8, False, id="a GPU that is ill"),
        pytest.param("nvidia.com/gpu", 9, True, id="a GPU that is not there"),
    ],
)
def test_what_is_reserved_never_comes_back(resource: str, amount: int, lasting: bool) -> None:
    pod = Pod("p", containers=(Container("c", requests={resource: amount}),))
    (refusal,) = schedule(pod, Snapshot((NODE,))).refusals["a"]
    assert [reason.lasting for reason in refusal.reasons] == [lasting]


def test_amounts_that_look_alike_are_told_in_full() -> None:
    pod = Pod("p", containers=(Container("c", requests={"memory": 125 * GIB + 1}),))
    (refusal,) = schedule(pod, Snapshot((NODE,))).refusals["a"]
    assert refusal.reasons[0].message == (
        "asks 134217728001 memory, the whole node has 134217728000 allocatable"
    )
