"""The machine that a node is, as its kernel and firmware state it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PciDevice:
    """A function on the PCI bus; numbers are hexadecimal without `0x`: class 6 digits, vendor and device 4.

    `config` is the head of its configuration space: 64 bytes for who may not read more, none but of NVIDIA's.
    """

    address: str
    class_code: str
    vendor: str
    device: str
    config: bytes = b""


@dataclass(frozen=True, slots=True)
class Cpu:
    """The first processor, in the kernel's words; family and model are None where it has none (not x86)."""

    vendor: str
    family: int | None = None
    model: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of the machine; what is empty or None could not be read.

    `product` is the text of the machine-type file, `kernel` the kernel's release, `os_release` the variables
    of that file. `pci` is in the order of addresses.
    """

    product: str = ""
    kernel: str = ""
    os_release: Mapping[str, str] = field(default_factory=dict)
    cpu: Cpu | None = None
    pci: tuple[PciDevice, ...] | None = None
