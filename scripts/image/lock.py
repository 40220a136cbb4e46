"""deploy/image/packages.lock: the Debian packages that somebody has looked at, by version and SHA-256.

Debian's mirrors keep the newest version of a package alone, so a lock cannot bring back an old one. It says
which packages a release is built from, or it is not built at all. An image for oneself takes the newest.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from scripts.image.archive import ARCHITECTURES
from scripts.image.debian import Package
from scripts.image.trees import lines_of
from tonnage.model.errors import ConfigError, Problem

NAME: Final = "packages.lock"
_HEAD: Final = """\
# The Debian packages of the image: release, architecture, package, version, SHA-256 of its file. Written by
# `make image IMAGE_OPTIONS=--lock` from apt's signed lists; `make release` takes no others.
"""
Row = tuple[str, str]
"""Version and SHA-256 of a package."""


def this_release(os_release: Path = Path("/etc/os-release")) -> str:
    """The machine's release and architecture as the lock names them, such as `debian-12 amd64`."""
    said = dict(line.split("=", 1) for line in os_release.read_text().splitlines() if "=" in line)
    name = f"{said.get('ID', '?')}-{said.get('VERSION_ID', '?')}".replace('"', "")
    return f"{name} {ARCHITECTURES.get(platform.machine(), platform.machine())}"


def read_lock(path: Path) -> dict[str, dict[str, Row]]:
    """By release, by package.

    Raises:
        ConfigError: a line is not one of a lock.
    """
    found: dict[str, dict[str, Row]] = {}
    for line in lines_of(path) if path.is_file() else ():
        words = line.split()
        if len(words) != 5 or len(words[4]) != 64:
            remedy = "make image IMAGE_OPTIONS=--lock"
            raise ConfigError(Problem("a line is not one of a lock", str(path), line[:200], remedy))
        release, architecture, package, version, digest = words
        found.setdefault(f"{release} {architecture}", {})[package] = (version, digest)
    return found


def write_lock(path: Path, release: str, packages: Sequence[Package]) -> None:
    """Take today's packages of a release in; the rows of others stay."""
    rows = {**read_lock(path), release: {p.name: (p.version, p.digest) for p in packages}}
    lines = [
        f"{name} {package} {version} {digest}\n"
        for name, own in sorted(rows.items())
        for package, (version, digest) in sorted(own.items())
    ]
    path.write_text(_HEAD + "".join(lines), encoding="utf-8")


def differences(locked: Mapping[str, Row], packages: Sequence[Package]) -> tuple[str, ...]:
    """What is not as locked, a text for each package.

    >>> differences({"libc6": ("2.36", "a"), "zlib1g": ("1", "b")}, [Package("libc6", "2.37", "", 0, "c")])
    ('libc6: 2.36 is locked, 2.37 is offered', 'zlib1g: 1 is locked, none is taken')
    """
    offered = {package.name: package for package in packages}
    texts = (_difference(name, locked.get(name), offered.get(name)) for name in sorted({*locked, *offered}))
    return tuple(filter(None, texts))


def _difference(name: str, locked: Row | None, offered: Package | None) -> str:
    if locked is None or offered is None:
        here = f"{locked[0]} is locked" if locked else "none is locked"
        return f"{name}: {here}, {f'{offered.version} is offered' if offered else 'none is taken'}"
    if locked[0] != offered.version:
        return f"{name}: {locked[0]} is locked, {offered.version} is offered"
    return (
        "" if locked[1] == offered.digest else f"{name} {locked[0]}: another file than the one that is locked"
    )


def require_locked(path: Path, release: str, packages: Sequence[Package]) -> None:
    """
    Raises:
        ConfigError: the packages are not those of the lock.
    """
    found = differences(read_lock(path).get(release, {}), packages)
    if found:
        raise ConfigError(
            Problem(
                f"{len(found)} of Debian's packages are not those of the lock",
                f"{path}, {release}",
                "\n".join(found),
                "see what changed in them, then `make image IMAGE_OPTIONS=--lock` and commit the file",
            )
        )
