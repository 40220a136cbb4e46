"""Are there GPUs on the bus, and do they answer there?"""

from __future__ import annotations

from typing import Final

from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, counted, finding, listed
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import HardwareFacts, PciGpu
from tonnage.model.reasons.messages.node_symptoms import GpuLost
from tonnage.model.reasons.node.hardware import NoGpuFound

NVIDIA: Final = "10de"
AMD: Final = "1002"
GAUDI: Final = "1da3"
NAMES: Final = {NVIDIA: "NVIDIA", AMD: "AMD", GAUDI: "Gaudi"}


def judge_hardware(facts: HardwareFacts) -> Judgement:
    """The GPUs by vendor; none at all, or one that does not answer, is an error."""
    if facts.gpus is None:
        why = "/sys/bus/pci is not visible: with --root, mount sysfs there"
        return Judgement(NodeLayer.HARDWARE, because=why)
    if not facts.gpus:
        no_gpu = finding(
            NoGpuFound(
                message="no GPU on the PCI bus",
                remedy="lspci -nn | grep -iE '10de|1002|1da3'; then the BIOS, the riser, or the VM's"
                " passthrough",
            ),
            where="/sys/bus/pci/devices",
            why="no device of NVIDIA, AMD or Gaudi is a GPU by its PCI class",
        )
        return Judgement(NodeLayer.HARDWARE, (no_gpu,), "no GPU")
    dead = tuple(_dead(gpu) for gpu in facts.gpus if gpu.dead)
    return Judgement(NodeLayer.HARDWARE, dead, summary_of(facts.gpus))


def summary_of(gpus: tuple[PciGpu, ...]) -> str:
    """How many of whom."""
    numbers = {vendor: sum(gpu.vendor == vendor for gpu in gpus) for vendor in NAMES}
    return ", ".join(counted(number, f"{NAMES[vendor]} GPU") for vendor, number in numbers.items() if number)


def of_vendor(facts: HardwareFacts | None, vendor: str) -> tuple[PciGpu, ...]:
    """The GPUs of one vendor."""
    gpus = facts.gpus if facts is not None else None
    return tuple(gpu for gpu in gpus or () if gpu.vendor == vendor)


def addresses(gpus: tuple[PciGpu, ...]) -> str:
    """Their PCI addresses, a few of them."""
    return listed([gpu.address for gpu in gpus])


def _dead(gpu: PciGpu) -> NodeFinding:
    return finding(
        GpuLost(
            subject="",
            message=f"GPU {gpu.address} does not answer on the PCI bus",
            remedy="kubectl drain $(hostname) --ignore-daemonsets, then power it off and on; look at power,"
            " cooling and the slot",
            device=gpu.address,
        ),
        where=f"/sys/bus/pci/devices/{gpu.address}/config",
        why="its configuration space reads as all ones: it has fallen off the bus (Xid 79) or has no power",
    )
