"""What to write instead of a selector, tried on the devices that there are."""

from __future__ import annotations

from typing import Any

import pytest

from support.claim_objects import Body, dynamic, node
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.decide.kubernetes.view import view_of
from tonnage.diagnose.remedies.selector_advice import advised, attributes_like, unselected, written_otherwise
from tonnage.reading.documents import snapshot_from_documents

OURS, CAPACITY = "device.attributes['gpu.nvidia.com']", "device.capacity['gpu.nvidia.com']"
CONTAINS = f"write {OURS}.productName.contains('H100')"
VERSION, MEMORY = f"{OURS}.driverVersion", f"{CAPACITY}.memory"
H100 = {
    "name": "gpu-0",
    "attributes": {
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "architecture": {"string": "Hopper"},
        "driverVersion": {"version": "570.124.6"},
        "type": {"string": "gpu"},
        "resource.kubernetes.io/numaNode": {"int": 0},
    },
    "capacity": {"memory": {"value": "81559Mi"}},
}
NIC = {"name": "nic-0", "attributes": {"rdma": {"bool": True}}}


def published(driver: str, *devices: Body) -> Body:
    pool = {"name": f"a-{driver}", "generation": 1, "resourceSliceCount": 1}
    return dynamic(
        "ResourceSlice", driver, {"driver": driver, "nodeName": "a", "pool": pool, "devices": [*devices]}
    )


def supply(*slices: Any) -> Supply:
    snapshot = snapshot_from_documents([node("a"), *slices], server_version="1.36")
    return view_of(snapshot).supply


GPUS = supply(published("gpu.nvidia.com", H100))
MIXED = supply(published("gpu.nvidia.com", H100), published("dra.net", NIC))


@pytest.mark.parametrize(
    ("expression", "better"),
    [
        (f"{CAPACITY}.memory >= quantity('40Gi')", f"{CAPACITY}.memory.compareTo(quantity('40Gi')) >= 0"),
        (f"{CAPACITY}.memory >= 40", f"{CAPACITY}.memory.compareTo(quantity('40Gi')) >= 0"),
        (f"{CAPACITY}['memory'] > 40960", f"{CAPACITY}['memory'].compareTo(quantity('40960Mi')) > 0"),
        (f"{CAPACITY}.memory.isGreaterThan('40Gi')", f"{CAPACITY}.memory.isGreaterThan(quantity('40Gi'))"),
        (f"{VERSION}.isLessThan(version('580.0.0'))", f"{VERSION}.isLessThan(semver('580.0.0'))"),
        (f"{VERSION}.compareTo('550.1') >= 0", f"{VERSION}.compareTo(semver('550.1.0')) >= 0"),
        (f"{VERSION}.isLessThan('570.124.06')", f"{VERSION}.isLessThan(semver('570.124.6'))"),
        (f"{VERSION}.isLessThan('580.0.0-rc.1')", f"{VERSION}.isLessThan(semver('580.0.0-rc.1'))"),
        (f"{OURS}.driverVersion >= '550'", f"{OURS}.driverVersion.compareTo(semver('550.0.0')) >= 0"),
        ("device.attributes['gpu.nvidia.com/architecture'] == 'Hopper'", f"{OURS}.architecture == 'Hopper'"),
        ("device.attributes['architecture'] == 'Hopper'", f"{OURS}.architecture == 'Hopper'"),
        ("device.attributes['memory'] >= 80", f"{CAPACITY}.memory.compareTo(quantity('80Gi')) >= 0"),
    ],
)  # fmt: skip
def test_a_selector_is_written_in_the_types_that_devices_have(expression: str, better: str) -> None:
    assert advised(expression, "", GPUS) == better


@pytest.mark.parametrize(
    "compared", ["memory >= ''", "memory >= quantity('')", "cores >= ''", "memory > 'x'"]
)
def test_for_an_amount_that_is_none_nothing_is_written(compared: str) -> None:
    assert advised(f"{CAPACITY}.{compared}", "", GPUS) == ""
    assert advised(f"{CAPACITY}.{compared}", "", supply()) == ""


def test_of_alternatives_it_is_said_where_no_device_has_any() -> None:
    h200 = f"{OURS}.productName == 'NVIDIA H200'"
    assert unselected(f"{OURS}.productName == 'H100' || {h200}", MIXED).endswith(CONTAINS)
    assert unselected(f"{h200} || {OURS}.architecture == 'Hopper' && {OURS}.type == 'mig'", MIXED) == (
        "no device has the productName NVIDIA H200; there are NVIDIA H100 80GB HBM3"
    )
    assert unselected(f"{h200} || {OURS}.architecture == 'Hopper' && {OURS}.index == 9", MIXED) == ""
    assert unselected(f"!({OURS}.productName == 'foo') && {OURS}.index == 9", MIXED) == ""


def test_among_devices_of_other_drivers_it_names_its_own() -> None:
    advice = advised(f"{CAPACITY}.memory >= quantity('40Gi')", "", MIXED)
    assert advice == f"device.driver == 'gpu.nvidia.com' && {MEMORY}.compareTo(quantity('40Gi')) >= 0"


def test_what_no_device_publishes_is_not_guarded_with_has() -> None:
    """A selector that is false everywhere is no remedy; what is meant is said."""
    expression = f"{OURS}.index < 4"
    assert advised(expression, "index", GPUS) == ""
    assert written_otherwise(expression, "CEL runtime error: no such key: index").startswith("select by uuid")
    assert written_otherwise(f"{OURS}.driverVersion >= '5'", "no such overload: _>=_").startswith(
        "write device"
    )
    assert written_otherwise(expression, "no such key: other") == ""


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        (f"{OURS}.productName == 'H100'", f"no device has the productName H100; {CONTAINS}"),
        (f"{OURS}.architecture == 'hopper'", "no device has the architecture hopper; write 'Hopper'"),
        (f"{OURS}.architecture == 'Ampere'", "no device has the architecture Ampere; there are Hopper"),
        (f"{OURS}.architecture == 'Hopper'", ""),
        (f"{OURS}.model == 'X'", ""),
        ("device.attributes['dra.net'].rdma == 'true'", ""),
    ],
)  # fmt: skip
def test_of_a_value_that_no_device_has_it_is_said_which_there_are(expression: str, hint: str) -> None:
    assert unselected(expression, MIXED) == hint


def test_an_attribute_is_known_by_its_name_in_another_domain() -> None:
    assert attributes_like("gpu.nvidia.com/numaNode", MIXED) == ["resource.kubernetes.io/numaNode"]
    assert attributes_like("gpu.nvidia.com/rack", MIXED) == []


def test_of_very_many_devices_nothing_is_said() -> None:
    devices = [{**H100, "name": f"gpu-{number}"} for number in range(128)]
    many = supply(
        *(
            {**published("gpu.nvidia.com", *devices), "metadata": {"name": f"s{number}"}}
            for number in range(33)
        )
    )
    assert many.attributes == {}
    assert unselected(f"{OURS}.productName == 'H100'", many) == ""
