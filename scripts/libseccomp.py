"""What runc's C parts need: a compiler, and libseccomp's headers and archive, the system's or Debian's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.image.debian import Apt, require_debian, unpack
from tonnage.cli.locations.binaries import FOLDER_VARIABLE
from tonnage.cli.locations.folders import cache_folder
from tonnage.model.errors import ConfigError, Problem

_ARCHIVE: Final = "libseccomp.a"


@dataclass(frozen=True, slots=True)
class CToolchain:
    """What to add to Go's environment, and whether a program without shared libraries can be linked."""

    environment: Mapping[str, str]
    static: bool


def c_toolchain(environment: Mapping[str, str], work: Path) -> CToolchain:
    """The system's libseccomp where pkg-config finds it, else Debian's package unpacked below `work`.

    Raises:
        ConfigError: no C compiler, or no libseccomp.
    """
    compiler = environment.get("CC") or "gcc"
    if shutil.which(compiler.split()[0]) is None:
        raise ConfigError(
            Problem(
                "runc cannot be built without a C compiler",
                f"{compiler} on PATH",
                "it is not there",
                f"apt-get install gcc libc6-dev, or a folder with all programs in ${FOLDER_VARIABLE}",
            )
        )
    static = Path(_said(*compiler.split(), "-print-file-name=libc.a")).is_absolute()
    if folder := _said("pkg-config", "--variable=libdir", "libseccomp"):
        return CToolchain({"CGO_ENABLED": "1"}, static and (Path(folder) / _ARCHIVE).is_file())
    tree = work / "libseccomp"
    archive = _unpacked(environment, tree)
    return CToolchain(
        {
            "CGO_ENABLED": "1",
            "PKG_CONFIG": "true",  # a program that finds nothing and fails at nothing: the flags stand below
            "CGO_CFLAGS": f"-O2 '-I{tree / 'usr/include'}'",
            "CGO_LDFLAGS": f"'-L{archive.parent}' -lseccomp",
        },
        static,
    )


def _unpacked(environment: Mapping[str, str], tree: Path) -> Path:
    """Take Debian's package apart, without installing it and without root; the archive in it."""
    try:
        require_debian()
        apt = Apt(cache_folder(environment) / "images" / "apt")
        with apt.locked():
            apt.refresh()
            (package,) = apt.fetch(apt.named(["libseccomp-dev"]))
            unpack(package, tree, lambda path: path if path.endswith((".h", ".a")) else None)
        return next(tree.rglob(_ARCHIVE))
    except (ConfigError, StopIteration) as error:
        why = error.problems[0].why if isinstance(error, ConfigError) else f"the package has no {_ARCHIVE}"
        raise ConfigError(
            Problem(
                "runc cannot be built without libseccomp",
                "pkg-config libseccomp, and Debian's libseccomp-dev",
                why,
                "install its development files (apt-get install libseccomp-dev, dnf install "
                f"libseccomp-devel), or name a folder with all programs in ${FOLDER_VARIABLE}",
            )
        ) from error


def _said(*command: str) -> str:
    """What a program prints; nothing when it fails or is not there."""
    try:
        ended = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return "" if ended.returncode else ended.stdout.strip()
