"""What a configuration's text names on the host must be root's: nothing that a container can put there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from tonnage.agent.config.reading import Reading
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import Problem
from tonnage.model.node.plugin_settings import CdiSettings

_HOOK: Final = ("flags", "plugin", "nvidiaCTKPath")


class HostOwners(Protocol):
    """Who may write what on the node's host."""

    def open_to_others(self, path: str, driver_root: str) -> str | None:
        """Who else than root, in words; empty: nobody. None: the host cannot be seen. Blocks.

        `driver_root` is the driver's root on the host.
        """
        ...


def own_hook(reading: Reading) -> bool:
    """Whether the agent's own flags and variables name the hooks' program; then no text does."""
    return any(override.path == _HOOK for override in reading.overrides)


def open_paths(config: PluginConfig, source: str, reading: Reading, host: HostOwners) -> tuple[Problem, ...]:
    """Paths of a text that somebody else than root may fill. Blocks.

    The text names only folders that should be root's (`documents.device_plugin.paths`); this looks whether
    they are. What the agent's own flags name is theirs to name: who sets them is root on the node.
    """
    own = {override.path for override in reading.overrides}
    problems: list[Problem] = []
    for field, path, flag in _paths_set(config):
        if field in own:
            continue
        why = host.open_to_others(path, config.driver_root)
        if why is None and field == _HOOK:
            why = "the agent does not see the host's files, so it cannot check who owns that program"
        if why:
            remedy = f"name a path that only root may write, or give the agent {flag}"
            problems.append(
                Problem(f"{field[-1]} may not be {path}", f"{source} {'.'.join(field)}", why, remedy)
            )
    return tuple(problems)


def _paths_set(config: PluginConfig) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """(field, path, the agent's flag for it) of what is not the default."""
    if config.cdi.hook_path != CdiSettings().hook_path:
        yield _HOOK, config.cdi.hook_path, "--nvidia-cdi-hook-path"
    if config.driver_root != "/":
        yield ("flags", "nvidiaDriverRoot"), config.driver_root, "--driver-root"
    if config.dev_root not in ("/", config.driver_root):
        yield ("flags", "nvidiaDevRoot"), config.dev_root, "--dev-root"
    if config.mps_root:
        yield ("flags", "mpsRoot"), config.mps_root, "--mps-root"
