"""The probe of a machine's PCI bus, by class and vendor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.cli.node.pci_probe import look


def bus(root: Path, *devices: tuple[str, str]) -> None:
    for number, (code, vendor) in enumerate(devices):
        folder = root / f"sys/bus/pci/devices/0000:0{number}:00.0"
        folder.mkdir(parents=True)
        for name, text in (("class", code), ("vendor", vendor), ("device", "0x2330")):
            (folder / name).write_text(f"{text}\n")


@pytest.mark.parametrize(
    ("devices", "code", "words"),
    [
        pytest.param([("0x030200", "0x10de")], 0, "GPUs of NVIDIA's: 0000:00:00.0", id="a 3D controller"),
        pytest.param([("0x030000", "0x10de")], 0, "GPUs of NVIDIA's", id="a VGA controller"),
        pytest.param([("0x030000", "0x1002")], 4, "no GPU of NVIDIA's among 1", id="another vendor's"),
        pytest.param(
            [("0x020700", "0x10de")], 4, "no GPU of NVIDIA's among 1", id="a network card of NVIDIA's"
        ),
    ],
)
def test_what_is_seen(tmp_path: Path, devices: list[tuple[str, str]], code: int, words: str) -> None:
    bus(tmp_path, *devices)
    found, text = look(tmp_path)
    assert found == code
    assert text.startswith(words)


def test_a_machine_without_a_bus(tmp_path: Path) -> None:
    assert look(tmp_path) == (1, "the PCI bus cannot be read")
