"""The longer answers of `nvidia-smi`: `topo -m` and `-q`.

Source: nvidia-smi's manual and its output on driver 570.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from tonnage.decide.node.preference.device_sets import board_of
from tonnage.twin.kubelet.programs.gpus import UNSUPPORTED, GpuReading, VisibleGpus

_LEGEND: Final = {
    "X": "itself",
    "SYS": "over PCIe and the link between NUMA nodes",
    "NODE": "over PCIe and between host bridges within a NUMA node",
    "PHB": "over PCIe and a host bridge (the processor)",
    "PXB": "over several PCIe switches, not the processor",
    "PIX": "over one PCIe switch",
    "NV#": "over # NVLinks side by side",
}
_WIDTH: Final = 41


def topology_lines(gpus: VisibleGpus) -> Iterator[str]:
    """How each GPU of the container reaches each other one, with tabs between as the program has them."""
    names = [f"GPU{place}" for place in range(len(gpus.devices))]
    yield "\t".join(("", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"))
    ways = board_of(gpus.devices, gpus.links).ways
    for name, row, device in zip(names, ways, gpus.devices, strict=True):
        numa = "N/A" if device.numa_node is None else str(device.numa_node)
        cells = (" X " if way == "X" else way for way in row)
        yield "\t".join((name, *cells, "N/A", numa, "\tN/A"))
    yield "\nLegend:\n"
    for word, meaning in _LEGEND.items():
        yield f"  {word:<4} = {meaning}"


def report_lines(gpus: VisibleGpus, now: datetime) -> Iterator[str]:
    """What is known of each GPU, by section."""
    yield "\n==============NVSMI LOG==============\n"
    yield _fact(0, "Timestamp", f"{now:%a %b %e %H:%M:%S %Y}")
    yield _fact(0, "Driver Version", gpus.driver_version)
    yield _fact(0, "CUDA Version", gpus.cuda_version)
    yield ""
    yield _fact(0, "Attached GPUs", str(len(gpus.devices)))
    for device in gpus.devices:
        yield f"GPU {device.pci_bus_id}"
        yield from _sections(GpuReading(device, gpus))
        yield ""


def _sections(reading: GpuReading) -> Iterator[str]:
    device, model = reading.device, reading.model
    architecture = "N/A" if model is None else model.architecture.title()
    power_w = None if reading.power_w is None else f"{reading.power_w:.2f}"
    yield _fact(1, "Product Name", device.product)
    yield _fact(1, "Product Architecture", architecture)
    yield _fact(1, "Persistence Mode", "Enabled")
    yield from _section("MIG Mode", Current=reading.mig_mode, Pending=reading.mig_mode)
    for part in device.migs:
        if part.uuid in reading.gpus.parts:
            yield "    MIG Device"
            yield _fact(2, "Index", str(part.index))
            yield _fact(2, "MIG Profile", part.profile)
            yield _fact(2, "UUID", part.uuid)
    yield _fact(1, "GPU UUID", device.uuid)
    yield _fact(1, "Minor Number", str(device.index if device.minor is None else device.minor))
    yield from _section("PCI", **{"Bus Id": device.pci_bus_id})
    yield from _section(
        "FB Memory Usage",
        Total=f"{device.memory_mib} MiB",
        Reserved="0 MiB",
        Used=_amount(reading.used_mib, "MiB"),
        Free=_amount(reading.free_mib, "MiB"),
    )
    yield _fact(1, "Compute Mode", "Default")
    yield from _section(
        "Utilization", GPU=_amount(reading.busy, "%"), Memory=_amount(reading.memory_percent, "%")
    )
    yield from _section("ECC Mode", Current="Enabled", Pending="Enabled")
    yield from _section("Temperature", **{"GPU Current Temp": _amount(reading.temperature_c, "C")})
    limit = "N/A" if model is None else f"{model.power_limit_w:.2f} W"
    power = {"Average Power Draw": _amount(power_w, "W"), "Current Power Limit": limit}
    yield from _section("GPU Power Readings", **power)
    yield _fact(1, "Processes", "None")


def _section(title: str, **facts: str) -> Iterator[str]:
    yield f"    {title}"
    for name, value in facts.items():
        yield _fact(2, name, value)


def _fact(depth: int, name: str, value: str) -> str:
    return f"{'    ' * depth + name:<{_WIDTH}} : {'N/A' if value == UNSUPPORTED else value}"


def _amount(value: object, unit: str) -> str:
    return "N/A" if value is None else f"{value} {unit}"
