"""Agents that end right before or right after any action, as if they were killed there."""

from __future__ import annotations

from tonnage.loop.effects import ActionPorts
from tonnage.loop.performer import ActionRecord, Performer


class KilledError(BaseException):
    """The agent is no more."""


def killed_at(fuse: int, ports: ActionPorts) -> Performer:
    """Its agent ends at record number `fuse`, from 0: before an action, after it, before the next."""
    left = fuse

    def record(_: ActionRecord) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KilledError

    return Performer(ports, record=record)
