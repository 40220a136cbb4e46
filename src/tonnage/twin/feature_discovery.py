"""What kernel and firmware of a pretended node state of its machine, and the labels that follow from it.

Source: the labels of NVIDIA's GPU feature discovery and of node feature discovery, by the rule of the agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tonnage.decide.node.labels.node_labels import node_labels
from tonnage.documents.hardware import Hardware
from tonnage.documents.node_groups import NodeGroup
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.machine import Cpu, Machine, PciDevice
from tonnage.twin.devices.scenario import inventory_of
from tonnage.twin.devices.scenario_mig import configured_layouts

PRODUCT: Final = "Tonnage twin"
_CPU: Final = Cpu("GenuineIntel", 6, 143)
_SYSTEM: Final = {"ID": "debian", "VERSION_ID": "13", "PRETTY_NAME": "Debian GNU/Linux 13 (trixie)"}
_3D_CONTROLLER: Final = "030200"
_CONFIG_BYTES: Final = 256
_DEVICES: Final = "sys/bus/pci/devices"
_DRIVER: Final = "../../../bus/pci/drivers/nvidia"


def pretended_machine(hardware: Hardware, kernel: str) -> Machine:
    """A server with these GPUs on its bus and a kernel of that release."""
    devices = inventory_of(hardware, configured_layouts(hardware)).devices
    models = {model.product: model for model in gpu_models().values()}
    return Machine(
        product=PRODUCT,
        kernel=kernel,
        os_release=_SYSTEM,
        cpu=_CPU,
        pci=tuple(
            PciDevice(
                device.pci_bus_id[4:].lower(),
                _3D_CONTROLLER,
                "10de",
                models[device.product].pci_device,
                _config_space(models[device.product].pci_device),
            )
            for device in devices
        ),
    )


def pcie_roots(hardware: Hardware) -> dict[str, str]:
    """By address: GPUs near one NUMA node are below one root complex."""
    devices = inventory_of(hardware, configured_layouts(hardware)).devices
    return {
        device.pci_bus_id[4:].lower(): f"pci0000:{16 * (device.numa_node or 0):02x}" for device in devices
    }


def feature_labels(hardware: Hardware, config: PluginConfig, machine: Machine) -> dict[str, str]:
    """The labels that the node's agent publishes under a configuration, but for the time of its start."""
    inventory, never = inventory_of(hardware, configured_layouts(hardware)), datetime.fromtimestamp(0, UTC)
    labels = node_labels(inventory, config, machine, readable=True, direct=True, started=never)
    return {key: value for key, value in (labels or {}).items() if key != "nvidia.com/gfd.timestamp"}


def install_machine(root: Path, machine: Machine, roots: Mapping[str, str] = MappingProxyType({})) -> None:
    """The files below a node's root out of which its agent reads the machine.

    `roots` are the PCIe root complexes of devices, by address.
    """
    cpu = machine.cpu or _CPU
    texts: dict[str, str] = {
        "sys/class/dmi/id/product_name": machine.product,
        "proc/sys/kernel/osrelease": machine.kernel,
        "proc/cpuinfo": f"processor\t: 0\nvendor_id\t: {cpu.vendor}\ncpu family\t: {cpu.family}\n"
        f"model\t\t: {cpu.model}",
        "etc/os-release": "\n".join(f'{name}="{value}"' for name, value in machine.os_release.items()),
    }
    (root / _DEVICES).mkdir(parents=True, exist_ok=True)
    for device in machine.pci or ():
        folder = f"{_DEVICES}/{device.address}"
        if complex_name := roots.get(device.address):
            (root / "sys/devices" / complex_name / device.address).mkdir(parents=True)
            (root / folder).symlink_to(f"../../../devices/{complex_name}/{device.address}")
        for name, number in (
            ("class", device.class_code),
            ("vendor", device.vendor),
            ("device", device.device),
        ):
            texts[f"{folder}/{name}"] = f"0x{number}"
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n", encoding="ascii")
    for device in machine.pci or ():
        (root / _DEVICES / device.address / "config").write_bytes(device.config)
        (root / _DEVICES / device.address / "driver").symlink_to(_DRIVER)


def install_kernel(root: Path, kernel: str, group: NodeGroup) -> None:
    """What a node without a driver of its own has of its kernel: modules, and headers if it has them."""
    (root / f"lib/modules/{kernel}/kernel").mkdir(parents=True)
    if group.headers:
        (root / f"lib/modules/{kernel}/build").mkdir()
        (root / f"lib/modules/{kernel}/build/Makefile").touch()
    if group.nouveau:
        for device in (root / _DEVICES).iterdir():
            (device / "driver").unlink()
            (device / "driver").symlink_to("../../../bus/pci/drivers/nouveau")


def _config_space(device: str) -> bytes:
    """The head of a configuration space: vendor and device, and no capability of a virtual GPU."""
    head = int("10de", 16).to_bytes(2, "little") + int(device, 16).to_bytes(2, "little")
    return head.ljust(_CONFIG_BYTES, b"\0")
