"""Trees of files: what an image leaves out of one, a name for what is in it, an archive unpacked into it."""

from __future__ import annotations

import fnmatch
import hashlib
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from tonnage.model.errors import ConfigError, Problem

_UNPACKED_LIMIT: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Patterns:
    """Shell patterns as one rule; `*` stands for slashes too."""

    rule: re.Pattern[str]

    @staticmethod
    def of(patterns: Iterable[str]) -> Patterns:
        return Patterns(re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns)))

    def match(self, text: str) -> bool:
        return self.rule.match(text) is not None


def lines_of(path: Path) -> tuple[str, ...]:
    """What a list file holds: a line each, without comments and blank lines."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line)


def paths_in(tree: Path) -> frozenset[str]:
    """Every path below `tree`, relative to it."""
    return frozenset(str(path.relative_to(tree)) for path in tree.rglob("*"))


def fingerprint(*parts: str | Path) -> str:
    """One name for texts and for the contents of files and trees: what differs in any differs in it."""
    whole = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            whole.update(f"text {len(part)}\n{part}".encode())
            continue
        for path in sorted(part.rglob("*")) if part.is_dir() else (part,):
            if not path.is_symlink() and path.is_dir():
                continue
            content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
            kind = "link" if path.is_symlink() else f"file {path.stat().st_mode & 0o100}"
            whole.update(f"{kind} {path.relative_to(part)} {len(content)}\n".encode())
            whole.update(content)
    return whole.hexdigest()


def unpack_tar(tar: tarfile.TarFile, root: Path, place: Callable[[str], str | None]) -> None:
    """Unpack files and symbolic links below `root`, folders as they are needed, device nodes not at all.

    `place` says where a path of the archive (`usr/bin/env`) goes, or None to leave it out.

    Raises:
        ConfigError: a path leads out of the root, if by a link; or the whole is over a GiB.
    """
    total = 0
    within = root.resolve()
    for member in tar:
        wanted = place(_inside(member.name))
        if wanted is None or wanted == ".":
            continue
        target = root / _inside(wanted)
        if not target.parent.resolve().is_relative_to(within):
            raise _leads_out(member.name)
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        total += member.size
        if total > _UNPACKED_LIMIT:
            raise ConfigError(Problem("an archive unpacks to more than a GiB", str(target)))
        if member.issym():
            target.symlink_to(member.linkname)
        elif member.islnk() and (first := place(_inside(member.linkname))) is not None:
            shutil.copy2(root / first, target)
        elif member.isreg() and (content := tar.extractfile(member)) is not None:
            with content, target.open("wb") as file:
                shutil.copyfileobj(content, file)
            target.chmod(0o755 if member.mode & 0o100 else 0o644)


def remove_matching(tree: Path, root: Path, patterns: Patterns) -> None:
    """Remove the files below `tree` whose path in `root` matches, and folders that are empty then."""
    for path in sorted(tree.rglob("*"), reverse=True):  # what is in a folder before the folder
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif patterns.match(str(path.relative_to(root))):
            path.unlink()


def _inside(name: str) -> str:
    """A path of an archive without its `./`; one that climbs out is refused.

    >>> _inside("./usr/bin/env")
    'usr/bin/env'
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise _leads_out(name)
    return str(path)


def _leads_out(name: str) -> ConfigError:
    return ConfigError(Problem(f"an archive holds the path {name[:100]!r}", why="it leads out of its root"))
