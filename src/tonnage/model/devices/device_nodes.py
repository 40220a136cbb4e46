"""The driver's device nodes, as far as the agent sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tonnage.model.node.plugin_settings import ExtraDevice

CONTROL_NODES: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
"""What a container needs beside the nodes of its devices; not every driver has all of them."""
CAPABILITY_FOLDER: Final = "/dev/nvidia-caps"
IMEX_FOLDER: Final = "/dev/nvidia-caps-imex-channels"
EXTRA_NODES: Final = {
    ExtraDevice.GDRCOPY: ("/dev/gdrdrv",),
    ExtraDevice.GDS: ("/dev/nvidia-fs*",),
    ExtraDevice.MOFED: ("/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"),
}
"""Where the nodes of what a container may get beside its GPUs are; `*` is any text."""


@dataclass(frozen=True, slots=True)
class DeviceNodes:
    """Paths of nodes as a container has them, `/dev/…`: `own` below `/`, `driver` below the driver's root.

    `capabilities` are the minor numbers of MIG capabilities by name, such as `gpu0/gi1/ci0/access`.
    """

    own: frozenset[str] = frozenset()
    driver: frozenset[str] = frozenset()
    capabilities: Mapping[str, int] = field(default_factory=dict)
