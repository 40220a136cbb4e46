"""What NVIDIA's MIG manager is told: named layouts, each for some of a node's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MigEntry:
    """What some GPUs shall be: those with the indices `devices` (None: all that can be divided).

    `filters` are PCI device ids, four hexadecimal digits, maybe `:` and a subsystem; none: of any product.
    Not `enabled`: whole GPUs.
    `where` is its place in the text.
    """

    devices: tuple[int, ...] | None
    enabled: bool
    wanted: Mapping[str, int]
    filters: tuple[str, ...] = ()
    where: str = field(default="", compare=False)


MigConfigs = Mapping[str, tuple[MigEntry, ...]]
"""Layouts by name, as `nvidia.com/mig.config` chooses one."""
