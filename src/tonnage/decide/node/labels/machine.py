"""Labels about the machine itself: PCI devices, processor, kernel, system; and what PCI says of GPUs.

Source: kubernetes-sigs/node-feature-discovery, "Feature labels", as NVIDIA's operator configures it: PCI
devices by vendor, of the classes network, display and 3D; NVIDIA/k8s-device-plugin, GPU feature discovery.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from tonnage.decide.node.labels.syntax import LONGEST, sanitised, shortened
from tonnage.model.node.machine import Machine, PciDevice

FEATURE: Final = "feature.node.kubernetes.io/"
NVIDIA_VENDOR: Final = "10de"
_CLASSES: Final = ("02", "0300", "0302")
_GPU_CLASSES: Final = {"0300": "graphics", "0302": "compute"}
_VENDORS: Final = {
    "GenuineIntel": "Intel",
    "AuthenticAMD": "AMD",
    "HygonGenuine": "Hygon",
    "0x41": "ARM",
    "0x4e": "NVIDIA",
    "0xc0": "Ampere",
}
_RELEASE: Final = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", re.ASCII)
_CAPABILITIES: Final = 0x34
_FIRST_CAPABILITY: Final = 0x40
_VENDOR_SPECIFIC: Final = 0x09
_WHOLE_CONFIG: Final = 256
_VERSION_BYTES: Final = 10


def machine_labels(machine: Machine) -> dict[str, str]:
    """The labels of node feature discovery that the platform needs; nothing of what is not known.

    >>> machine_labels(Machine(kernel="6.8.0-51-generic"))["feature.node.kubernetes.io/kernel-version.minor"]
    '8'
    """
    pairs = (*_pci(machine.pci or ()), *_cpu(machine), *_kernel(machine.kernel), *_system(machine))
    return {FEATURE + key: value for key, value in pairs if value}


def gpus_on_the_bus(pci: Sequence[PciDevice] | None) -> tuple[PciDevice, ...]:
    """NVIDIA's devices that are GPUs, by class."""
    return tuple(
        device
        for device in pci or ()
        if device.vendor == NVIDIA_VENDOR and device.class_code[:4] in _GPU_CLASSES
    )


def mode_label(pci: Sequence[PciDevice] | None) -> str:
    """`compute` or `graphics` as all GPUs are by class; `unknown` where they differ or cannot be seen."""
    modes = {_GPU_CLASSES[device.class_code[:4]] for device in gpus_on_the_bus(pci)}
    return modes.pop() if len(modes) == 1 else "unknown"


def vgpu_labels(pci: Sequence[PciDevice] | None) -> dict[str, str]:
    """Whether GPUs are virtual ones, and of which host driver; nothing where the kernel does not show it.

    More than 64 bytes of a configuration space are shown to privileged processes alone.
    """
    gpus = gpus_on_the_bus(pci)
    if not gpus or any(len(gpu.config) < _WHOLE_CONFIG for gpu in gpus):
        return {}
    hosts = [host for gpu in gpus if (host := _host_driver(gpu.config)) is not None]
    if not hosts:
        return {"vgpu.present": "false"}
    version, branch = hosts[0]
    host_driver = {"vgpu.host-driver-version": version, "vgpu.host-driver-branch": branch}
    return {"vgpu.present": "true"} | {key: value for key, value in host_driver.items() if value}


def _host_driver(config: bytes) -> tuple[str, str] | None:
    """(version, branch) of the host's driver out of the capability signed `VF`; None if there is none."""
    at, visited = config[_CAPABILITIES], set[int]()
    while _FIRST_CAPABILITY <= at < _WHOLE_CONFIG - 4 and at not in visited:
        visited.add(at)
        if config[at] == _VENDOR_SPECIFIC and config[at + 3 : at + 5] == b"VF":
            return _record(config[at : min(at + config[at + 2], _WHOLE_CONFIG)])
        at = config[at + 1]
    return None


def _record(capability: bytes) -> tuple[str, str]:
    """(version, branch) of record 0: its id and length, then ten characters each."""
    at = 5
    while at + 2 <= len(capability):
        kind, length = capability[at], capability[at + 1]
        if kind == 0:
            body = capability[at + 2 : at + 2 + 2 * _VERSION_BYTES]
            return _text(body[:_VERSION_BYTES]), _text(body[_VERSION_BYTES:])
        if length < 2:
            break
        at += length
    return "", ""


def _text(raw: bytes) -> str:
    return shortened(sanitised(raw.split(b"\0")[0].decode("ascii", "ignore")))


def _pci(pci: Sequence[PciDevice]) -> Iterator[tuple[str, str]]:
    for device in pci:
        if device.class_code.startswith(_CLASSES) and re.fullmatch(r"[0-9a-f]{4}", device.vendor):
            yield f"pci-{device.vendor}.present", "true"


def _cpu(machine: Machine) -> Iterator[tuple[str, str]]:
    cpu = machine.cpu
    if cpu is None:
        return
    yield "cpu-model.vendor_id", _VENDORS.get(cpu.vendor, _value(cpu.vendor))
    if cpu.family is not None:
        yield "cpu-model.family", str(cpu.family)
    if cpu.model is not None:
        yield "cpu-model.id", str(cpu.model)


def _kernel(release: str) -> Iterator[tuple[str, str]]:
    yield "kernel-version.full", _value(release)
    yield from _numbered("kernel-version", release, "major", "minor", "revision")


def _system(machine: Machine) -> Iterator[tuple[str, str]]:
    system = machine.os_release
    yield "system-os_release.ID", _value(system.get("ID", ""))
    version = system.get("VERSION_ID", "")
    yield "system-os_release.VERSION_ID", _value(version)
    yield from _numbered("system-os_release.VERSION_ID", version, "major", "minor")


def _numbered(key: str, version: str, *names: str) -> Iterator[tuple[str, str]]:
    """The numbers at the beginning of a version, each under its name."""
    match = _RELEASE.match(version)
    for name, number in zip(names, match.groups() if match else (), strict=False):
        yield f"{key}.{name}", (number or "")[:LONGEST]


def _value(text: str) -> str:
    """As node feature discovery writes what may not stand in a value.

    >>> _value("6.8.0+")
    '6.8.0'
    """
    return shortened(re.sub(r"[^-A-Za-z0-9_.]", "_", text).strip("-_."))
