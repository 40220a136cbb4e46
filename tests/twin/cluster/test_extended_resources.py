"""Pods that ask for nvidia.com/gpu where GPUs are claims: a class stands for it, with the gate on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.fleet import Fleet, running_fleet
from tonnage.model.json import JsonObject
from tonnage.wire import kinds
from tonnage.wire.claims import ResourceClaim

_GPU = "nvidia.com/gpu"
SCENARIO = """
name: classes
featureGates: {DRAExtendedResource: true}
groups:
- {name: claimed, nodes: 1, gpu: {model: A100-80, count: 4}, config: claims}
configs:
  claims: {version: v1, claims: {devices: all}}
"""


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with running_fleet(SCENARIO) as fleet:
        await fleet.until(lambda: _publishes(fleet, 4))
        yield fleet


async def _publishes(fleet: Fleet, count: int) -> bool:
    slices = (await fleet.api.list(kinds.RESOURCE_SLICE)).items
    return [len(each.spec["devices"]) for each in slices] == [count]


async def _claims(fleet: Fleet) -> dict[str, ResourceClaim]:
    """By the name of the pod."""
    claims = (await fleet.api.list(kinds.RESOURCE_CLAIM, namespace="default")).items
    return {claim.metadata.owner_references[0].name: claim for claim in claims}


async def _run(fleet: Fleet, name: str, *counts: int, **spec: Any) -> None:
    container: JsonObject = {"image": "busybox:1.37", "command": ["sleep", "infinity"]}
    containers = [
        {"name": f"c{place}", **container, "resources": {"limits": {_GPU: str(count)}}}
        for place, count in enumerate(counts)
    ]
    body: Any = {"containers": containers, "terminationGracePeriodSeconds": 0, **spec}
    await fleet.api.create(kinds.POD, {"metadata": {"name": name}, "spec": body}, namespace="default")


async def _gpus(fleet: Fleet, pod: str, container: str = "c0") -> set[str]:
    query = ("nvidia-smi", "--query-gpu=gpu_uuid", "--format=csv,noheader")
    return set((await fleet.kubectl("exec", pod, "-c", container, "--", *query)).split())


async def test_containers_have_just_the_gpus_of_the_claim_that_the_scheduler_made(fleet: Fleet) -> None:
    await _run(fleet, "a", 2, 1)
    await fleet.until_phase("a", "Running")
    first, second = await _gpus(fleet, "a"), await _gpus(fleet, "a", "c1")
    assert (len(first), len(second)) == (2, 1)
    assert first.isdisjoint(second)
    [row] = (await fleet.kubectl("get", "resourceclaims", "--no-headers")).splitlines()
    assert row.split()[1] == "allocated,reserved"
    await _run(fleet, "b", 1)
    await fleet.until_phase("b", "Running")
    assert (await _gpus(fleet, "b")).isdisjoint(first | second)
    await _run(fleet, "c", 3)
    await fleet.until(lambda: _waits(fleet, "c"))
    await fleet.api.delete(kinds.POD, "a", namespace="default")
    await fleet.until_phase("c", "Running")
    assert await _gpus(fleet, "c") == first | second
    assert set(await _claims(fleet)) == {"b", "c"}


async def _waits(fleet: Fleet, pod: str) -> bool:
    return any(
        "cannot allocate all claims" in each.message for each in (await fleet.pod(pod)).status.conditions
    )


async def test_the_claim_goes_when_its_pod_has_ended(fleet: Fleet) -> None:
    await _run(fleet, "a", 4, restartPolicy="Never", activeDeadlineSeconds=1)
    await fleet.until_phase("a", "Failed")
    await fleet.until(lambda: _has_none(fleet))
    await _run(fleet, "b", 4)
    await fleet.until_phase("b", "Running")


async def _has_none(fleet: Fleet) -> bool:
    return not await _claims(fleet)


async def test_kubelet_and_agent_know_them_after_a_restart(fleet: Fleet) -> None:
    await _run(fleet, "a", 4)
    await fleet.until_phase("a", "Running")
    before = await _gpus(fleet, "a")
    await fleet.cluster.nodes["claimed-0"].kubelet.restart()
    await fleet.until(lambda: _publishes(fleet, 4))
    await _run(fleet, "b", 1)
    await fleet.until(lambda: _waits(fleet, "b"))
    assert await _gpus(fleet, "a") == before
