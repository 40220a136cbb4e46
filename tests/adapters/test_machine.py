"""The machine out of files: what servers have, and what is missing, odd or too long."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from tonnage.adapters.features_file import FeatureLines
from tonnage.adapters.machine import MachineFiles
from tonnage.model.errors import HardwareError
from tonnage.model.node.machine import Cpu, Machine, PciDevice

DMI = "/sys/class/dmi/id/product_name"
X86 = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+

processor\t: 1
vendor_id\t: Other
"""
ARM = "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"


def put(root: Path, name: str, content: str | bytes) -> None:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


async def test_a_server(tmp_path: Path) -> None:
    put(tmp_path, DMI[1:], "PowerEdge XE9680 \n")
    put(tmp_path, "proc/sys/kernel/osrelease", "6.8.0-51-generic\n")
    put(tmp_path, "proc/cpuinfo", X86)
    put(
        tmp_path,
        "etc/os-release",
        '# a comment\nID=ubuntu\nVERSION_ID="24.04"\nNAME=\'Ubun tu\'\nbroken\nA="\n',
    )
    for address, vendor, device, code in (
        ("0000:18:00.0", "0x15b3", "0x1021", "0x020700"),
        ("0000:17:00.0", "0x10de", "0x2330", "0x030200"),
    ):
        folder = f"sys/bus/pci/devices/{address}"
        for name, text in (("vendor", vendor), ("device", device), ("class", code)):
            put(tmp_path, f"{folder}/{name}", f"{text}\n")
        put(tmp_path, f"{folder}/config", b"\xde\x10" * 2048)
    assert await MachineFiles(tmp_path).read(DMI) == Machine(
        product="PowerEdge XE9680",
        kernel="6.8.0-51-generic",
        os_release={"ID": "ubuntu", "VERSION_ID": "24.04", "NAME": "Ubun tu"},
        cpu=Cpu("GenuineIntel", 6, 143),
        pci=(
            PciDevice("0000:17:00.0", "030200", "10de", "2330", b"\xde\x10" * 128),
            PciDevice("0000:18:00.0", "020700", "15b3", "1021"),
        ),
    )


async def test_an_arm_server_and_a_release_file_in_its_other_place(tmp_path: Path) -> None:
    put(tmp_path, "proc/cpuinfo", ARM)
    put(tmp_path, "usr/lib/os-release", "ID=sles\n")
    found = await MachineFiles(tmp_path).read(DMI)
    assert found == Machine(cpu=Cpu("0x41"), os_release={"ID": "sles"})


async def test_nothing_at_all(tmp_path: Path) -> None:
    assert await MachineFiles(tmp_path).read(DMI) == Machine()


async def test_what_is_no_text_and_too_long_is_bounded(tmp_path: Path) -> None:
    put(tmp_path, DMI[1:], b"\xff" * (1 << 20))
    put(tmp_path, "proc/cpuinfo", "vendor_id: x\ncpu family: 99999999999\n")
    found = await MachineFiles(tmp_path).read(DMI)
    assert len(found.product) == 1 << 16
    assert found.cpu == Cpu("x")


async def test_this_machine_has_a_kernel() -> None:
    assert (await MachineFiles(Path("/")).read(DMI)).kernel


async def test_a_features_file_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gfd").mkdir()
    for labels in ({}, {"a": "b"}):
        with pytest.raises(HardwareError, match="gfd"):
            await FeatureLines(tmp_path, StringIO()).write("gfd", labels)
