"""What a node's host does around a change of its MIG layout: programs that run, services that stand still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

HOOKS: Final = ("apply-start", "pre-apply-mode", "pre-apply-config", "apply-exit")
"""When a hook runs: before all else, before the MIG mode or the layout is changed, and in the end."""


@dataclass(frozen=True, slots=True)
class MigHook:
    """A program of the host. `where` is its place in the text."""

    command: str
    args: tuple[str, ...] = ()
    envs: Mapping[str, str] = field(default_factory=dict)
    workdir: str = "/"
    where: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class HostWork:
    """Hooks by name, and units of systemd that are stopped meanwhile if they run."""

    hooks: Mapping[str, tuple[MigHook, ...]] = field(default_factory=dict)
    services: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the host has nothing to do."""
        return not self.services and not any(self.hooks.values())
