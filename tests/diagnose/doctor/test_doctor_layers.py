"""Doctor's judgement of hardware, driver and libraries: what it finds."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.doctor_patients import (
    Sicken,
    assert_found,
    mig,
)
from support.sick_node import (
    VERSION,
    SickNode,
    address_of,
)
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import DriverAnswer
from tonnage.model.reasons.messages.node_symptoms import DriverNotLoaded, GpuLost, LibraryVersionMismatch
from tonnage.model.reasons.node.device_nodes import DeviceNodeMissing, DeviceNodeWrong
from tonnage.model.reasons.node.driver import (
    DriverHangs,
    GpuNotDriven,
    GpuUnhealthy,
    NouveauNotBlacklisted,
    SecureBootRefusesModule,
)
from tonnage.model.reasons.node.hardware import NoGpuFound
from tonnage.model.reasons.node.libraries import DriverRefuses, LibraryMissing, LibraryNotCached
from tonnage.model.reasons.reason import NodeReason


@pytest.fixture
def node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    with ExitStack() as ends:
        yield SickNode(folder, ends)
    shutil.rmtree(folder)


def empty_bus(node: SickNode) -> None:
    shutil.rmtree(node.root / "sys/bus/pci/devices")
    (node.root / "sys/bus/pci/devices").mkdir()


def dead_gpu(node: SickNode) -> None:
    node.put(f"sys/bus/pci/devices/{address_of(1)}/config", b"\xff" * 64)


def hangs(node: SickNode) -> None:
    assert node.inventory is not None
    node.answer = DriverAnswer(error="the driver does not answer: scan", hangs=True)


def old_driver(node: SickNode) -> None:
    """Upgraded under a loaded module."""
    node.libraries("595.91.07")


FOUND: dict[str, tuple[Sicken, type[NodeReason], NodeLayer, str]] = {
    "no GPU": (
        empty_bus,
        NoGpuFound,
        NodeLayer.HARDWARE,
        "no GPU on the PCI bus",
    ),
    "a GPU that reads as ones": (dead_gpu, GpuLost, NodeLayer.HARDWARE, "0000:18:00.0"),
    "module not loaded": (SickNode.unload, DriverNotLoaded, NodeLayer.DRIVER, "is not loaded"),
    "secure boot": (
        lambda n: (
            n.unload(),
            n.put("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\6\0\0\0\1"),
        ),
        SecureBootRefusesModule,
        NodeLayer.DRIVER,
        "secure boot is on",
    ),
    "nouveau may come": (
        lambda n: (n.unload(), n.remove("etc/modprobe.d/blacklist-nouveau.conf")),
        NouveauNotBlacklisted,
        NodeLayer.DRIVER,
        "not blacklisted",
    ),
    "a GPU without driver": (
        lambda n: n.gpu(1, driver=""),
        GpuNotDriven,
        NodeLayer.DRIVER,
        "1 of 2 GPUs have no NVIDIA driver: 0000:18:00.0",
    ),
    "a driver that hangs": (hangs, DriverHangs, NodeLayer.DRIVER, "the driver hangs"),
    "an unhealthy GPU": (
        lambda n: n.seen_by_cluster(
            conditions=[
                {
                    "type": "GPUsHealthy",
                    "status": "False",
                    "message": "1 of 2 GPUs are usable; GPU-b: Xid 79",
                }
            ]
        ),
        GpuUnhealthy,
        NodeLayer.DRIVER,
        "1 of 2 GPUs are usable",
    ),
    "a GPU's node is missing": (
        lambda n: n.remove("dev/nvidia1"),
        DeviceNodeMissing,
        NodeLayer.DEVICE_NODES,
        "/dev/nvidia1 is missing",
    ),
    "the control node is missing": (
        lambda n: n.remove("dev/nvidiactl"),
        DeviceNodeMissing,
        NodeLayer.DEVICE_NODES,
        "/dev/nvidiactl is missing",
    ),
    "uvm's node is missing": (
        lambda n: n.remove("dev/nvidia-uvm"),
        DeviceNodeMissing,
        NodeLayer.DEVICE_NODES,
        "/dev/nvidia-uvm is missing",
    ),
    "uvm is not loaded": (
        lambda n: (n.remove("dev/nvidia-uvm"), n.put("proc/devices", "Character devices:\n195 nvidia\n")),
        DeviceNodeMissing,
        NodeLayer.DEVICE_NODES,
        "the module nvidia-uvm is not loaded",
    ),
    "uvm's major changed": (
        lambda n: n.node("dev/nvidia-uvm", 506, 0),
        DeviceNodeWrong,
        NodeLayer.DEVICE_NODES,
        "has the numbers 506:0, the driver has 505:0",
    ),
    "numbers of another GPU": (
        lambda n: n.node("dev/nvidia1", 195, 0),
        DeviceNodeWrong,
        NodeLayer.DEVICE_NODES,
        "has the numbers 195:0, the driver has 195:1",
    ),
    "a file in place of a node": (
        lambda n: n.put("dev/nvidia1", "x"),
        DeviceNodeWrong,
        NodeLayer.DEVICE_NODES,
        "/dev/nvidia1 is not a character device",
    ),
    "a MIG capability is missing": (
        lambda n: mig(n, nodes=False),
        DeviceNodeMissing,
        NodeLayer.DEVICE_NODES,
        "/dev/nvidia-caps/nvidia-cap12, /dev/nvidia-caps/nvidia-cap13 are missing",
    ),
    "NVML's library is missing": (
        lambda n: n.remove("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"),
        LibraryMissing,
        NodeLayer.LIBRARIES,
        "libnvidia-ml.so.1",
    ),
    "the driver was upgraded": (
        old_driver,
        LibraryVersionMismatch,
        NodeLayer.LIBRARIES,
        f"of version 595.91.07, the loaded module of {VERSION}",
    ),
    "not in the loader's cache": (
        lambda n: n.remove("etc/ld.so.cache"),
        LibraryNotCached,
        NodeLayer.LIBRARIES,
        "libcuda.so.1",
    ),
    "all in place, and refused": (
        lambda n: setattr(n, "answer", DriverAnswer(error="NVML: Unknown Error")),
        DriverRefuses,
        NodeLayer.LIBRARIES,
        "refuses to answer",
    ),
}


@pytest.mark.sampled("sick nodes", share="1/3")
@pytest.mark.parametrize("name", FOUND)
async def test_it_is_found_in_its_layer_with_reason_place_and_remedy(node: SickNode, name: str) -> None:
    await assert_found(node, *FOUND[name])
