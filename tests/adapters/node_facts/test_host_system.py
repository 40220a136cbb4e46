"""What a driver needs of its host, by made trees of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tonnage.adapters.node_facts.host_system import host_system
from tonnage.model.drivers.node import HostSystem

KERNEL = "5.15.0-84-generic"
LIBRARY = "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def kernel(root: Path) -> None:
    write(root, proc__sys__kernel__osrelease=f"{KERNEL}\n")


def host(root: Path, *, headers: bool = False, driver: str = "") -> None:
    """A host's root: kernel modules, os-release, and what is asked for."""
    (root / f"lib/modules/{KERNEL}/kernel").mkdir(parents=True)
    write(root, **{"etc__os-release": 'ID="ubuntu"\nVERSION_ID="22.04"\n'})
    if headers:
        (root / f"lib/modules/{KERNEL}/build").mkdir()
        (root / f"lib/modules/{KERNEL}/build/Makefile").touch()
    if driver:
        library = root / LIBRARY
        library.parent.mkdir(parents=True)
        library.with_name(f"libnvidia-ml.so.{driver}").touch()
        library.symlink_to(f"libnvidia-ml.so.{driver}")


def gpu(root: Path, address: str, driver: str) -> None:
    folder = root / f"sys/bus/pci/devices/{address}"
    folder.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x20b0")):
        (folder / name).write_text(f"{text}\n")
    (folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")


def test_a_pod_without_the_hosts_root_guesses_nothing(tmp_path: Path) -> None:
    kernel(tmp_path)
    write(tmp_path, **{"etc__os-release": "ID=debian\nVERSION_ID=13\n"})
    assert host_system(tmp_path) == HostSystem(kernel=KERNEL)


@pytest.mark.parametrize("headers", [True, False], ids=["with headers", "without headers"])
def test_the_hosts_root_says_system_and_headers(tmp_path: Path, *, headers: bool) -> None:
    pod, root = tmp_path / "pod", tmp_path / "host"
    kernel(pod)
    host(root, headers=headers)
    seen = host_system(pod, root)
    assert (seen.system_id, seen.system_version, seen.headers) == ("ubuntu", "22.04", headers)
    assert (seen.driver_owner, seen.driver_version) == ("none", "")


def test_a_host_driver_is_told_from_a_containers(tmp_path: Path) -> None:
    pod, root, mounted = tmp_path / "pod", tmp_path / "host", tmp_path / "driver"
    kernel(pod)
    host(root, driver="570.124.06")
    assert host_system(pod, root).driver_owner == "host"
    assert host_system(pod, root).driver_version == "570.124.06"
    library = mounted / LIBRARY
    library.parent.mkdir(parents=True)
    library.with_name("libnvidia-ml.so.580.95.05").touch()
    library.symlink_to("libnvidia-ml.so.580.95.05")
    other = host_system(pod, mounted)
    assert (other.driver_owner, other.driver_version) == ("container", "580.95.05")


def test_gpus_on_the_bus_are_counted_and_those_that_nouveau_holds(tmp_path: Path) -> None:
    kernel(tmp_path)
    assert host_system(tmp_path).gpus_on_bus is None
    gpu(tmp_path, "0000:01:00.0", "nouveau")
    gpu(tmp_path, "0000:02:00.0", "nvidia")
    seen = host_system(tmp_path)
    assert (seen.gpus_on_bus, seen.nouveau_bound) == (2, 1)


@pytest.mark.parametrize(("value", "on"), [(b"\x06\0\0\0\x01", True), (b"\x06\0\0\0\0", False)])
def test_secure_boot_is_the_firmwares_variable(tmp_path: Path, value: bytes, *, on: bool) -> None:
    kernel(tmp_path)
    path = tmp_path / "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    path.parent.mkdir(parents=True)
    path.write_bytes(value)
    assert host_system(tmp_path).secure_boot is on
