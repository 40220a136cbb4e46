"""Debian packages without root: found, fetched and verified by apt in folders of our own, unpacked here.

The machine's apt sources and keys are used, so a mirror or proxy of one's own works; its lists, caches and
installed packages are not. What runs here is apt-get and dpkg-deb, which every Debian and Ubuntu has.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.image.trees import unpack_tar
from tonnage.model.errors import ConfigError, Problem

_URI: Final = re.compile(r"^'[^']+' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<digest>[0-9a-f]{64})$")

_LOCKS: Final = ("state/lists/lock", "cache/archives/lock")
"""What apt-get itself locks, with the locks of POSIX."""


@dataclass(frozen=True, slots=True)
class Package:
    """One package file as the signed lists name it: `digest` is its SHA-256 in hexadecimal."""

    name: str
    version: str
    file_name: str
    size: int
    digest: str


class Apt:
    """apt-get with lists, cache and an empty set of installed packages under `folder`.

    Its sources are the machine's, unless they are given as a file of deb822 has them.
    """

    def __init__(self, folder: Path, sources: str = "") -> None:
        self._folder = folder
        self._sources = folder / "own.sources" if sources else None
        self._files = folder / "files"
        for part in ("state/lists/partial", "cache/archives/partial", "files"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        if self._sources is not None:
            self._sources.write_text(sources)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time; a second one waits, also for an apt-get whose caller was killed."""
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for name in _LOCKS:
                with (self._folder / name).open("w") as theirs:
                    fcntl.lockf(theirs, fcntl.LOCK_EX)  # apt-get would not wait for these, but fail
            yield

    def refresh(self) -> str:
        """Get today's lists; apt's warnings, one of which is that old lists had to do."""
        said = self._run("update", "-qq").stderr.splitlines()
        # Hooks of this machine, which are for its own lists, may complain beside them.
        return "; ".join(line for line in said if line.startswith(("W:", "E:")))

    def closure(self, names: Sequence[str]) -> tuple[Package, ...]:
        """The packages and all that they depend on, sorted by name. Nothing is recommended into it."""
        said = self._run("install", "--print-uris", "-qq", "--yes", "--no-install-recommends", *names)
        return _packages(said.stdout)

    def named(self, names: Sequence[str]) -> tuple[Package, ...]:
        """The packages alone."""
        return _packages(self._run("download", "--print-uris", "-qq", *names).stdout)

    def fetch(self, packages: Sequence[Package]) -> tuple[Path, ...]:
        """The packages' files, in the same order; what an earlier call left is used when it is the same.

        Raises:
            ConfigError: apt cannot fetch one, or it is not what the signed lists say.
        """
        paths = tuple(self._files / package.file_name for package in packages)
        wanted = [p for p, path in zip(packages, paths, strict=True) if not _is_whole(path, p)]
        if wanted:
            self._run("download", "-qq", *(f"{p.name}={p.version}" for p in wanted), cwd=self._files)
        for package, path in zip(packages, paths, strict=True):
            if not _is_whole(path, package):
                raise ConfigError(
                    Problem(
                        f"{package.name} {package.version} is not what the signed lists say",
                        str(path),
                        f"its SHA-256 is not {package.digest[:16]}…",
                        "delete the file and try again; then mistrust the mirror",
                    )
                )
        return paths

    def _run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        options: dict[str, str | Path] = {
            "Dir::State": self._folder / "state",
            "Dir::State::status": self._folder / "status",
            "Dir::Cache": self._folder / "cache",
            "APT::Sandbox::User": "root",
            "APT::Get::AllowUnauthenticated": "false",
            "Acquire::ForceHash": "SHA256",  # print-uris says MD5 otherwise
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        if self._sources is not None:
            options |= {"Dir::Etc::sourcelist": self._sources, "Dir::Etc::sourceparts": "/dev/null"}
        command = ["apt-get", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
        answer = subprocess.run(
            [*command, *arguments],
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            raise ConfigError(
                Problem(
                    f"apt-get {arguments[0]} failed",
                    "",
                    answer.stderr.strip()[-1500:],
                    "a network that reaches the mirrors in /etc/apt (apt-get update tells), then again",
                )
            )
        return answer


def require_debian() -> None:
    """
    Raises:
        ConfigError: this machine has no apt.
    """
    missing = [name for name in ("apt-get", "dpkg-deb") if shutil.which(name) is None]
    if missing:
        raise ConfigError(
            Problem(
                "images are built from Debian's packages",
                "this machine",
                f"it has no {' and no '.join(missing)}, so it is neither Debian nor Ubuntu",
                "run `make image` on one, in a virtual machine or in any container of debian:bookworm "
                "(no privileges needed), and take dist/tonnage-image.tar from there",
            )
        )


def unpack(package: Path, root: Path, place: Callable[[str], str | None]) -> None:
    """Unpack a package's files below `root`, each to where `place` says; see `unpack_tar`."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
                unpack_tar(tar, root, place)
            process.stdout.read()  # padding that nobody reads would keep it from ending
            whole = process.wait() == 0
        except tarfile.TarError:
            whole = False
    if not whole:
        raise ConfigError(
            Problem("dpkg-deb cannot read a package", str(package), remedy="delete the file, then again")
        )


def control(package: Path) -> str:
    """The package's control file, which says its name, version, source and dependencies."""
    return subprocess.run(
        ["dpkg-deb", "--field", str(package)], capture_output=True, text=True, check=True
    ).stdout


def _packages(uris: str) -> tuple[Package, ...]:
    """Read what `--print-uris` prints: 'URL' name_version_arch.deb size SHA256:digest, a line each.

    >>> _packages(f"'http://m/b.deb' b_1%3a2_all.deb 9 SHA256:{'a' * 64}")[0].version
    '1:2'
    """
    found = []
    for line in uris.splitlines():
        if (match := _URI.match(line)) is None:
            continue
        name, version, _ = match["file"].split("_")
        version = urllib.parse.unquote(version)
        size = int(match["size"])
        found.append(Package(name, version, match["file"], size, match["digest"]))
    if not found:
        raise ConfigError(Problem("apt-get names no packages", why=uris[:500] or "it printed nothing"))
    return tuple(sorted(found, key=lambda package: package.name))


def _is_whole(path: Path, package: Package) -> bool:
    if not path.is_file() or path.stat().st_size != package.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == package.digest
