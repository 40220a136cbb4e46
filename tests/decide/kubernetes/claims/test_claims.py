"""Claims within a whole scheduling cycle: order of plugins, preemption, scores, what is freed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.claims.allocator import ClaimDevices, allocate
from tonnage.decide.kubernetes.claims.supply import gates_of, supply_of
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule
from tonnage.model.kubernetes.cluster import Container, Node, Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    Capacity,
    ClaimAllocation,
    ClaimDeviceId,
    Constraint,
    Consumer,
    DeviceClass,
    DeviceRequest,
    Mode,
    NodeScope,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
    TaintRule,
)
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement, Taint

DRIVER = "gpu.example.com"
ANY = DeviceClass("gpu")
SICK = Taint("sick", "", "NoSchedule")
STILL = "still not schedulable, preemption: "


def node(name: str, cpu: int = 8000) -> Node:
    return Node(name, {"zone": name}, allocatable={"cpu": cpu, "memory": 2**36, "pods": 110})


def gpus(on: str, number: int, **device: object) -> ResourceSlice:
    devices = tuple(replace(SliceDevice(f"gpu-{i}"), **device) for i in range(number))  # type: ignore[arg-type]
    return ResourceSlice(f"s-{on}", DRIVER, on, scope=NodeScope(on), devices=devices)


def asks(count: int = 1, **fields: object) -> DeviceRequest:
    return replace(DeviceRequest("r", "gpu", count=count), **fields)  # type: ignore[arg-type]


def claim(name: str = "c", *requests: DeviceRequest, **fields: object) -> ResourceClaim:
    made = ResourceClaim("default", name, f"uid-{name}", requests or (asks(),))
    return replace(made, **fields)  # type: ignore[arg-type]


def has(on: str, device: str) -> ClaimAllocation:
    only = NodeSelectorTerm(fields=(Requirement("metadata.name", "In", (on,)),))
    return ClaimAllocation((AllocatedDevice("r", ClaimDeviceId(DRIVER, on, device)),), (only,))


def pod(name: str = "p", *claims: str, cpu: int = 0, **fields: object) -> Pod:
    entries = tuple(PodClaim(claim, claim) for claim in claims)
    container = Container("c", "i", {"cpu": cpu} if cpu else {})
    return replace(Pod(name, uid=f"uid-{name}", containers=(container,), claims=entries), **fields)  # type: ignore[arg-type]


def decided(waiting: Pod, cluster: Snapshot, version: str = "1.35") -> SchedulingDecision:
    return schedule(waiting, replace(cluster, device_classes=(ANY,)), version=version)


def test_a_pod_may_push_others_aside_for_room_but_not_for_devices() -> None:
    lesser = pod("lesser", cpu=8000, node_name="a", priority=-1)
    cluster = Snapshot((node("a"),), (lesser,), slices=(gpus("a", 1),), claims=(claim(),))
    asking = pod("p", "c", cpu=1000)
    assert decided(asking, cluster).nominated == "a"
    taken = replace(cluster, claims=(claim(), claim("o", allocation=has("a", "gpu-0"))))
    refused = decided(asking, taken)
    assert refused.message == (
        f"0/1 nodes are available: 1 Insufficient cpu. {STILL}"
        "0/1 nodes are available: 1 cannot allocate all claims."
    )


def test_an_error_on_a_node_that_is_cleared_for_trial_is_all_that_the_refusal_says() -> None:
    lesser = pod("lesser", cpu=8000, node_name="a", priority=-1)
    wrong = claim("c", asks(selectors=(f"device.attributes['{DRIVER}'].nope == 1",)))
    cluster = Snapshot((node("a"),), (lesser,), slices=(gpus("a", 1),), claims=(wrong,))
    assert decided(pod("p", "c", cpu=1000), cluster).message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: "
        'running "DynamicResources" filter plugin: claim default/c: selector #0: '
        "CEL runtime error: no such key: nope"
    )


def test_an_error_counts_only_on_nodes_that_no_other_plugin_refuses() -> None:
    wrong = claim("c", asks(selectors=(f"device.attributes['{DRIVER}'].nope == 1",)))
    cluster = Snapshot((node("a"), node("b")), slices=(gpus("a", 1),), claims=(wrong,))
    assert decided(pod("p", "c"), cluster).failed
    elsewhere = decided(pod("p", "c", node_selector={"zone": "b"}), cluster)
    assert (elsewhere.failed, "1 cannot allocate all claims" in elsewhere.message) == (False, True)


@pytest.mark.parametrize(
    ("users", "words"),
    [
        pytest.param((), "deallocation of ResourceClaim completed", id="that nobody uses is freed"),
        pytest.param(("uid-p",), "deallocation of ResourceClaim completed", id="that only the pod uses, too"),
        pytest.param(("uid-q",), "still not schedulable", id="that another uses stays"),
    ],
)
def test_a_claim_with_devices_out_of_reach(users: tuple[str, ...], words: str) -> None:
    consumers = tuple(Consumer(uid) for uid in users)
    away = claim(allocation=has("gone", "gpu-0"), reserved_for=consumers)
    said = decided(pod("p", "c"), Snapshot((node("a"),), claims=(away,))).message
    assert said.startswith(f"0/1 nodes are available: 1 resourceclaim not available on the node. {words}, ")


def test_the_earlier_alternative_weighs_more() -> None:
    fast = f"device.attributes['{DRIVER}'].kind == 'fast'"
    choice = DeviceRequest("r", alternatives=(asks(name="fast", selectors=(fast,)), asks(name="any")))
    slices = (gpus("a", 1, attributes={"kind": "slow"}), gpus("b", 1, attributes={"kind": "fast"}))
    cluster = Snapshot((node("a"), node("b")), slices=slices, claims=(claim("c", choice),))
    decision = decided(pod("p", "c"), cluster)
    column = {name: row["DynamicResources"] for name, row in decision.scores.items()}
    assert (decision.chosen, column) == ("b", {"a": 2 * (100 * 7 // 8), "b": 200})
    assert "DynamicResources" not in decided(pod("p", "c"), cluster, "1.34").scores["a"]


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        pytest.param(TaintRule(SICK, DRIVER, "a", "gpu-0"), False, id="the device by name"),
        pytest.param(TaintRule(SICK), False, id="every device"),
        pytest.param(TaintRule(SICK, pool="b"), True, id="another pool"),
        pytest.param(TaintRule(SICK, chooses=False), True, id="none"),
    ],
)
def test_a_rule_taints_devices_from_1_37_on(rule: TaintRule, fits: bool) -> None:
    cluster = Snapshot((node("a"),), slices=(gpus("a", 1),), claims=(claim(),), taint_rules=(rule,))
    assert (decided(pod("p", "c"), cluster, "1.37").chosen == "a") is fits
    assert decided(pod("p", "c"), cluster, "1.36").chosen == "a"


def test_pins_that_conflict_come_before_claims_that_are_wrong() -> None:
    cluster = Snapshot((node("a"),), claims=(claim("c", asks(device_class="none")),))
    said = decided(pod("p", "c"), cluster).message
    assert "request r: device class none does not exist. no new claims to deallocate, preemption" in said


def test_a_search_without_end_is_given_up_and_not_called_a_refusal() -> None:
    many = tuple(asks(count=4, name=f"r{i}") for i in range(4))
    uneven = Constraint(f"{DRIVER}/kind", distinct=True)
    slices = (gpus("a", 24, attributes={"kind": "same"}),)
    apart = claim("c", *many, constraints=(uneven,))
    cluster = Snapshot((node("a"),), slices=slices, claims=(apart,))
    assert decided(pod("p", "c"), cluster, "1.37").message


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()), min_size=1, max_size=4),
    st.sampled_from([34, 35, 36, 37]),
)
def test_no_device_is_given_twice_and_every_request_gets_what_it_asks(
    devices: list[tuple[int, bool]], asked: list[tuple[int, bool, bool]], minor: int
) -> None:
    capacity = {"memory": Capacity(Fraction(1))}
    found = tuple(SliceDevice(f"d{i}", {"kind": kind}, capacity) for i, (kind, _) in enumerate(devices))
    taken = tuple(claim(f"o{i}", allocation=has("a", f"d{i}")) for i, (_, held) in enumerate(devices) if held)
    slices = (ResourceSlice("s", DRIVER, "a", scope=NodeScope("a"), devices=found),)
    same = (Constraint(f"{DRIVER}/kind"),)
    claims = tuple(
        claim(f"c{i}", asks(count, mode=Mode.ALL if every else Mode.EXACT), constraints=same if alike else ())
        for i, (count, alike, every) in enumerate(asked)
    )
    outcome = allocate(claims, node("a"), supply_of(slices, (ANY,), (*taken, *claims), gates_of(minor)))
    if not isinstance(outcome, ClaimDevices):
        return
    given = [entry.id.device for part in outcome.devices for entry in part]
    held = {device.id.device for other in taken if other.allocation for device in other.allocation.devices}
    assert len(given) == len(set(given))
    assert not held & set(given)
    kind_of = {device.name: device.attributes["kind"] for device in found}
    for (count, alike, every), part in zip(asked, outcome.devices, strict=True):
        assert every or len(part) == count
        assert not alike or len({kind_of[entry.id.device] for entry in part}) == 1
