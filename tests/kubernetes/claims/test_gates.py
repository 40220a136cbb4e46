"""Claims on a genuine node with the feature gates that 1.35 has off: MIG devices made for claims, taints and
health in the status of pods, parts of one GPU, and an extended resource that stands for a class.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest

from support.agent_additions import CHANGES
from support.bad_days import RECOVERY
from support.claim_manifests import CLASS, MIG_CLASS, alike, claim, claiming, opaque, request, template
from support.container_view import start
from support.genuine_claims import ClaimNode, gates_on
from support.genuine_node import until
from support.installed_agent import GPU, gpu_pod
from support.nvml.changes import compute_modes, mig_devices
from support.shapes_of_claims import SHAPES, everybody_has_theirs
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.model.devices.claims import UNHEALTHY
from tonnage.model.devices.inventory import ComputeMode

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("gates", "tidy")]

GATES: Final = (
    "DRAPartitionableDevices",
    "DRADeviceTaints",
    "DRAConsumableCapacity",
    "DRAExtendedResource",
    "ResourceHealthStatus",
)
SOON: Final = {"health": {"steadyFor": "1s"}}
"""A GPU that was lost is offered again soon."""


@pytest.fixture(scope="module")
def gates(claims: ClaimNode) -> Iterator[None]:
    with gates_on(claims.cluster, *GATES):
        yield


@pytest.fixture
def in_mig_mode(claims: ClaimNode, tidy: None) -> Iterator[None]:
    """The last GPU has MIG devices made for claims; whole again afterwards."""
    claims.divide(3)
    claims.configure({"devices": "all", "dynamicMig": True}, **SOON)
    until(lambda: "gpu-3-mig-1g10gb-19-0" in claims.devices())
    yield
    claims.clear()
    claims.divide(3, enabled=False)


def modes(claims: ClaimNode) -> list[int]:
    return compute_modes(claims.cluster.node.root.at(CHANGES), len(claims.agent.uuids))


def made(claims: ClaimNode) -> list[tuple[str, int]]:
    """The MIG devices of the last GPU, by profile and place."""
    state_file = claims.cluster.node.root.at(CHANGES)
    return sorted((mig.profile, mig.start) for mig in mig_devices(claims.agent.driver.state, state_file, 3))


def taints(claims: ClaimNode, gpu: int) -> set[str]:
    """Of the GPU, or of each MIG device that it is or can be."""
    name = f"gpu-{gpu}"
    devices = [
        entry for entry in claims.published() if entry["name"] == name or entry["name"].startswith(f"{name}-")
    ]
    assert devices
    return {
        taint["key"] if device.get("taints") else ""
        for device in devices
        for taint in device.get("taints", [{}])
    }


def health(claims: ClaimNode, pod: str) -> set[str]:
    """Of the devices of a pod's claim, as its status says."""
    statuses = claims.cluster.get("pod", pod)["status"].get("containerStatuses", ())
    return {
        resource["health"]
        for status in statuses
        for entry in status.get("allocatedResourcesStatus", ())
        if entry["name"].startswith("claim:")
        for resource in entry.get("resources", ())
    }


def reported(name: str, *requests: Any, **fields: Any) -> tuple[Any, Mapping[str, str]]:
    """What a pod claims by if kubelet is to write its devices' health into the pod's status, and how.

    1.34 does so only of a claim that has the name that the pod gives it, 1.35 only of a template's.
    """
    if chosen_minor(os.environ) == "1.34":
        return claim("gpu", *requests, **fields), {"by": "gpu"}
    return template(name, *requests, **fields), {"of": name}


@contextmanager
def ill(claims: ClaimNode, gpu: int, pod: str, record: Callable[[str, object], None]) -> Iterator[None]:
    """A GPU is lost; the slice and the status of a pod that has it say so, and then no longer."""
    until(lambda: health(claims, pod) == {"Healthy"} and taints(claims, gpu) == {""})
    began = time.monotonic()
    claims.agent.driver.lose(gpu)
    until(lambda: taints(claims, gpu) == {UNHEALTHY})
    figures = {"taint_s": time.monotonic() - began}
    until(lambda: health(claims, pod) == {"Unhealthy"})
    figures["pod_status_s"] = time.monotonic() - began
    yield
    assert claims.cluster.phase(pod) == "Running"
    began = time.monotonic()
    claims.agent.driver.recover(gpu)
    until(lambda: taints(claims, gpu) == {""})
    figures["taint_gone_s"] = time.monotonic() - began
    until(lambda: health(claims, pod) == {"Healthy"})
    figures["pod_status_again_s"] = time.monotonic() - began
    rounded = {key: round(value, 2) for key, value in figures.items()}
    record(RECOVERY, json.dumps({"fault": f"a GPU of claims is lost for a while: {pod}", **rounded}))


@pytest.mark.usefixtures("in_mig_mode")
def test_mig_devices_are_made_for_claims_fall_ill_recover_and_go_with_them(
    claims: ClaimNode, record_property: Callable[[str, object], None]
) -> None:
    def of(profile: str) -> str:
        return f"device.attributes['{CLASS}'].profile == '{profile}'"

    small = request("small", of=MIG_CLASS, expression=of("1g.10gb"))
    large = request("large", of=MIG_CLASS, expression=of("3g.40gb"))
    both, parts = reported("both", small, large, constraints=[alike(f"{CLASS}/parentUUID")])
    claims.cluster.apply(both, template("small", small))
    start(
        claims.cluster, claiming("parts", **parts, containers=("small", "large")), claiming("b", of="small")
    )
    assert [profile for profile, _ in made(claims)] == ["1g", "1g", "3g"]
    held = claims.capabilities("parts"), claims.capabilities("parts", "main-1"), claims.capabilities("b")
    assert sorted(map(len, held)) == [2, 2, 2]
    assert len(set().union(*held)) == 6
    with ill(claims, 3, "parts", record_property):
        claims.cluster.apply(claiming("c", of="small"))
        until(lambda: "cannot allocate all claims" in claims.cluster.kubectl("describe", "pod", "c"))
    start(claims.cluster, claiming("c", of="small"))
    assert [profile for profile, _ in made(claims)] == ["1g", "1g", "1g", "3g"]
    claims.clear()
    assert made(claims) == []


def test_a_gpu_that_is_shared_by_mps_falls_ill_and_recovers(
    claims: ClaimNode, record_property: Callable[[str, object], None]
) -> None:
    claims.configure({"devices": "all"}, **SOON)
    shared, own = reported("shared", config=[opaque(strategy="MPS")])
    claims.cluster.apply(shared)
    start(claims.cluster, claiming("mps", **own, containers=("", "")))
    (gpu,) = claims.gpus("mps")
    with ill(claims, gpu, "mps", record_property):
        assert modes(claims)[gpu] == ComputeMode.EXCLUSIVE_PROCESS
    assert claims.gpus("mps") == {gpu}


def test_pods_have_parts_of_one_gpu_as_long_as_its_memory_lasts(claims: ClaimNode) -> None:
    def part(memory: str) -> Any:
        return template(memory.lower(), request(capacity={"requests": {"memory": memory}}))

    claims.configure({"devices": [0], "consumableShares": "memory"})
    until(lambda: [bool(entry.get("allowMultipleAllocations")) for entry in claims.published()] == [True])
    claims.cluster.apply(part("30Gi"), part("60Gi"))
    start(claims.cluster, claiming("a", of="30gi"), claiming("b", of="30gi"))
    assert claims.gpus("a") == claims.gpus("b") == {0}
    claims.cluster.apply(claiming("c", of="60gi"))
    until(lambda: "cannot allocate all claims" in claims.cluster.kubectl("describe", "pod", "c"))
    claims.cluster.kubectl("delete", "pods", "a", "b", "--now")
    start(claims.cluster, claiming("c", of="60gi"))
    assert claims.gpus("c") == {0}


@pytest.mark.sampled("shapes of claims on a node, with gates on", share="1/5")
@pytest.mark.parametrize("name", SHAPES)
def test_each_container_has_just_the_gpus_of_its_claim_with_gates_on(claims: ClaimNode, name: str) -> None:
    everybody_has_theirs(claims, SHAPES[name])


def test_a_pod_that_asks_for_the_extended_resource_of_a_class_gets_claimed_gpus(claims: ClaimNode) -> None:
    """The class came to the server while the gate was off, and so without the resource."""
    if chosen_minor(os.environ) == "1.34":
        pytest.skip("1.34 takes no claims on a node that has offered the resource before")
    name = json.dumps({"spec": {"extendedResourceName": GPU}})
    claims.cluster.kubectl("patch", "deviceclass", CLASS, "--type=merge", "-p", name)
    start(claims.cluster, gpu_pod("a", 2, 1))
    assert (len(claims.gpus("a")), len(claims.gpus("a", "main-1"))) == (2, 1)
    assert claims.gpus("a").isdisjoint(claims.gpus("a", "main-1"))
    claims.agrees()
