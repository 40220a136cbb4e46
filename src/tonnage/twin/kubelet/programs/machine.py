"""Programs that show the machine and its driver: `lspci`, `ldconfig -p`, `chroot` into the node's root."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.devices.inventory import Device
from tonnage.model.errors import TonnageError
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, PluginInjection, Program
from tonnage.twin.kubelet.programs.basic import complain, say
from tonnage.twin.kubelet.programs.gpus import ALL, sees_gpus

_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_SONAME: Final = ".so.1"
_OWN_LIBRARIES: Final = ("libm.so.6", "libc.so.6")
_BRIDGE: Final = "00:00.0 Host bridge: Intel Corporation Device 09a2 (rev 04)"
_OFF_THE_BUS: Final = "GPU is lost"


async def lspci(context: ContainerContext) -> int:
    """The node's PCI devices: sysfs is the node's in every container. `-nn` adds the numbers."""
    options = [word for word in context.argv[1:] if word.startswith("-")]
    if set(options) - {"-nn", "-D"}:
        return complain(context, f"the twin knows -nn and -D alone, not {options[0]}")
    try:
        devices = (await context.devices.scan()).devices
    except TonnageError:
        devices = ()
    domain = "0000:" if "-D" in options else ""
    say(context, f"{domain}{_BRIDGE}")
    for device in devices:
        address = device.pci_bus_id[4:].lower()
        say(context, _pci_line(device, address if domain else address[5:], numbers="-nn" in options))
    return 0


def _pci_line(device: Device, address: str, *, numbers: bool) -> str:
    model = next((m for m in gpu_models().values() if m.product == device.product), None)
    name = f"[{device.product.removeprefix('NVIDIA ')}]"
    kind = "3D controller"
    if numbers and model is not None:
        kind, name = f"{kind} [0302]", f"{name} [10de:{model.pci_device}]"
    # What has fallen off the bus reads as ones.
    revision = "ff" if device.reason == _OFF_THE_BUS else "a1"
    return f"{address} {kind}: NVIDIA Corporation {name} (rev {revision})"


async def ldconfig(context: ContainerContext) -> int:
    """`-p`: the image's own libraries and, where devices were injected, the driver's of the node."""
    if context.argv[1:] != ("-p",):
        return 0
    libraries = {name: f"/lib/x86_64-linux-gnu/{name}" for name in _OWN_LIBRARIES}
    if sees_gpus(context):
        names = await asyncio.to_thread(_driver_libraries, context.node_root)
        libraries |= {name: f"/{_LIBRARIES}/{name}" for name in names}
    say(context, f"{len(libraries)} libs found in cache `/etc/ld.so.cache'")
    for name, path in sorted(libraries.items(), reverse=True):
        say(context, f"\t{name} (libc6,x86-64) => {path}")
    return 0


def _driver_libraries(root: Path) -> list[str]:
    folder = root / _LIBRARIES
    return [path.name for path in folder.glob(f"*{_SONAME}")] if folder.is_dir() else []


def chroot_with(find: Callable[[ContainerContext], Program | None]) -> Program:
    """`chroot /host PROGRAM…` in a pod of `kubectl debug node/…`: programs of the node see all its GPUs."""

    async def chroot(context: ContainerContext) -> int:
        folder, *words = context.argv[1:] or ("",)
        if not words:
            return complain(context, "missing operand") + 124
        if not _is_node_root(context, folder):
            return complain(context, f"cannot change root directory to '{folder}': not the node's root") + 124
        has_gpus = (context.node_root / _LIBRARIES).is_dir()
        injection = PluginInjection({"NVIDIA_VISIBLE_DEVICES": ALL}) if has_gpus else PluginInjection()
        inner = replace(context, argv=tuple(words), injection=injection)
        program = find(inner)
        if program is None:
            return complain(context, f"failed to run command '{words[0]}': No such file or directory") + 126
        return await program(inner)

    return chroot


def _is_node_root(context: ContainerContext, folder: str) -> bool:
    roots = {
        volume.get("name")
        for volume in context.pod.spec.volumes
        if (volume.get("hostPath") or {}).get("path") == "/"
    }
    return any(
        mount.mount_path.rstrip("/") == folder.rstrip("/") and mount.name in roots
        for mount in context.container.volume_mounts
    )


async def apt_get(context: ContainerContext) -> int:
    """Ends well; what the documents install are programs that the twin has anyway."""
    if not any(word.startswith("-q") for word in context.argv[1:]):
        say(context, "pretended by the twin: nothing is fetched, nothing is installed")
    return 0


MACHINE: Final[Mapping[str, Program]] = MappingProxyType(
    {"lspci": lspci, "ldconfig": ldconfig, "apt-get": apt_get}
)
