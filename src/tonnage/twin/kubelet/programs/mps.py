"""A container as a client of MPS: it reaches the control daemon of its resource, or none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tonnage.model.devices.mps import PIPE_VARIABLE
from tonnage.twin.kubelet.containers.runtime_port import ContainerContext
from tonnage.twin.kubelet.programs.basic import complain, read_all, say

_PATIENCE_S: Final = 5.0
NO_DAEMON: Final = "MPS client failed to connect to the MPS control daemon or the MPS server"
"""CUDA's text of error 805."""


def is_client(context: ContainerContext) -> bool:
    """Whether CUDA would look for a control daemon."""
    return PIPE_VARIABLE in context.env


async def daemon_answer(context: ContainerContext, command: str) -> tuple[int, str] | None:
    """(exit status, answer) of the daemon behind the container's pipe folder; None when none answers."""
    folder = context.env.get(PIPE_VARIABLE, "")
    source = context.injection.sources.get(folder)
    if source is None:
        return None
    socket: Path = context.node_root / source.lstrip("/") / "control"
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            writer.write(f"{command}\n".encode())
            reply = (await reader.read()).decode("utf-8", "replace")
            writer.close()
    except (OSError, TimeoutError):
        return None
    status, _, answer = reply.partition("\n")
    return int(status or 0), answer


async def mps_control(context: ContainerContext) -> int:
    """NVIDIA's control program without options: a command a line."""
    if len(context.argv) > 1:
        return complain(context, "the twin takes commands only on standard input")
    status = 0
    for line in (await read_all(context)).decode("utf-8", "replace").splitlines():
        answer = await daemon_answer(context, line.strip())
        if answer is None:
            say(context, "Cannot find MPS control daemon process")
            return 1
        status, text = answer
        if text:
            say(context, text)
    return status
