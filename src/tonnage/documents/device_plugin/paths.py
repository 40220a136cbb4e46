"""Which paths of a node a device-plugin configuration may name.

Who may write a ConfigMap need not be root on its nodes. What a configuration names reaches container
runtimes, which run it or put it into containers as root, and the agent, which reads and writes as root. So a
text may only choose among folders that no container writes; the agent's own flags may name any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.documents.device_plugin.schema import PluginFlagsSection
from tonnage.documents.yaml.reader import MarkedDocument, Path
from tonnage.model.devices.cdi import DRIVER_ROOTS
from tonnage.model.errors import Problem
from tonnage.model.node.plugin_settings import FeatureSettings

HOOK_PROGRAMS: Final = ("nvidia-cdi-hook", "nvidia-ctk")
"""No other program has the hooks. A shell, told the same, would run a file of the container as root."""
_SYSTEM: Final = ("/usr", "/home/kubernetes/bin")
"""Where a host has programs, and no volumes and images of containers, as /var and /opt have them."""
_FEATURES: Final = FeatureSettings().output_file.rpartition("/")[0]
_MACHINE: Final = (
    "/sys/class/dmi/id",
    "/sys/devices/virtual/dmi/id",
    "/sys/firmware/devicetree/base",
    "/proc/device-tree",
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A field, the flag that may say anything, and what a text may: these paths, or one below a folder."""

    field: Path
    flag: str
    folders: tuple[str, ...]
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def allows(self, path: str) -> bool:
        below = any(path.startswith(f"{folder}/") for folder in self.folders)
        named = not self.names or path.rpartition("/")[2] in self.names
        return path in self.paths or (below and named)

    def remedy(self) -> str:
        kind = f"a path that ends in {' or '.join(self.names)}" if self.names else "a path"
        others = [path for path in self.paths if path and not path.startswith(tuple(self.folders))]
        where = f"{kind} below {', '.join(self.folders)}"
        return f"write {', '.join([*others, where])}; or give the agent {self.flag}"


def path_problems(flags: PluginFlagsSection, located: MarkedDocument) -> Iterator[Problem]:
    """Paths of the text that it may not name; what the agent's flags and variables say is theirs to say."""
    for rule, path in _paths_with_rules(flags):
        if rule.field not in located.elsewhere and not rule.allows(path):
            why = "the agent uses it as root, so it must be a folder that no container can write"
            problem = f"{rule.field[-1]} may not be {path[:100]}"
            yield Problem(problem, located.where(rule.field), why, rule.remedy())


def _paths_with_rules(flags: PluginFlagsSection) -> Iterable[tuple[_Rule, str]]:
    roots = (*_SYSTEM, *(root for root in DRIVER_ROOTS if root != "/"))
    return (
        (
            _Rule(
                ("flags", "plugin", "nvidiaCTKPath"),
                "--nvidia-cdi-hook-path",
                _SYSTEM,
                names=HOOK_PROGRAMS,
            ),
            flags.plugin.nvidia_ctk_path,
        ),
        (
            _Rule(("flags", "nvidiaDriverRoot"), "--driver-root", roots, DRIVER_ROOTS),
            flags.nvidia_driver_root,
        ),
        (
            _Rule(("flags", "nvidiaDevRoot"), "--dev-root", roots, DRIVER_ROOTS),
            flags.nvidia_dev_root or "/",
        ),
        (
            _Rule(("flags", "mpsRoot"), "--mps-root", ("/run/nvidia", "/var/run/nvidia"), ("",)),
            flags.mps_root,
        ),
        (
            _Rule(("flags", "gfd", "outputFile"), "--output-file", (_FEATURES,), ("",)),
            flags.gfd.output_file,
        ),
        (
            _Rule(("flags", "gfd", "machineTypeFile"), "--machine-type-file", _MACHINE),
            flags.gfd.machine_type_file,
        ),
    )
