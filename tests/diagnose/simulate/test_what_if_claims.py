"""What becomes of claims and their devices in a simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.what_ifs import FLEET, node, pod, tried, waiting, whereabouts
from tonnage.model.changes import (
    AddNodes,
    AddWorkload,
    Change,
    Drain,
    NodeSelection,
    RemoveNodes,
    SetMig,
)
from tonnage.model.kubernetes.cluster import (
    Manifest,
    Snapshot,
)
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    ClaimAllocation,
    ClaimDeviceId,
    ClaimTemplate,
    Consumer,
    DeviceClass,
    DeviceRequest,
    NodeScope,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)

CLASS = DeviceClass("gpu", ("device.driver == 'gpu.nvidia.com'",))


ASKS = (DeviceRequest("gpu", "gpu"),)


def _with_claims(*held: str) -> Snapshot:
    """Two nodes with a device each that a driver publishes; pods with claims of a template run on `held`."""
    slices = tuple(
        ResourceSlice(n, "gpu.nvidia.com", n, scope=NodeScope(n), devices=(SliceDevice("gpu-0"),))
        for n in ("a100-0", "a100-1")
    )
    pods, claims = [], []
    for name in held:
        new_pod = pod(f"job-{name}", 0, on=name, claims=(PodClaim("gpu", template="gpu", made=f"c-{name}"),))
        pods.append(new_pod)
        device = AllocatedDevice("gpu", ClaimDeviceId("gpu.nvidia.com", name, "gpu-0"))
        claims.append(
            ResourceClaim("ml", f"c-{name}", requests=ASKS, allocation=ClaimAllocation((device,)),
                          reserved_for=(Consumer(new_pod.uid, new_pod.name),), owner=new_pod.uid)
        )  # fmt: skip
    return Snapshot(
        FLEET[:2], tuple(pods), slices=slices, device_classes=(CLASS,), claims=tuple(claims),
        claim_templates=(ClaimTemplate("ml", "gpu", ASKS),), server_version="v1.35.0",
    )  # fmt: skip


def test_claims_move_with_their_pods_and_devices_go_with_their_nodes() -> None:
    moved = tried(_with_claims("a100-0"), RemoveNodes(NodeSelection("a100-0")))
    assert whereabouts(moved) == {"job-a100-0": "a100-1"}
    full = tried(_with_claims("a100-0", "a100-1"), RemoveNodes(NodeSelection("a100-0")))
    assert waiting(full) == {"claim-not-allocatable": 1}
    more = tried(
        _with_claims("a100-0", "a100-1"), AddNodes(1, like="a100-1"), RemoveNodes(NodeSelection("a100-0"))
    )
    assert whereabouts(more) == {"job-a100-0": "a100-1-new-0"}


def test_nodes_of_a_product_offer_nothing_for_claims_and_a_note_says_so() -> None:
    amounts = {"cpu": 96_000, "memory": 1 << 40}
    added = AddNodes(1, product="H100-80", gpus=8, amounts=amounts)
    after = tried(_with_claims("a100-0", "a100-1"), added, Drain(NodeSelection("a100-0")))
    assert after.counts["pending"] == 1
    assert any("added nodes offer nothing for claims: h100-80-new-0" in note for note in after.notes)
    assert not any(
        "for claims" in note for note in tried(_with_claims("a100-0"), AddNodes(1, like="a100-1")).notes
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), (2, 1, 1, 0), id="as it is"),
        pytest.param((Drain(NodeSelection("a100-0")),), (2, 1, 0, 1), id="drained: its device is cordoned"),
        pytest.param((AddNodes(2, like="a100-1"),), (4, 1, 3, 0), id="nodes added"),
        pytest.param((RemoveNodes(NodeSelection("a100-1")),), (1, 1, 0, 0), id="a node removed"),
    ],
)
def test_devices_of_a_class_are_counted_as_resources_are(
    changes: tuple[Change, ...], expected: tuple[int, int, int, int]
) -> None:
    figures = tried(_with_claims("a100-0"), *changes).resource("gpu.deviceclass.resource.k8s.io/devices")
    assert figures is not None
    assert (figures.capacity, figures.allocated, figures.free, figures.cordoned) == expected


def test_two_new_pods_never_get_one_device() -> None:
    template = pod("new", 0, claims=(PodClaim("gpu", template="gpu"),))
    added = AddWorkload("w.yaml", 3, (Manifest("Job.batch", "new", template),))
    after = tried(_with_claims("a100-0"), added)
    assert sorted(filter(None, whereabouts(after).values())) == ["a100-1"]
    assert after.counts["pending"] == 2
    [reason] = tried(_with_claims(), added).waiting
    assert reason.remedy == "wait until claim ml/new-new-0-gpu- of new-new-0 has ended"


def test_a_pod_that_asks_for_the_resource_of_a_class_is_given_its_devices() -> None:
    """A class with a resource's name shows that the gate is on, which is off by default in 1.35."""
    nodes = tuple(node(f"a100-{n}", 0) for n in range(2))
    stands = replace(CLASS, extended_resource="nvidia.com/gpu", created=1.0)
    base = replace(_with_claims(), nodes=nodes, device_classes=(stands,))
    added = AddWorkload("w.yaml", 3, (Manifest("Job.batch", "new", pod("new", 1)),))
    after = tried(base, added)
    assert after.counts["pending"] == 1, after.waiting
    assert waiting(after) == {"claim-not-allocatable": 1}


def test_what_a_driver_publishes_for_gpus_set_otherwise_is_not_guessed() -> None:
    waits = _with_claims("a100-0")
    after = tried(waits, SetMig(NodeSelection("a100-1"), "all-1g.10gb"), Drain(NodeSelection("a100-0")))
    assert after.counts["unknown"] == 1
    assert "does not derive" in next(iter(after.unknown))
