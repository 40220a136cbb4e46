"""Where the programs of a genuine Kubernetes lie: named by the environment, else in the cache.

`make kubernetes-binaries` puts them into the cache; nothing is built or downloaded here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tonnage.cli.places import cache_folder
from tonnage.model.errors import ConfigError, Problem

FOLDER_VARIABLE: Final = "TONNAGE_KUBERNETES_BIN"
VERSION_VARIABLE: Final = "KUBERNETES_VERSION"
DEFAULT_MINOR: Final = "1.35"
PATCHES: Final[Mapping[str, str]] = {"1.34": "1.34.4", "1.35": "1.35.8", "1.36": "1.36.3", "1.37": "1.37.1"}
"""The patch release of each minor version that is pinned in tests/kubernetes/modules."""
CONTROL_PLANE: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder that holds the programs of a control plane."""

    folder: Path

    def path(self, program: str) -> Path:
        return self.folder / program


def chosen_minor(environment: Mapping[str, str], wanted: str = DEFAULT_MINOR) -> str:
    """`$KUBERNETES_VERSION` as a minor version, else `wanted`.

    Raises:
        ConfigError: no such version is pinned.

    >>> chosen_minor({"KUBERNETES_VERSION": "v1.37.1"})
    '1.37'
    """
    named = environment.get(VERSION_VARIABLE, "")
    minor = ".".join((named or wanted).removeprefix("v").split(".")[:2])
    if minor not in PATCHES or named.removeprefix("v") not in ("", minor, PATCHES[minor]):
        raise ConfigError(
            Problem(
                f"no genuine Kubernetes {(named or wanted)[:20]}",
                f"${VERSION_VARIABLE}" if named else "the scenario's serverVersion",
                f"pinned are {', '.join(PATCHES.values())}",
                f"{VERSION_VARIABLE}={DEFAULT_MINOR}, or a folder of your own in ${FOLDER_VARIABLE}",
            )
        )
    return minor


def cached_folder(environment: Mapping[str, str], minor: str) -> Path:
    """Where `make kubernetes-binaries` puts the programs of a minor version.

    >>> str(cached_folder({"HOME": "/home/me"}, "1.35"))
    '/home/me/.cache/tonnage/kubernetes/v1.35.8'
    """
    return cache_folder(environment) / "kubernetes" / f"v{PATCHES[minor]}"


def find_binaries(
    environment: Mapping[str, str],
    *,
    minor: str = DEFAULT_MINOR,
    programs: Sequence[str] = CONTROL_PLANE,
) -> Binaries:
    """The folder with all `programs`. `minor` counts when the environment says nothing.

    Raises:
        ConfigError: some are missing.
    """
    named = environment.get(FOLDER_VARIABLE, "")
    chosen = DEFAULT_MINOR if named else chosen_minor(environment, minor)
    folder = Path(named).expanduser().absolute() if named else cached_folder(environment, chosen)
    missing = [name for name in programs if not os.access(folder / name, os.X_OK)]
    if not missing:
        return Binaries(folder)
    build = "make kubernetes-binaries" + ("" if chosen == DEFAULT_MINOR else f" {VERSION_VARIABLE}={chosen}")
    raise ConfigError(
        Problem(
            "the programs of a genuine Kubernetes are not here",
            str(folder),
            f"missing: {', '.join(missing)}",
            f"unset {FOLDER_VARIABLE}, or put them there"
            if named
            else f"{build} in a checkout of Tonnage, or name their folder in ${FOLDER_VARIABLE}",
        )
    )
