"""NVIDIA's driver container on a pretended node, whose driver is there from the beginning."""

from __future__ import annotations

from typing import Final

from tonnage.twin.kubelet.containers.images import parse_image
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.twin.kubelet.programs.basic import complain, pretend

COMMAND: Final = "nvidia-driver"
FAILS_ON: Final = "PRETENDED_DRIVER_FAILS_ON"
"""In the container's environment, with commas: `node@version`, where that version does not start."""


async def nvidia_driver(context: ContainerContext) -> int:
    """Stay up as one that has loaded its modules does, or end as one does that cannot build them."""
    tag = parse_image(context.container.image).tag
    failures = (entry.partition("@") for entry in context.env.get(FAILS_ON, "").split(","))
    if any(node == context.node_name and tag.startswith(version) for node, _, version in failures):
        return complain(context, "Could not resolve Linux kernel version")
    return await pretend(context)


async def probed(_: ContainerContext) -> int:
    """What is executed in the container finds the driver loaded."""
    return 0
