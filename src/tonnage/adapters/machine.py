"""The machine out of sysfs, procfs and the system's release file, all below a root."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tonnage.model.node.machine import Cpu, Machine, PciDevice

_LONGEST: Final = 1 << 16
_MOST_DEVICES: Final = 4096
_MOST_VARIABLES: Final = 64
_CONFIG_BYTES: Final = 256
_NVIDIA: Final = "10de"
_OS_RELEASE: Final = ("etc/os-release", "usr/lib/os-release")
_ROOT_COMPLEX: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_VARIABLE: Final = re.compile(r"([A-Z][A-Z0-9_]{0,63})=(.*)")


class MachineFiles:
    """Reads the files anew each time: few are read, and seldom."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def read(self, machine_type_file: str) -> Machine:
        """The machine now, its product out of that file. What cannot be read is left empty."""
        return await asyncio.to_thread(self.now, machine_type_file)

    def now(self, machine_type_file: str) -> Machine:
        """As `read`, in this thread."""
        return Machine(
            product=_text(self._root / machine_type_file.lstrip("/")).strip(),
            kernel=_text(self._root / "proc/sys/kernel/osrelease").strip(),
            os_release=self._os_release(),
            cpu=_cpu(_text(self._root / "proc/cpuinfo")),
            pci=self._pci(),
        )

    def _os_release(self) -> dict[str, str]:
        text = next((text for name in _OS_RELEASE if (text := _text(self._root / name))), "")
        return dict(list(_variables(text))[:_MOST_VARIABLES])

    def _pci(self) -> tuple[PciDevice, ...] | None:
        try:
            folders = sorted((self._root / "sys/bus/pci/devices").iterdir())
        except OSError:
            return None
        return tuple(_pci_device(folder) for folder in folders[:_MOST_DEVICES])


def _pci_device(folder: Path) -> PciDevice:
    def number(name: str) -> str:
        return _text(folder / name).strip().lower().removeprefix("0x")

    vendor = number("vendor")
    config = _bytes(folder / "config", _CONFIG_BYTES) if vendor == _NVIDIA else b""
    return PciDevice(folder.name, number("class"), vendor, number("device"), config)


def _cpu(text: str) -> Cpu | None:
    """The first processor of /proc/cpuinfo."""
    lines = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    fields = {name.strip(): value.strip() for name, _, value in lines}
    vendor = fields.get("vendor_id") or fields.get("CPU implementer") or ""
    if not vendor:
        return None
    return Cpu(vendor, _number(fields.get("cpu family", "")), _number(fields.get("model", "")))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _variables(text: str) -> Iterator[tuple[str, str]]:
    """The assignments of os-release, without a shell's quotes; a line that is none is left out."""
    for line in text.splitlines():
        match = _VARIABLE.fullmatch(line.strip())
        if match is None:
            continue
        try:
            words = shlex.split(match[2])
        except ValueError:
            continue
        yield match[1], " ".join(words)


def _text(file: Path) -> str:
    return _bytes(file, _LONGEST).decode("utf-8", "replace")


def _bytes(file: Path, most: int) -> bytes:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not make us wait
        with os.fdopen(handle, "rb") as stream:
            return stream.read(most) or b""
    except OSError:
        return b""


def pcie_roots(root: Path, addresses: Iterable[str]) -> dict[str, str]:
    """The PCIe root complexes (`pci0000:64`) of devices by their address, as far as sysfs says them."""
    roots: dict[str, str] = {}
    for address in addresses:
        parts = Path(os.path.realpath(root / "sys/bus/pci/devices" / address)).parts
        if root_complex := next((part for part in parts if _ROOT_COMPLEX.fullmatch(part)), ""):
            roots[address] = root_complex
    return roots
