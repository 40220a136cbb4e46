"""How many devices a pod asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tonnage.agent.node_pods import requested_devices
from tonnage.wire.objects import Container, Pod, PodSpec, ResourceRequirements

GPU = "nvidia.com/gpu"


def container(gpus: int, restart_policy: str = "", **others: int) -> Container:
    limits: dict[str, Any] = {
        GPU: gpus,
        "cpu": "2",
        **{f"example.com/{name}": n for name, n in others.items()},
    }
    return Container(restart_policy=restart_policy, resources=ResourceRequirements(limits=limits))


@pytest.mark.parametrize(
    ("first", "then", "requested"),
    [
        pytest.param([], [container(2), container(1)], {GPU: 3}, id="containers run together"),
        pytest.param([container(4)], [container(1)], {GPU: 4}, id="a step before them has its own"),
        pytest.param([container(1)], [container(2)], {GPU: 2}, id="a step gives back"),
        pytest.param(
            [container(1, "Always"), container(2)],
            [container(1)],
            {GPU: 3},
            id="a sidecar runs beside all after it",
        ),
        pytest.param(
            [], [container(0, nic=2)], {"example.com/nic": 2}, id="other devices count, CPU does not"
        ),
    ],
)
def test_a_pod_asks_for_the_most_that_it_has_at_once(
    first: list[Container], then: list[Container], requested: Mapping[str, int]
) -> None:
    pod = Pod(spec=PodSpec(init_containers=first, containers=then))
    assert dict(requested_devices(pod)) == requested
