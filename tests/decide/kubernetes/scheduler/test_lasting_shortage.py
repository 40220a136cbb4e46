"""Whether what a node is short of can ever be had there: verdicts hang on it, NEVER or NOT_NOW."""

from __future__ import annotations

import pytest

from tonnage.decide.kubernetes.scheduler.scheduling import schedule
from tonnage.model.kubernetes.cluster import Container, HeldAmounts, Node, Pod, PodStatus, Snapshot

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


@pytest.mark.parametrize("release", ["1.35", "1.37"])
def test_what_a_node_can_never_give_a_container_does_not_count(release: str) -> None:
    has = HeldAmounts("c", actual={"memory": 2 * GIB})
    status = PodStatus("Running", resized=(has,), cannot_resize=True)
    asks = Container("c", requests={"memory": 100 * GIB})
    there = Pod("there", containers=(asks,), node_name="a", status=status)
    pod = Pod("p", containers=(Container("c", requests={"memory": 50 * GIB}),))
    assert schedule(pod, Snapshot((NODE,), (there,)), version=release).chosen == "a"
