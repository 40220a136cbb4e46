"""Which program a container runs: its image's, or one of the commands, which are loaded when one is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tonnage.twin.kubelet.containers.compute_turns import Turns
from tonnage.twin.kubelet.containers.files import FLEET_BYTES, Space
from tonnage.twin.kubelet.containers.images import default_command, parse_image
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext, Program


def command_name(context: ContainerContext) -> str:
    """The command's name without its folder; empty when there is no command."""
    return context.argv[0].rpartition("/")[2] if context.argv else ""


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
            from tonnage.twin.kubelet.programs.basic import pretend

            effective = replace(context, argv=argv or default_command(image))
            return await (self.command(effective) or pretend)(effective)

        return run

    def command(self, context: ContainerContext) -> Program | None:
        """The program of a command in a container, or None where there is none of that name."""
        from tonnage.twin.kubelet.programs.program_table import find_command

        return find_command(context)
