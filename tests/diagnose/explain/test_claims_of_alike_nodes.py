"""Nodes whose devices are alike for a pod's claims are asked once: with the answers that each gives alone."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from support.claim_fleets import (
    DRIVER,
    FAILS_ON_SOME,
    LARGE,
    MODEL,
    asking,
    asking_first_of,
    claim_fleet,
    claiming,
)
from tonnage.decide.kubernetes.claims.alike import devices_as_seen, traits_read_by
from tonnage.decide.kubernetes.claims.supply import Supply, gates_of, gates_shown, supply_of
from tonnage.diagnose.cluster_view import Ground, ground_of
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    ClaimAllocation,
    ClaimDeviceId,
    DeviceClass,
    NodeScope,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)
from tonnage.model.kubernetes.selectors import Taint
from tonnage.model.verdict import NodeVerdict

NODES = 80


def words(verdict: NodeVerdict) -> object:
    """Without what differs among alike nodes: names of nodes, and of who holds what."""
    return verdict.verdict, tuple(
        (reason.code, reason.layer, reason.lasting, tuple(getattr(reason, "causes", None) or ()))
        for reason in verdict.reasons
    )


@pytest.mark.sampled("random fleets with claims", share="1/3")
@pytest.mark.parametrize("version", ["1.35", "1.36"])
@pytest.mark.parametrize(
    "expected",
    [
        pytest.param(asking(9), id="more than any has"),
        pytest.param(asking(3, LARGE), id="by a capacity"),
        pytest.param(asking(3, MODEL), id="by an attribute"),
        pytest.param(asking(3, constraint=f"{DRIVER}/numa"), id="by a constraint"),
        pytest.param(asking(3, LARGE, constraint=f"{DRIVER}/model"), id="by both"),
        pytest.param(asking_first_of((3, LARGE), (4, MODEL)), id="by alternatives"),
        pytest.param(asking(1, FAILS_ON_SOME), id="by a selector that fails on some devices"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_every_node_has_the_answer_of_its_class(seed: int, expected: ResourceClaim, version: str) -> None:
    pod, claims = claiming("p", expected)
    snapshot = claim_fleet(random.Random(seed), NODES, version)
    snapshot = replace(snapshot, claims=(*snapshot.claims, *claims))
    ground = ground_of(snapshot)
    assert ground.engine is not None
    alone = Ground(ground.view, ground.remarkable)
    classes = explain_waiting_pod(ground, pod, with_remedies=False).classes
    single = {
        c.first.node: words(c.first) for c in explain_waiting_pod(alone, pod, with_remedies=False).classes
    }
    assert len(classes) < NODES
    assert {name: words(c.first) for c in classes for name in c.members} == single


@pytest.mark.parametrize(
    "expected",
    [asking(3, LARGE), asking(2, MODEL, constraint=f"{DRIVER}/numa")],
    ids=["three", "two together"],
)
def test_json_has_of_every_node_what_it_says_alone(expected: ResourceClaim) -> None:
    pod, claims = claiming("p", expected)
    snapshot = claim_fleet(random.Random("json"), NODES, "1.35")
    ground = ground_of(replace(snapshot, claims=(*snapshot.claims, *claims)))
    alone = Ground(ground.view, ground.remarkable)
    together, singly = (
        explain_waiting_pod(g, pod, with_remedies=False).to_json()["nodes"] for g in (ground, alone)
    )
    assert together == singly


def test_a_device_that_is_given_back_makes_nodes_alike_again() -> None:
    claim = asking(1)
    slices = tuple(
        ResourceSlice(f"00-{name}", DRIVER, name, scope=NodeScope(name), devices=(SliceDevice("gpu-0"),))
        for name in ("a", "b")
    )
    holder = AllocatedDevice("gpu", ClaimDeviceId(DRIVER, "a", "gpu-0"))
    held = ResourceClaim("ml", "held", "uid", allocation=ClaimAllocation((holder,)))
    supply = supply_of(slices, (DeviceClass("gpu"),), (claim, held), gates_of(35))
    assert len(_kinds(claim, supply)) == 2
    assert len(_kinds(claim, supply.with_claims((claim,)))) == 1


def _kinds(claim: ResourceClaim, supply: Supply) -> set[object]:
    traits = traits_read_by((claim,), supply)
    assert traits is not None
    return {devices_as_seen(name, traits, supply) for name in supply.by_node}


def test_a_node_whose_devices_share_counters_is_asked_anew_once_one_is_held() -> None:
    claim = asking(1)
    devices = tuple(
        SliceDevice(name, consumes={"set": {"memory": Fraction(1)}}) for name in ("mig-0", "mig-1")
    )
    part = ResourceSlice(
        "00-a", DRIVER, "a", scope=NodeScope("a"), devices=devices, counters={"set": {"memory": Fraction(1)}}
    )
    holder = AllocatedDevice("gpu", ClaimDeviceId(DRIVER, "a", "mig-0"))
    held = ResourceClaim("ml", "held", "uid", allocation=ClaimAllocation((holder,)))
    supply = supply_of((part,), (DeviceClass("gpu"),), (claim,), gates_shown(35, (part,)))
    assert _kinds(claim, supply) != _kinds(claim, supply.with_claims((claim, held)))


@pytest.mark.parametrize(
    ("device", "gate"),
    [
        pytest.param(SliceDevice("d", taints=(Taint("k", "", "NoSchedule"),)), "taints", id="a taint"),
        pytest.param(SliceDevice("d", shareable=True), "sharing", id="parts of a device"),
        pytest.param(SliceDevice("d", waits_for=("ready",)), "conditions", id="conditions of binding"),
        pytest.param(None, "partitions", id="counters"),
    ],
)
def test_a_field_that_a_server_has_kept_shows_its_gate(device: SliceDevice | None, gate: str) -> None:
    counters = {"set": {"memory": Fraction(1)}} if device is None else {}
    part = ResourceSlice("00-a", DRIVER, "a", devices=(device,) if device else (), counters=counters)
    assert gates_shown(35, (part,)) == replace(gates_of(35), **{gate: True})
    assert gates_shown(36, (part,)) == gates_of(36)
