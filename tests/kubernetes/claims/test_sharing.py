"""Parts of GPUs by claims on a genuine node: time slices, MPS control daemons, MIG devices of one GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.agent_additions import CHANGES, time_slices
from support.claim_manifests import CLASS, MIG_CLASS, alike, claim, claiming, opaque, request, template
from support.container_view import look, start
from support.genuine_claims import CAPABILITIES, MPS_ROOT, WHOLE, ClaimNode
from support.genuine_node import NODE_NAME, until
from support.installed_agent import GPU, gpu_pod
from support.nvml.changes import compute_modes
from support.nvml.state import FakeMig
from tonnage.model.devices.inventory import ComputeMode, TimeSlice

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]

PARENT = f"{CLASS}/parentUUID"
PARTS = (FakeMig("1g", 0, gi=7), FakeMig("1g", 1, gi=8), FakeMig("3g", 4, gi=2))
NAMES = ("gpu-3-mig-1g10gb-19-0", "gpu-3-mig-1g10gb-19-1", "gpu-3-mig-3g40gb-9-4")


@pytest.fixture
def divided(claims: ClaimNode, tidy: None) -> Iterator[None]:
    """The last GPU is three MIG devices, and whole again afterwards."""
    claims.divide(3, *PARTS)
    claims.offer(*WHOLE[:3], *NAMES)
    yield
    claims.clear()
    claims.divide(3, enabled=False)


def profile(name: str) -> str:
    return f"device.attributes['{CLASS}'].profile == '{name}'"


def of_instance(number: int) -> set[int]:
    """The capabilities of the MIG device that is all of a GPU instance."""
    return {CAPABILITIES[f"gi{number}/access"], CAPABILITIES[f"gi{number}/ci0/access"]}


def modes(claims: ClaimNode) -> list[int]:
    return compute_modes(claims.cluster.node.root.at(CHANGES), len(claims.agent.uuids))


def test_a_gpu_has_the_time_slice_of_its_claim_and_its_own_again_afterwards(claims: ClaimNode) -> None:
    long = opaque(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})
    short = opaque(strategy="TimeSlicing", timeSlicingConfig={"interval": "Short"}, requests=["y"])
    claims.cluster.apply(claim("sliced", request("x"), request("y"), config=[long, short]))
    start(claims.cluster, claiming("a", by="sliced", containers=("x", "y")))
    (x,), (y,) = claims.gpus("a"), claims.gpus("a", "main-1")
    wanted = {claims.agent.uuids[x]: TimeSlice.LONG, claims.agent.uuids[y]: TimeSlice.SHORT}
    assert time_slices(claims.agent) == wanted
    claims.clear()
    assert time_slices(claims.agent) == dict.fromkeys(wanted, TimeSlice.DEFAULT)


def test_containers_of_a_claim_have_one_mps_daemon_with_its_limits(claims: ClaimNode) -> None:
    mps = opaque(strategy="MPS", mpsConfig={"defaultActiveThreadPercentage": 40})
    claims.cluster.apply(claim("shared", config=[mps]), template("one"))
    start(claims.cluster, claiming("a", by="shared", containers=("", "")), claiming("b", by="shared"))
    (gpu,) = claims.gpus("a")
    exclusive = [ComputeMode.EXCLUSIVE_PROCESS if slot == gpu else 0 for slot in range(4)]
    assert modes(claims) == exclusive
    seen = 'test -S "$CUDA_MPS_PIPE_DIRECTORY/control" && echo "$CUDA_MPS_PIPE_DIRECTORY"'
    pipes = {
        claims.cluster.inside(pod, "sh", "-c", seen, container=container).strip()
        for pod, container in (("a", "main"), ("a", "main-1"), ("b", "main"))
    }
    assert len(pipes) == 1
    claims.cluster.inside("a", "sh", "-c", "echo hello > /dev/shm/mps.shm")
    assert claims.cluster.inside("b", "cat", "/dev/shm/mps.shm").strip() == "hello"
    start(claims.cluster, claiming("c", of="one"))
    assert claims.cluster.inside("c", "sh", "-c", 'echo "$CUDA_MPS_PIPE_DIRECTORY"').strip() == ""
    claims.clear()
    assert modes(claims) == [0, 0, 0, 0]
    folders = f"{MPS_ROOT}/claim"
    assert claims.cluster.node.run("ls", folders, check=False).stdout.strip() == b""


@pytest.mark.usefixtures("divided")
def test_a_claim_has_several_mig_devices_of_one_gpu_and_other_claims_the_rest(claims: ClaimNode) -> None:
    small = request("small", of=MIG_CLASS, expression=profile("1g.10gb"))
    large = request("large", of=MIG_CLASS, expression=profile("3g.40gb"))
    claims.cluster.apply(
        template("both", small, large, constraints=[alike(PARENT)]),
        template("small", small),
        template("whole", request(count=3)),
    )
    start(
        claims.cluster,
        claiming("a", of="both", containers=("small", "large", "")),
        claiming("b", of="small"),
        claiming("c", of="whole"),
    )
    first, other = claims.capabilities("a"), claims.capabilities("b")
    assert {frozenset(first), frozenset(other)} == {frozenset(of_instance(gi)) for gi in (7, 8)}
    assert claims.capabilities("a", "main-1") == of_instance(2)
    assert claims.capabilities("a", "main-2") == first | of_instance(2)
    assert claims.gpus("c") == {0, 1, 2}
    parts = {
        gi: claims.agent.driver.state.gpu(3).mig_uuid(part) for gi, part in zip((7, 8, 2), PARTS, strict=True)
    }
    own = {parts[2], parts[7 if first == of_instance(7) else 8]}
    until(lambda: claims.agent.holders().get(("default", "a")) == own)
    assert len(claims.specs()) == 3


def test_what_is_not_understood_keeps_its_pod_waiting_with_the_reason(
    claims: ClaimNode,
) -> None:
    claims.cluster.apply(
        claim("odd", config=[opaque(strategy="TimeSlicing", speed="high")]),
        claim("vfio", config=[opaque("VfioDeviceConfig")]),
        claiming("a", by="odd"),
        claiming("b", by="vfio"),
        claiming("c", by="deep"),
    )
    deep = json.dumps(claim("deep", config=[opaque(depths=None)])).replace("null", "[" * 4900 + "]" * 4900)
    claims.cluster.kubectl("create", "-f", "-", standard_input=deep)
    for pod, why in (("a", "speed"), ("b", "VfioDeviceConfig"), ("c", 'unknown field "sharing.depths"')):
        until(lambda pod=pod, why=why: why in claims.refusals(pod))  # type: ignore[misc]
        assert claims.cluster.get("pod", pod)["spec"]["nodeName"] == NODE_NAME
    assert claims.noted() == {}


def test_a_gpu_is_a_claim_or_an_extended_resource_and_both_kinds_run_side_by_side(claims: ClaimNode) -> None:
    claims.configure({"devices": [0, 2]})
    until(lambda: claims.devices() == ["gpu-0", "gpu-2"] and claims.cluster.allocatable(GPU) == 2)
    claims.cluster.apply(template("one"))
    start(claims.cluster, claiming("a", of="one"), gpu_pod("b", 2))
    assert claims.gpus("a") in ({0}, {2})
    assert set(look(claims.cluster, "b").visible.split(",")) == {claims.agent.uuids[1], claims.agent.uuids[3]}
    until(lambda: {pod for _, pod in claims.agent.holders()} == {"a", "b"})
    claims.cluster.kubectl("delete", "pods", "--all", "--now")
