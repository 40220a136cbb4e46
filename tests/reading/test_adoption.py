"""Which devices each plugin offers, as the agent's report tells it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.model.adoption import AdoptionFacts
from tonnage.reading.adoption import adoption_facts_from
from tonnage.wire.objects import Node, NodeGPUStatus, ObjectMeta

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
HEALTHY = {"health": "Healthy"}


def facts(heartbeat: str = "2026-01-01T00:00:00Z", **status: Any) -> AdoptionFacts:
    meta = ObjectMeta(name="a")
    report = NodeGPUStatus(metadata=meta, status={"heartbeatAt": heartbeat, **status})
    return adoption_facts_from(Node(metadata=meta), report, (), NOW)


@pytest.mark.parametrize(
    ("device", "offers"),
    [
        pytest.param({"resource": GPU}, {(GPU, "GPU-1")}, id="a whole GPU"),
        pytest.param({"resource": GPU, "health": "Unhealthy"}, set(), id="kubelet has no unhealthy one"),
        pytest.param({}, set(), id="one that is not offered"),
        pytest.param(
            {
                "resource": MIG,
                "migDevices": [
                    {"uuid": "MIG-1", "resource": MIG, **HEALTHY},
                    {"uuid": "MIG-2", "resource": MIG, "health": "Unhealthy"},
                ],
            },
            {(MIG, "MIG-1")},
            id="MIG devices stand for the GPU",
        ),
        pytest.param(
            {"resource": GPU, "migDevices": [{"uuid": "MIG-1", **HEALTHY}]},
            {(GPU, "GPU-1")},
            id="unless the GPU is offered whole",
        ),
    ],
)
def test_the_agent_offers_what_has_a_resource(device: dict[str, Any], offers: set[tuple[str, str]]) -> None:
    assert facts(devices=[{"uuid": "GPU-1", **HEALTHY, **device}]).offers == offers


@pytest.mark.parametrize(
    ("told", "listed"),
    [
        pytest.param(
            [{"resource": GPU, "uuids": ["GPU-1", "GPU-2"]}], {(GPU, "GPU-1"), (GPU, "GPU-2")}, id="kubelet's"
        ),
        pytest.param(None, set(), id="nothing"),
        pytest.param([{"uuids": 5}, "x"], set(), id="what makes no sense"),
    ],
)
def test_kubelet_tells_which_devices_it_has(told: Any, listed: set[tuple[str, str]]) -> None:
    assert facts(kubeletDevices=told).listed == listed
    assert facts("2025-12-31T23:00:00Z", kubeletDevices=told).listed == set(), "an old report tells nothing"


def test_an_agent_that_waits_serves_nothing() -> None:
    shown = [{"name": GPU, "capacity": 4, "allocatable": 3}, {"name": MIG, "allocatable": 0}]
    assert facts(resources=shown).served == {GPU: 3}
    assert facts(resources=[]).served == {}
    assert facts("2025-12-31T23:00:00Z", resources=shown).served == {}, "an old report tells nothing"
