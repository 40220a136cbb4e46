"""What selectors and constraints ask of NVIDIA's devices in vain, without a cluster."""

from __future__ import annotations

import pytest

from tonnage.diagnose.remedies.claim_attributes import (
    miscompared,
    never_equal,
    unlike,
    unpublished,
    unpublished_attribute,
)

OURS, CAPACITY = "device.attributes['gpu.nvidia.com']", "device.capacity['gpu.nvidia.com']"


BY_PLACE = "select by uuid, or by device.attributes['resource.kubernetes.io'].pciBusID"


@pytest.mark.parametrize(
    ("expression", "remedy"),
    [
        (f"{OURS}.index < 4", BY_PLACE),
        (
            f'{OURS}["index"] < 4',
            BY_PLACE,
        ),
        (f"{OURS}['memory'] >= 80", "memory is a capacity: write device.capacity['gpu.nvidia.com'].memory"),
        (f"{CAPACITY}.type == 'gpu'", "type is an attribute: write device.attributes['gpu.nvidia.com'].type"),
        (f"{OURS}.migProfile == '1g.5gb'", "write profile if you meant that"),
    ],
)
def test_what_no_device_has_is_found_in_either_form(expression: str, remedy: str) -> None:
    assert [better for _, _, better in unpublished(expression)] == [remedy]


@pytest.mark.parametrize(
    "expression",
    [
        f"{OURS}.uuid == 'x' && {CAPACITY}['memory'].isGreaterThan(quantity('1Gi'))",
        f"has({OURS}.index) && {OURS}.index < 4",
        f"'index' in {OURS} && {OURS}.index < 4",
        f"{OURS}.?index.orValue(0) < 4",
        "device.attributes['gpu.example.com'].index < 4",
    ],
)
def test_what_is_published_or_guarded_or_of_another_driver_is_not(expression: str) -> None:
    assert list(unpublished(expression)) == []


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("productName", "H100", f"write {OURS}.productName.contains('H100')"),
        ("productName", "a100", f"write {OURS}.productName.lowerAscii().contains('a100')"),
        ("productName", "NVIDIA-H100-80GB-HBM3", "write 'NVIDIA H100 80GB HBM3'"),
        ("architecture", "hopper", "write 'Hopper'"),
        ("architecture", "Ada", f"write {OURS}.architecture.contains('Ada')"),
        ("type", "A100", "there are gpu, mig, vfio"),
        ("profile", "1g.5", "write it as the driver does, such as 1g.10gb"),
    ],
)
def test_a_value_that_no_driver_says_is_found(name: str, value: str, remedy: str) -> None:
    assert [better for _, better in never_equal(f'{OURS}.{name} == "{value}"')] == [remedy]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("productName", "NVIDIA H100 80GB HBM3"),
        ("productName", "Tesla T4"),
        ("productName", "NVIDIA Z9000 of next year"),
        ("architecture", "Ada Lovelace"),
        ("architecture", "Feynman"),
        ("type", "mig"),
        ("profile", "1g.10gb+me"),
        ("uuid", "H100"),
    ],
)
def test_a_value_that_a_driver_says_or_may_say_one_day_is_not(name: str, value: str) -> None:
    assert list(never_equal(f"{OURS}['{name}'] == '{value}'")) == []
    assert list(never_equal(f"device.attributes['gpu.example.com'].{name} == 'hopper'")) == []


@pytest.mark.parametrize(
    "expression",
    [
        f"{OURS}.productName == 'H100' || {OURS}.productName == 'NVIDIA H100 80GB HBM3'",
        f"!({OURS}.productName == 'H100') && {OURS}.architecture == 'Ampere'",
        f"{OURS}.productName == 'H100' ? true : {OURS}.type == 'gpu'",
        f"{OURS}.type == 'gpu' && ({OURS}.productName == 'H100' || {OURS}.index == 0)",
    ],
)
def test_a_value_that_need_not_be_equal_is_not(expression: str) -> None:
    assert list(never_equal(expression)) == []
    assert list(unlike(expression, lambda _domain, _name: ("NVIDIA H100 80GB HBM3", "gpu", "Ampere"))) == []


def test_values_of_which_one_must_be_equal_are_found_where_no_driver_says_any() -> None:
    either = f"{OURS}.productName == 'H100' || {OURS}.productName == 'h200'"
    for expression in (either, f"{OURS}.uuid != 'x' && ({either})", f"{OURS}.type == 'GPU' && ({either})"):
        assert {message for message, _ in never_equal(expression)} >= {
            "no device of gpu.nvidia.com has the productName H100",
            "no device of gpu.nvidia.com has the productName h200",
        }


@pytest.mark.parametrize(
    ("compared", "instead"),
    [
        ("driverVersion >= '550'", "driverVersion.compareTo(semver('550.0.0')) >= 0"),
        ("driverVersion == '570.124.06'", "driverVersion.compareTo(semver('570.124.6')) == 0"),
        ('cudaComputeCapability > "8.0"', "cudaComputeCapability.compareTo(semver('8.0.0')) > 0"),
        ("cudaComputeCapability >= 9", "cudaComputeCapability.compareTo(semver('9.0.0')) >= 0"),
    ],
)
def test_a_version_is_compared_as_one(compared: str, instead: str) -> None:
    assert [better for _, better in miscompared(f"{OURS}.{compared}")] == [f"write {OURS}.{instead}"]


@pytest.mark.parametrize("text", ["newest", "", "1" * 5000])
def test_what_is_no_version_at_all_is_not_written_as_one(text: str) -> None:
    [(_, remedy)] = miscompared(f"{OURS}.driverVersion >= '{text}'")
    assert remedy == "use .major(), .minor() or .compareTo(semver('1.2.3'))"


def test_a_version_is_no_text_and_what_is_right_of_it_is_not_found() -> None:
    [(message, _)] = miscompared(f"{OURS}.driverVersion.startsWith('570')")
    assert message == "driverVersion is a version, not a text"
    assert not list(miscompared(f"{OURS}.driverVersion.isGreaterThan(semver('550.0.0'))"))
    assert not list(miscompared(f"{OURS}.cudaComputeCapability.major() >= 9"))
    assert not list(miscompared("device.attributes['gpu.example.com'].driverVersion >= '550'"))


@pytest.mark.parametrize(
    ("attribute", "remedy"),
    [
        ("gpu.nvidia.com/numaNode", "write resource.kubernetes.io/numaNode"),
        ("gpu.nvidia.com/pcieRoot", "write resource.kubernetes.io/pcieRoot"),
        ("gpu.nvidia.com/nvlinkDomain", "write tonnage.dev/nvlinkGroup, which Tonnage publishes and"),
        ("gpu.nvidia.com/memory", "memory is a capacity, and constraints compare attributes: type, uuid"),
        ("gpu.nvidia.com/parentUuid", "write gpu.nvidia.com/parentUUID if you meant that"),
        ("gpu.nvidia.com/rack", "there are type, uuid"),
    ],
)
def test_a_constraint_on_what_no_device_has_is_told_what_is_meant(attribute: str, remedy: str) -> None:
    hint = unpublished_attribute(attribute)
    assert hint is not None
    assert hint[1].startswith(remedy)


def test_a_constraint_on_what_is_there_or_of_others_is_not_found() -> None:
    for attribute in ("gpu.nvidia.com/partition2", "resource.kubernetes.io/pcieRoot", "dra.net/rack"):
        assert unpublished_attribute(attribute) is None
