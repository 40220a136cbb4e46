"""Which program a container or a command runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tonnage.twin.kubelet.containers.compute_turns import Turns
from tonnage.twin.kubelet.containers.files import FLEET_BYTES, Space
from tonnage.twin.kubelet.containers.images import default_command, parse_image
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program
from tonnage.twin.kubelet.programs.basic import COMMANDS, pretend
from tonnage.twin.kubelet.programs.cuda import SAMPLES, sample_at
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
    {**COMMANDS, **FILING, **FILTERS, **MACHINE, **SAMPLES}
)
_NVIDIAS: Final[Mapping[str, Program]] = MappingProxyType(
    {"nvidia-smi": nvidia_smi, "nvidia-cuda-mps-control": mps_control, "tonnage-load": tonnage_load}
)
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash"})


def command_name(context: ContainerContext) -> str:
    """The command's name without its folder; empty when there is no command."""
    return context.argv[0].rpartition("/")[2] if context.argv else ""


def find_command(context: ContainerContext) -> Program | None:
    """The program that `argv[0]` names inside this container, or None when there is no such file.

    NVIDIA's own and `tonnage-load` are there only if devices were injected, because they come with them.
    """
    if not context.argv:
        return None
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


class Programs:
    """Programs by image repository, given from outside, over the commands that every image has.

    `turns` and `space` are what all containers of a fleet share.
    """

    def __init__(self, images: Mapping[str, Program] = MappingProxyType({})) -> None:
        self._images = images
        self.turns = Turns()
        self.space = Space(FLEET_BYTES)

    def has_image(self, image: str) -> bool:
        """Whether the image was given from outside, and so lies on every node."""
        return parse_image(image).repository in self._images

    def for_container(self, image: str, argv: tuple[str, ...]) -> Program:
        """What the container runs. An image or command that the twin does not know is pretended."""
        program = self._images.get(parse_image(image).repository)

        async def run(context: ContainerContext) -> int:
            if program is not None:
                context.serving.set()
                return await program(context)
            effective = replace(context, argv=argv or default_command(image))
            return await (find_command(effective) or pretend)(effective)

        return run

    def command(self, context: ContainerContext) -> Program | None:
        """The program of a command that is executed in a running container."""
        return find_command(context)
