"""Are the nodes there by which programs reach the driver, with the kernel's numbers?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.decide.node.access import capabilities_of
from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, counted, finding, listed
from tonnage.model.devices.device_nodes import CAPABILITY_FOLDER
from tonnage.model.devices.inventory import Inventory
from tonnage.model.layer import NodeLayer
from tonnage.model.node.facts import DeviceNodeFacts
from tonnage.model.reasons.node.device_nodes import DeviceNodeMissing, DeviceNodeWrong
from tonnage.model.severity import Severity

_LAYER: Final = NodeLayer.DEVICE_NODES
_MAJOR: Final = 195
"""Of the control node and the GPUs, by assignment of the kernel's list of devices."""
_CONTROL: Final = 255
_UVM: Final = "nvidia-uvm"
_CAPABILITIES: Final = "nvidia-caps"
_MOST_COMMANDS: Final = 6


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with one node: `was` is None when it is missing, empty when it is no device at all."""

    path: str
    was: str | None
    expected: str
    make: str
    severity: Severity = Severity.ERROR


def judge_device_nodes(facts: DeviceNodeFacts, inventory: Inventory | None) -> Judgement:
    """Every node that the loaded driver needs; MIG capabilities of the instances that exist."""
    minors = sorted(_minors(facts, inventory))
    faults = [
        *_control(facts),
        *(fault for minor in minors for fault in _gpu(facts, minor)),
        *_uvm(facts),
        *_capabilities(facts, inventory),
    ]
    missing = [
        _missing([fault for fault in faults if fault.was is None and fault.severity is severity])
        for severity in Severity
    ]
    wrong = [_wrong(fault) for fault in faults if fault.was is not None]
    findings = (*(finding for finding in missing if finding is not None), *wrong, *_module(facts))
    return Judgement(_LAYER, findings, counted(len(facts.nodes), "node"))


def _missing(faults: list[_Fault]) -> NodeFinding | None:
    """All of one severity at once: mostly they are missing together."""
    if not faults:
        return None
    paths = [fault.path for fault in faults]
    return finding(
        DeviceNodeMissing(
            message=f"{listed(paths)} {'is' if len(paths) == 1 else 'are'} missing",
            remedy="; ".join(fault.make for fault in faults[:_MOST_COMMANDS]),
            paths=tuple(paths),
        ),
        where="/dev",
        why="without it no program reaches the GPU, and no container gets it",
        severity=faults[0].severity,
    )


def _wrong(fault: _Fault) -> NodeFinding:
    if not fault.was:
        text = f"{fault.path} is not a character device"
        why = "it was made for a container that was given a path which did not exist"
    else:
        text = f"{fault.path} has the numbers {fault.was}, the driver has {fault.expected}"
        why = "it leads to another driver, or to none; it probably comes from an image or a backup"
    remedy = f"rm -r {fault.path}; {fault.make}"
    return finding(
        DeviceNodeWrong(
            message=text,
            remedy=remedy,
            path=fault.path,
            numbers=fault.was or "",
            expected=fault.expected,
        ),
        where=fault.path,
        why=why,
    )


def _minors(facts: DeviceNodeFacts, inventory: Inventory | None) -> set[int]:
    devices = inventory.devices if inventory is not None else ()
    return {*facts.minors.values(), *(device.minor for device in devices if device.minor is not None)}


def _control(facts: DeviceNodeFacts) -> Iterator[_Fault]:
    yield from _node(facts, "/dev/nvidiactl", (_MAJOR, _CONTROL), "nvidia-modprobe")


def _gpu(facts: DeviceNodeFacts, minor: int) -> Iterator[_Fault]:
    yield from _node(facts, f"/dev/nvidia{minor}", (_MAJOR, minor), f"nvidia-modprobe -c {minor}")


def _uvm(facts: DeviceNodeFacts) -> Iterator[_Fault]:
    """Missing after a boot until somebody asks for it: CUDA does, but cannot inside a container."""
    major = (facts.majors or {}).get(_UVM)
    if major is not None:
        yield from _node(facts, "/dev/nvidia-uvm", (major, 0), "nvidia-modprobe -u -c 0", Severity.WARNING)


def _module(facts: DeviceNodeFacts) -> Iterator[NodeFinding]:
    if facts.majors is not None and _UVM not in facts.majors and "/dev/nvidia-uvm" not in facts.nodes:
        yield finding(
            DeviceNodeMissing(
                message="/dev/nvidia-uvm is missing: the module nvidia-uvm is not loaded",
                remedy="modprobe nvidia-uvm; nvidia-modprobe -u -c 0",
                paths=("/dev/nvidia-uvm",),
            ),
            where="/proc/devices",
            why="CUDA needs it, and no container can load a module",
            severity=Severity.WARNING,
        )


def _capabilities(facts: DeviceNodeFacts, inventory: Inventory | None) -> Iterator[_Fault]:
    major = (facts.majors or {}).get(_CAPABILITIES)
    parts = [(device, mig) for device in (inventory.devices if inventory else ()) for mig in device.migs]
    capabilities = [name for device, mig in parts for name in capabilities_of(device, mig)]
    for name in dict.fromkeys(capabilities):
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
) -> Iterator[_Fault]:
    node = facts.nodes.get(path)
    expected = ":".join(map(str, numbers or ()))
    if node is None:
        yield _Fault(path, None, expected, make, severity)
    elif node.numbers is None or (numbers is not None and node.numbers != numbers):
        yield _Fault(path, ":".join(map(str, node.numbers or ())), expected, make, severity)
