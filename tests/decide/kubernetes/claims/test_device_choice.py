"""The kubelet's device choice against 200 nodes recorded from Kubernetes 1.36.2 (KUB-3, TOP-2)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.kubelet.devices import (
    AskPlugin,
    ContainerDeviceRequest,
    Devices,
    DeviceSelection,
    Unavailable,
    choose,
    hints_for,
    prefer,
)
from tonnage.decide.kubernetes.kubelet.topology_manager import Hint, NumaTopology, TopologyPolicy, admit

VECTORS = Path(__file__).parents[3] / "data" / "kubelet-1.36.2-topology-devices-200.json.gz"
CASES: list[dict[str, Any]] = json.loads(gzip.decompress(VECTORS.read_bytes()))["cases"]
POLICIES = [TopologyPolicy.BEST_EFFORT, TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE]


def mask_of(nodes: list[int] | None) -> int | None:
    return None if nodes is None else sum(1 << node for node in nodes)


def devices_of(resource: dict[str, Any]) -> Devices:
    return Devices(
        resource["name"],
        {device: mask_of(nodes or []) or 0 for device, nodes in resource["devices"].items()},
        frozenset(resource["healthy"] or []),
        frozenset(resource["allocated"] or []),
    )


def hints_of(resource: dict[str, Any]) -> tuple[Hint, ...] | None:
    if resource.get("hints_nil"):
        return None
    return tuple(Hint(mask_of(hint["mask"]), hint["preferred"]) for hint in resource["hints"] or [])


def reusable_of(resource: dict[str, Any]) -> frozenset[str]:
    return frozenset(resource.get("reusable") or [])


@pytest.mark.sampled("recorded choices of devices")
@pytest.mark.parametrize("number", range(len(CASES)))
def test_hints_equal_the_recorded_ones(number: int) -> None:
    for resource in CASES[number]["resources"]:
        got = hints_for(devices_of(resource), resource["request"], reusable_of(resource))
        assert got == hints_of(resource)


@pytest.mark.sampled("recorded choices of devices")
@pytest.mark.parametrize("number", range(len(CASES)))
def test_merged_hint_and_admission_equal_the_recorded_ones(number: int) -> None:
    case = CASES[number]
    offers = [hints_of(resource) for resource in case["resources"]]
    distances = tuple(tuple(row) for row in case["distances"])
    for key, expected in case["merge"].items():
        policy, _, closest = key.partition("+")
        topology = NumaTopology(case["numa_nodes"], TopologyPolicy(policy), distances if closest else ())
        best, let_in = admit(topology, offers)
        assert (best.mask, best.preferred, let_in) == (
            mask_of(expected["best"]["mask"]),
            expected["best"]["preferred"],
            expected["admit"],
        ), key


@pytest.mark.sampled("recorded choices of devices")
@pytest.mark.parametrize("number", range(len(CASES)))
def test_devices_equal_the_recorded_ones(number: int) -> None:
    resource = CASES[number]["resources"][0]
    for key, expected in CASES[number]["alloc"].items():
        hint = Hint(mask_of(expected["hint"]["mask"]), expected["hint"]["preferred"])
        request = ContainerDeviceRequest(resource["request"], reusable_of(resource), hint)
        choice = choose(devices_of(resource), request, plugin_prefers=expected["preferred_option"])
        calls = []
        if isinstance(choice, AskPlugin):
            calls = [
                {"Available": sorted(choice.available), "Must": sorted(choice.must), "Size": choice.size}
            ]
            rest = sorted(choice.available - choice.must, reverse=True)
            choice = prefer(choice, choice.must | frozenset(rest[: max(0, choice.size - len(choice.must))]))
        if isinstance(choice, Unavailable):
            assert choice.upstream_message == expected.get("error"), key
            continue
        assert "error" not in expected, key
        assert calls == (expected["preferred_calls"] or []), key
        chosen, always = set(expected["chosen_example"]), set(expected.get("always_chosen", ()))
        assert choice.certain <= chosen <= choice.certain | choice.pool, key
        assert choice.certain <= always, key
        assert len(choice.ids) == resource["request"], key


def test_no_healthy_device_is_said_in_the_kubelets_words() -> None:
    dead = Devices("nvidia.com/gpu", {"a": 0}, frozenset())
    assert choose(dead, ContainerDeviceRequest(1), plugin_prefers=True) == Unavailable(
        "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"
    )


IDS = st.frozensets(st.sampled_from("abcdefgh"))


@given(
    healthy=IDS,
    allocated=IDS,
    preferred=IDS,
    count=st.integers(1, 8),
    numa=st.lists(st.integers(0, 3), min_size=8),
)
def test_a_choice_is_healthy_free_and_of_the_size_asked_whatever_the_plugin_prefers(
    healthy: frozenset[str], allocated: frozenset[str], preferred: frozenset[str], count: int, numa: list[int]
) -> None:
    devices = Devices("r", dict(zip("abcdefgh", numa, strict=False)), healthy, allocated)
    choice = choose(devices, ContainerDeviceRequest(count, hint=Hint(1, preferred=True)), plugin_prefers=True)
    if isinstance(choice, AskPlugin):
        choice = prefer(choice, preferred)
    if isinstance(choice, DeviceSelection):
        assert len(choice.ids) == count
        assert choice.ids <= devices.available
    else:
        assert len(devices.available) < count
