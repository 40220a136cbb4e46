"""Nodes whose devices are alike for a pod's claims are asked once: with the answers that each gives alone."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from tonnage.decide.kubernetes.claims.alike import device_signatures
from tonnage.decide.kubernetes.claims.supply import Supply, gates_of, supply_of
from tonnage.diagnose.cluster_view import Ground, ground_of
from tonnage.diagnose.explain.explain import explain_on
from tonnage.model.kubernetes.cluster import Container, Node, Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    Attribute,
    Capacity,
    ClaimAllocation,
    ClaimDeviceId,
    Constraint,
    DeviceClass,
    DeviceRequest,
    NodeScope,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)
from tonnage.model.kubernetes.selectors import Taint
from tonnage.model.verdict import NodeVerdict

DRIVER = "gpu.nvidia.com"
NODES = 80
LARGE = f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('40Gi'))"
MODEL = f"device.attributes['{DRIVER}'].model == 'B'"


def device(index: int, chance: random.Random) -> SliceDevice:
    attributes: dict[str, Attribute] = {"model": chance.choice("AB"), "uuid": f"GPU-{chance.random()}"}
    if chance.random() < 0.9:
        attributes["numa"] = chance.randrange(2)
    taints = (Taint("broken", "", "NoSchedule"),) if chance.random() < 0.1 else ()
    memory = Capacity(Fraction(chance.choice((16, 80)) << 30))
    return SliceDevice(f"gpu-{index}", attributes, {"memory": memory}, taints)


def cluster(seed: int, version: str) -> Snapshot:
    chance = random.Random(seed)
    amounts = {"cpu": 8000, "memory": 1 << 34, "pods": 110}
    nodes, slices, claims = [], [], []
    for number in range(NODES):
        name = f"node-{number:02}"
        taints = (Taint("gpu", "", "NoSchedule"),) if chance.random() < 0.2 else ()
        nodes.append(Node(name, taints=taints, capacity=amounts, allocatable=amounts))
        if chance.random() < 0.1:
            continue
        devices = tuple(device(index, chance) for index in range(chance.randrange(1, 4)))
        slices.append(
            ResourceSlice(
                *(f"00-{name}", DRIVER, name),
                slices=chance.choice((1,) * 9 + (2,)),
                scope=NodeScope(name),
                devices=devices,
            )
        )
        for entry in devices:
            if chance.random() < 0.4:
                holder = AllocatedDevice("gpu", ClaimDeviceId(DRIVER, name, entry.name))
                held = f"held-{name}-{entry.name}"
                claims.append(ResourceClaim("ml", held, held, allocation=ClaimAllocation((holder,))))
    classes = (DeviceClass("gpu", (f"device.driver == '{DRIVER}'",)),)
    return Snapshot(
        tuple(nodes),
        slices=tuple(slices),
        claims=tuple(claims),
        device_classes=classes,
        server_version=version,
    )


def ask(count: int, *selectors: str, constraint: str = "") -> tuple[Pod, ResourceClaim]:
    request = DeviceRequest("gpu", "gpu", count=count, selectors=selectors)
    constraints = (Constraint(constraint),) if constraint else ()
    claim = ResourceClaim("ml", "mine", "uid-mine", (request,), constraints)
    return Pod("p", "ml", uid="u", containers=(Container("c"),), claims=(PodClaim("gpu", "mine"),)), claim


def words(verdict: NodeVerdict) -> object:
    """Without what differs among alike nodes: names of nodes, and of who holds what."""
    return verdict.verdict, tuple(
        (reason.code, reason.layer, reason.lasting, tuple(getattr(reason, "causes", None) or ()))
        for reason in verdict.reasons
    )


@pytest.mark.parametrize("version", ["1.35", "1.36"])
@pytest.mark.parametrize(
    "pending",
    [
        pytest.param(ask(9), id="more than any has"),
        pytest.param(ask(3, LARGE), id="by a capacity"),
        pytest.param(ask(3, MODEL), id="by an attribute"),
        pytest.param(ask(3, constraint=f"{DRIVER}/numa"), id="by a constraint"),
        pytest.param(ask(3, LARGE, constraint=f"{DRIVER}/model"), id="by both"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_every_node_has_the_answer_of_its_class(
    seed: int, pending: tuple[Pod, ResourceClaim], version: str
) -> None:
    pod, claim = pending
    snapshot = cluster(seed, version)
    snapshot = replace(snapshot, claims=(*snapshot.claims, claim))
    ground = ground_of(snapshot)
    assert ground.engine is not None
    alone = Ground(ground.view, ground.remarkable)
    classes = explain_on(ground, pod, trying=False).classes
    single = {c.first.node: words(c.first) for c in explain_on(alone, pod, trying=False).classes}
    assert len(classes) < NODES
    assert {name: words(c.first) for c in classes for name in c.members} == single


def test_a_device_that_is_given_back_makes_nodes_alike_again() -> None:
    _, claim = ask(1)
    slices = tuple(
        ResourceSlice(f"00-{name}", DRIVER, name, scope=NodeScope(name), devices=(SliceDevice("gpu-0"),))
        for name in ("a", "b")
    )
    holder = AllocatedDevice("gpu", ClaimDeviceId(DRIVER, "a", "gpu-0"))
    held = ResourceClaim("ml", "held", "uid", allocation=ClaimAllocation((holder,)))
    supply = supply_of(slices, (DeviceClass("gpu"),), (claim, held), gates_of(35))
    assert len({*_signatures(claim, supply)}) == 2
    assert len({*_signatures(claim, supply.with_claims((claim,)))}) == 1


def _signatures(claim: ResourceClaim, supply: Supply) -> list[object]:
    signatures = device_signatures((claim,), supply)
    assert signatures is not None
    return [*signatures.values()]
