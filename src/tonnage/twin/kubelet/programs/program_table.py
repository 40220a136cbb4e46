"""Which program a command is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program
from tonnage.twin.kubelet.programs import driver_container
from tonnage.twin.kubelet.programs.basic import COMMANDS
from tonnage.twin.kubelet.programs.cuda import SAMPLES, sample_at
from tonnage.twin.kubelet.programs.driver_container import nvidia_driver
from tonnage.twin.kubelet.programs.file_commands import FILING
from tonnage.twin.kubelet.programs.filters import FILTERS
from tonnage.twin.kubelet.programs.gpus import sees_gpus
from tonnage.twin.kubelet.programs.load_report import tonnage_load
from tonnage.twin.kubelet.programs.machine import MACHINE, chroot_with
from tonnage.twin.kubelet.programs.mps import mps_control
from tonnage.twin.kubelet.programs.nvidia_smi import nvidia_smi
from tonnage.twin.kubelet.programs.shell import shell

_FOLDERS: Final = frozenset(
    {"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/local/nvidia/bin"}
)
_EVERYWHERE: Final[Mapping[str, Program]] = MappingProxyType(
    {**COMMANDS, **FILING, **FILTERS, **MACHINE, **SAMPLES, driver_container.COMMAND: nvidia_driver}
)
_NVIDIAS: Final[Mapping[str, Program]] = MappingProxyType(
    {"nvidia-smi": nvidia_smi, "nvidia-cuda-mps-control": mps_control, "tonnage-load": tonnage_load}
)
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})


def find_command(context: ContainerContext) -> Program | None:
    """The program that `argv[0]` names inside this container, or None when there is no such file.

    NVIDIA's own and `tonnage-load` are there only if devices were injected, because they come with them.
    """
    if not context.argv:
        return None
    if context.container.command[:1] == [driver_container.COMMAND] and not context.main:
        return driver_container.probed
    folder, _, name = context.argv[0].rpartition("/")
    if folder and folder not in _FOLDERS:
        return sample_at(folder, name)
    if name in _NVIDIAS:
        return _NVIDIAS[name] if sees_gpus(context) else None
    if name in _SHELLS:
        return _shell
    if name == "chroot":
        return chroot_with(find_command)
    return _EVERYWHERE.get(name)


async def _shell(context: ContainerContext) -> int:
    return await shell(context, find_command)
