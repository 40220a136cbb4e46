"""Are the nodes there by which programs reach the driver, with the kernel's numbers?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.node.access import capabilities_of
from tonnage.diagnose.doctor.finding import (
    DoctorCode,
    Finding,
    Judgement,
    Layer,
    Severity,
    counted,
    error,
)
from tonnage.model.device_nodes import CAPABILITY_FOLDER
from tonnage.model.devices import Inventory
from tonnage.model.node_facts import DeviceNodeFacts

_LAYER: Final = Layer.DEVICE_NODES
_MAJOR: Final = 195
"""Of the control node and the GPUs, by assignment of the kernel's list of devices."""
_CONTROL: Final = 255
_UVM: Final = "nvidia-uvm"
_CAPABILITIES: Final = "nvidia-caps"


def judge_device_nodes(facts: DeviceNodeFacts, inventory: Inventory | None) -> Judgement:
    """Every node that the loaded driver needs; MIG capabilities of the instances that exist."""
    minors = sorted(_minors(facts, inventory))
    findings = [
        *_control(facts),
        *(finding for minor in minors for finding in _gpu(facts, minor)),
        *_uvm(facts),
        *_capabilities(facts, inventory),
    ]
    return Judgement(_LAYER, tuple(findings), counted(len(facts.nodes), "node"))


def _minors(facts: DeviceNodeFacts, inventory: Inventory | None) -> set[int]:
    devices = inventory.devices if inventory is not None else ()
    return {*facts.minors.values(), *(device.minor for device in devices if device.minor is not None)}


def _control(facts: DeviceNodeFacts) -> Iterator[Finding]:
    make = "nvidia-modprobe, or: mknod -m 666 /dev/nvidiactl c 195 255"
    yield from _node(facts, "/dev/nvidiactl", (_MAJOR, _CONTROL), make)


def _gpu(facts: DeviceNodeFacts, minor: int) -> Iterator[Finding]:
    make = f"nvidia-modprobe -c {minor}, or: mknod -m 666 /dev/nvidia{minor} c {_MAJOR} {minor}"
    yield from _node(facts, f"/dev/nvidia{minor}", (_MAJOR, minor), make)


def _uvm(facts: DeviceNodeFacts) -> Iterator[Finding]:
    """Missing after a boot until somebody asks for it: CUDA does, but cannot inside a container."""
    major = (facts.majors or {}).get(_UVM)
    make = "nvidia-modprobe -u -c 0"
    if major is not None:
        yield from _node(facts, "/dev/nvidia-uvm", (major, 0), make, Severity.WARNING)
    elif facts.majors is not None and "/dev/nvidia-uvm" not in facts.nodes:
        yield Finding(
            DoctorCode.NODE_MISSING,
            _LAYER,
            Severity.WARNING,
            "/dev/nvidia-uvm is missing: the module nvidia-uvm is not loaded",
            where="/proc/devices",
            why="CUDA needs it, and no container can load a module",
            remedy=f"modprobe nvidia-uvm && {make}",
        )


def _capabilities(facts: DeviceNodeFacts, inventory: Inventory | None) -> Iterator[Finding]:
    major = (facts.majors or {}).get(_CAPABILITIES)
    parts = [(device, mig) for device in (inventory.devices if inventory else ()) for mig in device.migs]
    wanted = [name for device, mig in parts for name in capabilities_of(device, mig)]
    for name in dict.fromkeys(wanted):
        number = facts.capabilities.get(name)
        if number is None:
            continue
        path = f"{CAPABILITY_FOLDER}/nvidia-cap{number}"
        make = f"nvidia-modprobe -f /proc/driver/nvidia/capabilities/{_in_proc(name)}"
        if major is None and path in facts.nodes:
            continue
        yield from _node(facts, path, (major, number) if major is not None else None, make)


def _in_proc(name: str) -> str:
    """A capability's file.

    >>> _in_proc("gpu0/gi1/access")
    'gpu0/mig/gi1/access'
    """
    return name.replace("/gi", "/mig/gi", 1)


def _node(
    facts: DeviceNodeFacts,
    path: str,
    numbers: tuple[int, int] | None,
    make: str,
    severity: Severity = Severity.ERROR,
) -> Iterator[Finding]:
    found = facts.nodes.get(path)
    if found is None:
        why = "no program reaches the GPU without it, and no container gets it"
        what = f"{path} is missing"
        yield Finding(DoctorCode.NODE_MISSING, _LAYER, severity, what, "/dev", why, make)
    elif found.numbers is None:
        yield error(
            DoctorCode.NODE_WRONG,
            _LAYER,
            f"{path} is no character device",
            where=path,
            why="a container that was given a path which did not exist leaves a folder or a file there",
            remedy=f"rm -r {path} && {make}",
        )
    elif numbers is not None and found.numbers != numbers:
        was, wanted = (":".join(map(str, each)) for each in (found.numbers, numbers))
        yield error(
            DoctorCode.NODE_WRONG,
            _LAYER,
            f"{path} has the numbers {was}, the driver has {wanted}",
            where=path,
            why="it leads to another driver, or to none: an image or a backup brought it along",
            remedy=f"rm {path} && {make}",
        )
