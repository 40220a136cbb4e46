"""Which containers have which device by a claim, as kubelet's pod resources API tells it."""

from __future__ import annotations

import pytest

from tonnage.adapters.kubelet.device_holders import shown_of
from tonnage.decide.node.claims.claim_holders import claim_names, named_holds, with_containers
from tonnage.decide.node.exporter.holders import holders_of
from tonnage.decide.node.exporter.shares import shares_of
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.node.telemetry import GpuEntity, HoldingContainer
from tonnage.wire.kubelet import podresources_v1_pb2 as wire

PART = MigDevice("MIG-1", 0, "1g.10gb+me", 9, 0, 9728, placement=(2, 1), profile_number=20)
INVENTORY = Inventory(
    (
        Device("GPU-a", 0, "A100", 81920, minor=1),
        Device("GPU-b", 1, "A100", 81920, minor=0, migs=(PART,)),
        Device("GPU-c", 2, "A100", 81920),
    )
)
NOTED = Hold("ml/claim", ("GPU-a", "GPU-b"), "ml", "first", kind=HoldKind.CLAIM)
PLAIN = Hold("nvidia.com/gpu", ("GPU-c",), "ml", "old", "main")


def listed(pod: str, *devices: str, container: str = "main", claim: str = "ml/claim") -> Hold:
    return Hold(claim, devices, "ml", pod, container, kind=HoldKind.CLAIM)


def test_names_are_those_that_the_driver_publishes() -> None:
    assert claim_names(INVENTORY) == {"gpu-1": "GPU-a", "gpu-0": "GPU-b", "gpu-0-mig-1g10gbme-20-2": "MIG-1"}


def test_kubelets_list_tells_claims_of_our_driver() -> None:
    ours = wire.ClaimResource(driver_name="gpu.nvidia.com", pool_name="a", device_name="gpu-0")
    other = wire.ClaimResource(driver_name="gpu.example.com", pool_name="a", device_name="gpu-1")
    claims = [
        wire.DynamicResource(claim_name=name, claim_namespace="ml", claim_resources=parts)
        for name, parts in (("claim", [ours, other]), ("theirs", [other]))
    ]
    container = wire.ContainerResources(name="main", dynamic_resources=claims)
    pod = wire.PodResources(name="train", namespace="ml", containers=[container])
    shown = shown_of(wire.ListPodResourcesResponse(pod_resources=[pod]))
    assert shown.claims == (listed("train", "gpu-0"),)
    assert shown.holds == ()


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([], [NOTED], id="kubelet lists no container yet"),
        pytest.param([listed("p", "gpu-9")], [NOTED], id="a device that is not known"),
        pytest.param([listed("p", "gpu-1", claim="ml/other")], [NOTED], id="another claim"),
        pytest.param(
            [listed("p", "gpu-0", "gpu-1")], [listed("p", "GPU-b", "GPU-a")], id="a container has both"
        ),
        pytest.param(
            [listed("p", "gpu-1"), listed("p", "gpu-0", container="side"), listed("q", "gpu-1")],
            [listed("p", "GPU-a"), listed("p", "GPU-b", container="side"), listed("q", "GPU-a")],
            id="each container has a request, and two pods share the claim",
        ),
    ],
)
def test_a_claims_hold_stands_once_for_each_container(claims: list[Hold], expected: list[Hold]) -> None:
    holds = with_containers([PLAIN, NOTED], claims, claim_names(INVENTORY))
    assert holds == (PLAIN, *expected)


def test_rows_of_devices_name_the_pod_that_claims_them() -> None:
    gpu = GpuEntity(0, "GPU-a", "00000000:01:00.0", "A100")
    holds = list(named_holds([listed("p", "gpu-1")], claim_names(INVENTORY)))
    assert holders_of(holds, [gpu]) == {("GPU-a", None): (HoldingContainer("ml", "p", "main"),)}


def test_pods_that_share_a_claim_have_equal_parts_under_its_name() -> None:
    gpu = GpuEntity(0, "GPU-a", "00000000:01:00.0", "A100")
    holds = list(named_holds([listed("p", "gpu-1"), listed("q", "gpu-1")], claim_names(INVENTORY)))
    shares = shares_of(holds, [gpu], {})["GPU-a", None]
    assert [(s.user.pod, s.user.claim, s.user.resource, s.alone) for s in shares] == [
        ("p", "ml/claim", "", False),
        ("q", "ml/claim", "", False),
    ]
    assert sum(share.part for share in shares) == 1


def test_what_is_noted_of_a_claim_is_not_changed() -> None:
    assert with_containers([NOTED], [listed("p", "gpu-1")], {}) == (NOTED,)
