"""Configurations of container runtimes, as far as GPUs depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tonnage.model.errors import Problem


class RuntimeKind(StrEnum):
    """The runtimes whose configuration is understood."""

    CONTAINERD = "containerd"
    CRIO = "cri-o"


@dataclass(frozen=True, slots=True)
class Handler:
    """A runtime handler and the program that it runs, empty where the runtime's default is meant."""

    name: str
    program: str = ""
    where: str = ""

    @property
    def is_nvidia(self) -> bool:
        """Whether NVIDIA's runtime is behind it."""
        return "nvidia-container-runtime" in self.program.rpartition("/")[2]


TEMPLATES: Final = ("config-v3.toml.tmpl", "config.toml.tmpl")
"""Beside containerd's main file, what k3s and RKE2 make it from: the first that is there."""
CDI_FOLDER: Final = "/var/run/cdi"
"""Where CDI specs are written that change with the node."""


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """What the files of one runtime say together; None is what they do not say. `where` is `file:line`.

    `cri_disabled` is where the part for Kubernetes is switched off, empty if it is not. `cdi_replaced` is the
    later file that speaks of containerd's part for Kubernetes without saying `cdi` again: to containerd 1 it
    takes the place of all that was said before. `cdi_elsewhere` is where the folders of CDI specs are said,
    if CDI_FOLDER is not one of them. `templates`: those texts by their path.
    """

    kind: RuntimeKind
    files: tuple[str, ...] = ()
    version: int | None = None
    default: str = ""
    default_where: str = ""
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    cdi: bool | None = None
    cdi_where: str = ""
    cdi_replaced: str = ""
    cdi_elsewhere: str = ""
    nri: bool | None = None
    nri_where: str = ""
    cri_disabled: str = ""
    templates: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolkitConfig:
    """NVIDIA's container toolkit's own file; empty and None are what it does not say."""

    file: str = ""
    mode: str = ""
    mode_where: str = ""
    ldconfig: str = ""
    ldconfig_where: str = ""
    root: str = ""
    root_where: str = ""
    no_cgroups: str = ""
    """Where control groups are switched off, empty if they are not."""
    unprivileged_variable: bool | None = None
    unprivileged_where: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeRuntime:
    """What decides about CDI on a node. `kubelet` and `runtime` are as its Node says them (`v1.35.0`,
    `containerd://2.1.4`), empty while it does not; `configs` are those that the agent sees.

    `unwritable`: why the agent cannot write CDI specs, empty if it can.
    """

    kubelet: str = ""
    runtime: str = ""
    configs: tuple[RuntimeConfig, ...] = ()
    unwritable: str = ""
