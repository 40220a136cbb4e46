"""What a claim is told that it was given."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tonnage.decide.kubernetes.claims.allocator import Picked
from tonnage.model.kubernetes.resource_claims import ClaimDeviceId
from tonnage.twin.scheduler.device_grants import allocation_of

_ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
_RACK = {"key": "rack", "operator": "Exists"}
_NODE_A = {"nodeSelectorTerms": [{"matchFields": [_ZONE | {"key": "metadata.name"}]}]}


def _slice(pool: str, *devices: Any, **where: Any) -> Any:
    known = [one if isinstance(one, dict) else {"name": one} for one in devices]
    return {"driver": "d", "pool": {"name": pool, "generation": 1}, "devices": known, **where}


def _picked(pool: str, device: str, request: str = "r", **more: Any) -> Picked:
    return Picked(request, ClaimDeviceId("d", pool, device), **more)


def _reached(*terms: Any) -> Any:
    return {"nodeSelectorTerms": [{"matchExpressions": [*terms]}]}


_SLICES = [
    _slice("a", "g0", "g1", nodeName="a"),
    _slice("net", "n0", nodeSelector=_reached(_ZONE)),
    _slice("far", "f0", nodeSelector=_reached(_ZONE, _RACK)),
    _slice("all", "x0", allNodes=True),
    _slice("own", {"name": "o0", "nodeName": "a"}, {"name": "o1"}, perDeviceNodeSelection=True),
    {**_slice("a", "g0", nodeName="before"), "pool": {"name": "a", "generation": 0}},
]


@pytest.mark.parametrize(
    ("picked", "selector"),
    [
        ([_picked("a", "g0"), _picked("a", "g1")], _NODE_A),
        ([_picked("net", "n0"), _picked("far", "f0")], _reached(_ZONE, _RACK)),
        ([_picked("net", "n0"), _picked("a", "g1")], _NODE_A),
        ([_picked("all", "x0")], None),
        ([_picked("own", "o0")], _NODE_A),
        ([_picked("own", "o1")], None),
    ],
    ids=["of a node", "of selected nodes", "of both", "of all nodes", "by the device", "nowhere"],
)
def test_nodes_that_reach_every_device_are_told(picked: list[Picked], selector: Any) -> None:
    claim: Any = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    assert allocation_of(claim, picked, {}, _SLICES).get("nodeSelector") == selector


def test_a_part_of_a_device_has_a_share_of_its_own_and_all_that_it_takes() -> None:
    claim: Any = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    consumed = {"memory": Fraction(10 << 30), "shares": Fraction(1), "cores": Fraction(1, 2)}
    part = _picked("a", "g0", consumed=consumed)
    results = [allocation_of(claim, [part, part], {}, _SLICES)["devices"]["results"] for _ in range(2)]  # type: ignore[index, call-overload]
    entries: list[Any] = [entry for one in results for entry in one]  # type: ignore[union-attr]
    assert len({entry.pop("shareID") for entry in entries}) == 4
    amounts = {"memory": "10Gi", "shares": "1", "cores": "500m"}
    expected = {"request": "r", "driver": "d", "pool": "a", "device": "g0", "consumedCapacity": amounts}
    assert entries == [expected] * 4


def test_configuration_comes_from_classes_once_and_from_the_claim_where_it_is_meant() -> None:
    part = {"name": "small", "deviceClassName": "gpu"}
    other = {"name": "big", "deviceClassName": "large"}
    requests = [
        {"name": "r", "exactly": {"deviceClassName": "gpu"}},
        {"name": "s", "firstAvailable": [other, part]},
    ]
    opaque: list[Any] = [{"opaque": {"driver": "d", "parameters": {"n": n}}} for n in range(5)]
    asked = [
        opaque[1],
        {**opaque[2], "requests": ["s/small"]},
        {**opaque[3], "requests": ["s/big"]},
        {**opaque[4], "requests": ["r", "s"]},
    ]
    claim: Any = {"devices": {"requests": requests, "config": asked}}
    classes: Any = {"gpu": {"config": [opaque[0]]}, "large": {"config": [opaque[3]]}}
    picked = [_picked("a", "g0"), _picked("a", "g1", "s/small", admin=True)]
    devices: Any = allocation_of(claim, picked, classes, _SLICES)["devices"]
    assert devices["config"] == [
        {"source": "FromClass", "requests": ["r", "s/small"], **opaque[0]},
        {"source": "FromClaim", **asked[0]},
        {"source": "FromClaim", **asked[1]},
        {"source": "FromClaim", **asked[3]},
        {"source": "FromClaim", **asked[3]},
    ]
    place = {"driver": "d", "pool": "a"}
    assert devices["results"] == [
        {"request": "r", "device": "g0", **place},
        {"request": "s/small", "device": "g1", "adminAccess": True, **place},
    ]
