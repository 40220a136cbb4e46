"""Looks for NVIDIA's GPUs on the PCI bus of this machine: `python3 -m tonnage.cli.node.pci_probe`.

Every container sees class and vendor of the machine's devices, so that it takes no right at all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tonnage.adapters.machine import MachineFiles
from tonnage.decide.cluster.operate.probe import HAS_GPU, HAS_NONE
from tonnage.decide.node.labels.machine import gpus_on_the_bus

_UNREADABLE: Final = 1


def look(root: Path) -> tuple[int, str]:
    """(exit status, what was seen) below the machine's root."""
    machine = MachineFiles(root).now("")
    if machine.pci is None:
        return _UNREADABLE, "the PCI bus cannot be read"
    gpus = gpus_on_the_bus(machine.pci)
    if not gpus:
        return HAS_NONE, f"no GPU of NVIDIA's among {len(machine.pci)} PCI devices"
    return HAS_GPU, f"GPUs of NVIDIA's: {', '.join(device.address for device in gpus)}"


def main() -> int:
    """Say it, and end with the status of it."""
    code, text = look(Path("/"))
    print(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
