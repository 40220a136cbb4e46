"""Where the programs of a genuine Kubernetes and its nodes lie: named by the environment, else in the cache.

`make kubernetes-binaries` puts them into the cache; nothing is built or downloaded here. There
each module has a folder of its own by its version: a second Kubernetes version shares the container runtime.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonnage.cli.locations.folders import cache_folder
from tonnage.model.errors import ConfigError, Problem

FOLDER_VARIABLE: Final = "TONNAGE_KUBERNETES_BIN"
VERSION_VARIABLE: Final = "KUBERNETES_VERSION"
DEFAULT_MINOR: Final = "1.35"
PATCHES: Final[Mapping[str, str]] = {"1.34": "1.34.4", "1.35": "1.35.8", "1.36": "1.36.3", "1.37": "1.37.1"}
"""The patch release of each minor version that is pinned in tests/kubernetes/modules."""
CONTROL_PLANE: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
"""These and kubelet are of the Kubernetes version."""


@dataclass(frozen=True, slots=True)
class RuntimeModule:
    """A Go module with programs of the container runtime; the same for every Kubernetes version."""

    name: str
    version: str
    programs: tuple[str, ...]


RUNTIME: Final = (
    RuntimeModule("containerd", "2.2.9", ("containerd", "containerd-shim-runc-v2", "ctr")),
    RuntimeModule("runc", "1.4.3", ("runc",)),
    RuntimeModule("cni", "1.9.1", ("bridge", "host-local", "loopback")),
)
"""What is pinned in tests/kubernetes/modules under these names."""
NODE: Final = ("kubelet", *(program for module in RUNTIME for program in module.programs))


@dataclass(frozen=True, slots=True)
class Binaries:
    """Where programs lie: those of Kubernetes in `folder`, others where `elsewhere` says."""

    folder: Path
    elsewhere: Mapping[str, Path] = field(default_factory=dict)

    def path(self, program: str) -> Path:
        """The file of a program; it is there when the program was asked for."""
        return self.elsewhere.get(program, self.folder) / program


def chosen_minor(environment: Mapping[str, str], default: str = DEFAULT_MINOR) -> str:
    """`$KUBERNETES_VERSION` as a minor version, else `default`.

    Raises:
        ConfigError: no such version is pinned.

    >>> chosen_minor({"KUBERNETES_VERSION": "v1.37.1"})
    '1.37'
    """
    named = environment.get(VERSION_VARIABLE, "")
    minor = ".".join((named or default).removeprefix("v").split(".")[:2])
    if minor not in PATCHES or named.removeprefix("v") not in ("", minor, PATCHES[minor]):
        raise ConfigError(
            Problem(
                f"unsupported Kubernetes version {(named or default)[:20]}",
                f"${VERSION_VARIABLE}" if named else "the scenario's serverVersion",
                f"supported versions are {', '.join(PATCHES.values())}",
                f"set {VERSION_VARIABLE}={DEFAULT_MINOR}, or name your own folder in ${FOLDER_VARIABLE}",
            )
        )
    return minor


def cached_folder(environment: Mapping[str, str], minor: str) -> Path:
    """Where `make kubernetes-binaries` puts the programs of a minor version.

    >>> str(cached_folder({"HOME": "/home/me"}, "1.35"))
    '/home/me/.cache/tonnage/kubernetes/v1.35.8'
    """
    return cache_folder(environment) / "kubernetes" / f"v{PATCHES[minor]}"


def module_folder(environment: Mapping[str, str], module: RuntimeModule) -> Path:
    """Where `make kubernetes-binaries` puts the programs of one module of the container runtime.

    >>> str(module_folder({"HOME": "/home/me"}, RuntimeModule("runc", "1.4.3", ("runc",))))
    '/home/me/.cache/tonnage/kubernetes/runc-v1.4.3'
    """
    return cache_folder(environment) / "kubernetes" / f"{module.name}-v{module.version}"


def find_binaries(
    environment: Mapping[str, str],
    *,
    minor: str = DEFAULT_MINOR,
    programs: Sequence[str] = CONTROL_PLANE,
) -> Binaries:
    """Where all `programs` lie. `minor` counts when the environment says nothing.

    Raises:
        ConfigError: some are missing.
    """
    named = environment.get(FOLDER_VARIABLE, "")
    chosen = DEFAULT_MINOR if named else chosen_minor(environment, minor)
    if named:
        binaries = Binaries(Path(named).expanduser().absolute())
    else:
        places = {name: module_folder(environment, module) for module in RUNTIME for name in module.programs}
        binaries = Binaries(cached_folder(environment, chosen), places)
    missing = [name for name in programs if not is_program(binaries.path(name))]
    if not missing:
        return binaries
    folders = dict.fromkeys(str(binaries.path(name).parent) for name in missing)
    build = "make kubernetes-binaries" + ("" if chosen == DEFAULT_MINOR else f" {VERSION_VARIABLE}={chosen}")
    raise ConfigError(
        Problem(
            "the Kubernetes programs are missing",
            ", ".join(folders),
            f"missing: {', '.join(missing)}",
            f"unset {FOLDER_VARIABLE}, or put them there"
            if named
            else f"{build} in a checkout of Tonnage, or name their folder in ${FOLDER_VARIABLE}",
        )
    )


def is_program(path: Path) -> bool:
    """Is there a file that this user may run?"""
    return path.is_file() and os.access(path, os.X_OK)
