"""A node for CDI specs: a whole GPU with graphics, one in a MIG device, a few of the driver's files."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tonnage.decide.node.cdi.spec import gpu_spec, spec_bytes
from tonnage.model.devices.cdi import LATER_HOOKS, CdiOptions, DriverFile, DriverFiles
from tonnage.model.devices.device_nodes import CONTROL_NODES, DeviceNodes
from tonnage.model.devices.inventory import Device, Inventory, MigDevice

FOLDER = "/usr/lib/x86_64-linux-gnu"
CUDA = DriverFile(
    f"{FOLDER}/libcuda.so.570.1",
    f"{FOLDER}/libcuda.so.570.1",
    (f"{FOLDER}/libcuda.so", f"{FOLDER}/libcuda.so.1"),
)
SMI = DriverFile("/usr/bin/nvidia-smi", "/opt/bin/nvidia-smi")
SOCKET = DriverFile("/run/nvidia-persistenced/socket", "/run/nvidia-persistenced/socket")
FILES = DriverFiles(
    (CUDA,), (SMI,), (), (SOCKET,), FOLDER, {"0000:17:00.0": ("/dev/dri/card1", "/dev/dri/renderD128")}
)
MIG = MigDevice("MIG-a", 0, "1g.10gb", gpu_instance=7, compute_instance=0, memory_mib=1)
CAPABILITIES = {"gpu4/gi7/access": 30, "gpu4/gi7/ci0/access": 31}
NODES = DeviceNodes(
    frozenset(
        {*CONTROL_NODES, "/dev/nvidia1", "/dev/nvidia4"}
        | {f"/dev/nvidia-caps/nvidia-cap{number}" for number in (30, 31)}
        | {"/dev/nvidia-caps-imex-channels/channel0"}
    ),
    capabilities=CAPABILITIES,
)
WHOLE = Device("GPU-a", 0, "A100", 1, pci_bus_id="00000000:17:00.0", minor=1, mig_enabled=False)
DIVIDED = Device("GPU-b", 1, "A100", 1, minor=4, mig_enabled=True, migs=(MIG,))
INVENTORY = Inventory((WHOLE, DIVIDED), "570.1", nodes=NODES)
NEW_PROGRAM = replace(FILES, hook="/usr/bin/nvidia-cdi-hook", hooks=frozenset(LATER_HOOKS), version="570.1")


def document(
    inventory: Inventory = INVENTORY, files: DriverFiles = FILES, options: CdiOptions | None = None
) -> dict[str, Any]:
    made = gpu_spec(inventory, files, options or CdiOptions()).document
    assert made is not None
    again: dict[str, Any] = json.loads(spec_bytes(made))
    return again


def nodes(spec: dict[str, Any], name: str) -> list[str]:
    (device,) = [device for device in spec["devices"] if device["name"] == name]
    return [node["path"] for node in device["containerEdits"]["deviceNodes"]]
