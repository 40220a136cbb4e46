"""What is said of the machine: as node feature discovery says it, and what PCI knows of GPUs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.labels.machine import machine_labels, mode_label, vgpu_labels
from tonnage.model.node.machine import Cpu, Machine, PciDevice

VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
FEATURE = "feature.node.kubernetes.io/"
GPU = PciDevice("0000:17:00.0", "030200", "10de", "2330")


def test_a_usual_server() -> None:
    machine = Machine(
        kernel="6.8.0-51-generic",
        os_release={"ID": "ubuntu", "VERSION_ID": "24.04"},
        cpu=Cpu("GenuineIntel", 6, 143),
        pci=(
            GPU,
            PciDevice("0000:05:00.0", "010802", "144d", "a80a"),
            PciDevice("0000:18:00.0", "020700", "15b3", "1021"),
        ),
    )
    assert machine_labels(machine) == {
        FEATURE + key: value
        for key, value in {
            "pci-10de.present": "true",
            "pci-15b3.present": "true",
            "cpu-model.vendor_id": "Intel",
            "cpu-model.family": "6",
            "cpu-model.id": "143",
            "kernel-version.full": "6.8.0-51-generic",
            "kernel-version.major": "6",
            "kernel-version.minor": "8",
            "kernel-version.revision": "0",
            "system-os_release.ID": "ubuntu",
            "system-os_release.VERSION_ID": "24.04",
            "system-os_release.VERSION_ID.major": "24",
            "system-os_release.VERSION_ID.minor": "04",
        }.items()
    }


def test_what_is_not_known_is_not_told() -> None:
    assert machine_labels(Machine()) == {}
    labels = machine_labels(Machine(cpu=Cpu("0x41"), kernel="6.1", os_release={"VERSION_ID": "12"}))
    assert labels == {
        f"{FEATURE}cpu-model.vendor_id": "ARM",
        f"{FEATURE}kernel-version.full": "6.1",
        f"{FEATURE}kernel-version.major": "6",
        f"{FEATURE}kernel-version.minor": "1",
        f"{FEATURE}system-os_release.VERSION_ID": "12",
        f"{FEATURE}system-os_release.VERSION_ID.major": "12",
    }


@pytest.mark.parametrize(
    ("classes", "mode"),
    [
        (["030200", "030200"], "compute"),
        (["030000"], "graphics"),
        (["030000", "030200"], "unknown"),
        (["068000"], "unknown"),
        ([], "unknown"),
    ],
)
def test_the_mode_is_that_of_all_gpus(classes: list[str], mode: str) -> None:
    assert mode_label([PciDevice(str(at), code, "10de", "2330") for at, code in enumerate(classes)]) == mode


def config(*capabilities: bytes) -> bytes:
    """A configuration space with these capabilities, each without the pointer to the next."""
    space, at = bytearray(256), 0x60
    space[0x34] = at
    for number, capability in enumerate(capabilities):
        following = at + len(capability) + 5
        last = number == len(capabilities) - 1
        space[at : at + len(capability)] = capability
        space[at + 1] = 0 if last else following
        at = following
    return bytes(space)


OTHER = bytes([0x10, 0, 4, 0])
RECORD = bytes([0, 22]) + b"460.16".ljust(10, b"\0") + b"r460_00".ljust(10, b"\0")
VGPU = bytes([9, 0, 5 + 4 + 22]) + b"VF" + bytes([1, 4, 7, 7]) + RECORD


@pytest.mark.parametrize(
    ("space", "labels"),
    [
        pytest.param(
            config(OTHER, b"\x09\0\x05XY"), {"vgpu.present": "false"}, id="none of its capabilities is that"
        ),
        pytest.param(
            config(OTHER, VGPU),
            {
                "vgpu.present": "true",
                "vgpu.host-driver-version": "460.16",
                "vgpu.host-driver-branch": "r460_00",
            },
            id="a virtual GPU",
        ),
        pytest.param(config(VGPU[:9]), {"vgpu.present": "true"}, id="the record is cut off"),
        pytest.param(config(OTHER)[:64], {}, id="an unprivileged reader is not shown it"),
    ],
)
def test_virtual_gpus(space: bytes, labels: dict[str, str]) -> None:
    assert vgpu_labels([PciDevice("0000:17:00.0", "030200", "10de", "2330", space)]) == labels


@given(st.binary(min_size=256, max_size=256))
def test_any_configuration_space_is_read_to_an_end(space: bytes) -> None:
    labels = vgpu_labels([PciDevice("0000:17:00.0", "030200", "10de", "2330", space)])
    assert all(VALUE.fullmatch(value) for value in labels.values())


TEXT = st.text(max_size=90)


@given(TEXT, TEXT, TEXT, TEXT, TEXT)
def test_every_value_is_valid(kernel: str, system: str, version: str, cpu: str, vendor: str) -> None:
    machine = Machine(
        kernel=kernel,
        os_release={"ID": system, "VERSION_ID": version},
        cpu=Cpu(cpu),
        pci=(PciDevice("a", "020000", vendor, "b"),),
    )
    assert all(VALUE.fullmatch(value) for value in machine_labels(machine).values())
