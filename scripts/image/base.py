"""The lowest layer: Python and its libraries out of Debian's packages; no shell and no package manager."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.image.debian import Apt, Package, control, unpack
from scripts.image.inside import compile_bytecode
from scripts.image.trees import Patterns, lines_of, remove_matching
from tonnage.model.errors import ConfigError, Problem

WANTED: Final = ("python3", "ca-certificates", "base-files", "libstdc++6", "libgcc-s1", "coreutils")
"""What is asked of apt; of these and all they depend on, packages.txt says which the image takes."""
MERGED: Final = ("bin", "sbin", "lib", "lib64")
"""Folders that are links into /usr, whether or not the release's packages know that already."""
MOUNTED: Final = ("dev", "proc", "run", "sys", "tmp")
CERTIFICATES: Final = "usr/share/ca-certificates/mozilla/"
BUNDLE: Final = "etc/ssl/certs/ca-certificates.crt"
OLDEST_PYTHON: Final = (3, 11)
NEWEST_PYTHON: Final = (3, 13)
_PYTHON: Final = re.compile(r"^python(?P<major>3)\.(?P<minor>\d+)-minimal$")
_LIBC: Final = re.compile(r"^2\.(?P<minor>\d+)")


@dataclass(frozen=True, slots=True)
class Base:
    """The packages that the image takes, their Python (`3.11`) and C library (36 for glibc 2.36)."""

    packages: tuple[Package, ...]
    python: str
    libc_minor: int


def chosen_base(apt: Apt, recipe: Path) -> Base:
    """What this machine's release offers.

    Raises:
        ConfigError: its Python is none that Tonnage runs on.
    """
    offered = apt.closure(WANTED)
    wanted = Patterns.of(lines_of(recipe / "packages.txt"))
    packages = tuple(package for package in offered if wanted.match(package.name))
    python = next((m for package in packages if (m := _PYTHON.match(package.name))), None)
    libc = next((m for p in packages if p.name == "libc6" and (m := _LIBC.match(p.version))), None)
    version = (int(python["major"]), int(python["minor"])) if python else (0, 0)
    if libc is None or not OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        raise ConfigError(
            Problem(
                "this release's Python cannot carry Tonnage",
                "apt's package python3",
                f"it is {version[0]}.{version[1]}; Tonnage runs on 3.11 to 3.13",
                "build on Debian 12 or 13, or on Ubuntu 24.04",
            )
        )
    return Base(packages, f"{version[0]}.{version[1]}", int(libc["minor"]))


def make_base(base: Base, files: Sequence[Path], left_out: Patterns) -> Callable[[Path], None]:
    """A function that fills an empty root."""

    def make(root: Path) -> None:
        for file in files:
            unpack(file, root, lambda path: _place(path, left_out))
        remove_matching(root, root, left_out)  # folders that are empty now
        for name in MERGED:
            (root / "usr" / name).mkdir(exist_ok=True)
            (root / name).symlink_to(f"usr/{name}")
        for name in MOUNTED:
            (root / name).mkdir()
        _join_certificates(root)
        _list_packages(root, base.packages, files)
        (root / "usr/bin/python3").symlink_to(f"python{base.python}")
        compile_bytecode(root, f"/usr/lib/python{base.python}")

    return make


def _place(path: str, left_out: Patterns) -> str | None:
    """Where a package's file goes.

    >>> _place("lib/libc.so.6", Patterns.of(["usr/share/man/*"]))
    'usr/lib/libc.so.6'
    """
    merged = f"usr/{path}" if path.partition("/")[0] in MERGED else path
    return None if merged in (f"usr/{name}" for name in MERGED) or left_out.match(merged) else merged


def _join_certificates(root: Path) -> None:
    """One file of all authorities, where programs and OpenSSL look for it (update-ca-certificates(8))."""
    folder = root / CERTIFICATES
    certificates = sorted(folder.glob("*.crt"))
    if not certificates:
        raise ConfigError(Problem("ca-certificates holds no certificates", CERTIFICATES))
    bundle = root / BUNDLE
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text().rstrip() + "\n" for path in certificates))
    for path in certificates:
        path.unlink()
    folder.rmdir()
    folder.parent.rmdir()
    default = root / "usr/lib/ssl/cert.pem"
    default.parent.mkdir(parents=True, exist_ok=True)
    default.symlink_to(f"/{BUNDLE}")


def _list_packages(root: Path, packages: Sequence[Package], files: Sequence[Path]) -> None:
    """Each package's control file where scanners look in images without dpkg."""
    folder = root / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True)
    for package, file in zip(packages, files, strict=True):
        (folder / package.name).write_text(control(file), encoding="utf-8")
