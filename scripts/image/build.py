"""Build the image: three layers, from what changes rarely to what changes with each release."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scripts.image.archive import LAYER_TIME, ImageConfig, write_archive
from scripts.image.base import chosen_base, make_base
from scripts.image.checkout import Git
from scripts.image.debian import Apt, require_debian
from scripts.image.inside import USER_ID
from scripts.image.lock import NAME as LOCK
from scripts.image.lock import differences, read_lock, require_locked, this_release, write_lock
from scripts.image.store import Assembly, LayerStore
from scripts.image.trees import Patterns, fingerprint, lines_of
from scripts.image.wheels import Wheels, staged_source, version_of
from tonnage.model.errors import ConfigError, Problem

REPOSITORY: Final = Path(__file__).resolve().parents[2]
IMAGE: Final = "tonnage.invalid/agent"
"""What the image is named unless somebody says: a name that no registry can carry (RFC 2606)."""
_REFERENCE: Final = re.compile(r"[a-z0-9]+([._/:-]+[a-z0-9]+)*:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc|\.post|\.dev)[0-9]+)*")


@dataclass(frozen=True, slots=True)
class Wish:
    """What image to build and where to. An empty version or name is the checkout's.

    `anew` uses no layer of an earlier build, `check` not the last one; `offline` asks no network, so an
    earlier build must have fetched everything; `locked` takes only the Debian packages of packages.lock.
    """

    output: Path
    cache: Path
    repository: Path = REPOSITORY
    version: str = ""
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    anew: bool = False
    check: bool = False
    offline: bool = False
    locked: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """An image on the disk: its full name, its manifest's digest, sizes in bytes."""

    name: str
    digest: str
    archive_size: int
    layer_sizes: tuple[int, ...]


def build_image(wish: Wish, tell: Callable[[str], None], environment: Mapping[str, str]) -> Built:
    """Build what is missing and write the archive.

    Raises:
        ConfigError: with what to do.
    """
    version = wish.version or version_of(wish.repository)
    name = full_name(wish.name or f"{IMAGE}:{version}")
    if not _VERSION.fullmatch(version):
        raise ConfigError(
            Problem(f"no version: {version[:40]!r}", "--version", remedy="such as 0.2.0 or 0.2.0rc1")
        )
    with _workplace(wish.cache) as work:
        assembly = _assembled(wish, version, work, tell)
        digest = write_archive(
            wish.output,
            name=name,
            layers=assembly.layers,
            config=_configuration(wish, version, environment, Git(wish.repository, tell)),
        )
    sizes = tuple(layer.size for layer in assembly.layers)
    return Built(name, digest, wish.output.stat().st_size, sizes)


def lock_packages(wish: Wish, tell: Callable[[str], None]) -> None:
    """Write the packages that a build would take today into the recipe's lock.

    Raises:
        ConfigError: with what to do.
    """
    require_debian()
    recipe = wish.repository / "deploy" / "image"
    apt = Apt(wish.cache / "apt")
    with apt.locked():
        if not wish.offline and (warning := apt.refresh()):
            tell(f"  apt-get update: {warning}")
        packages = chosen_base(apt, recipe).packages
    before = read_lock(recipe / LOCK).get(this_release(), {})
    for text in differences(before, packages):
        tell(f"  {text}")
    write_lock(recipe / LOCK, this_release(), packages)
    tell(f"  {recipe / LOCK}: {len(packages)} packages of {this_release()}")


def fetch_for_build(wish: Wish, tell: Callable[[str], None]) -> None:
    """Fetch what a build with `anew` and `offline` of these sources takes, whatever layers are kept.

    Raises:
        ConfigError: with what to do.
    """
    with _workplace(wish.cache) as work:
        wheels, _ = _fetched(wish, tell)
        source = staged_source(wish.repository, work / "source", version_of(wish.repository))
        wheels.fetch(wheels.requirements(), source, work)


@contextmanager
def _workplace(cache: Path) -> Iterator[Path]:
    """A folder for one build; a second build waits."""
    require_debian()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock, _open_modes():
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in cache.glob(".build-*"):  # by a build that was killed
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=cache) as work:
            yield Path(work)


@contextmanager
def _open_modes() -> Iterator[None]:
    """The image is tried as another user than its builder: a strict mask would lock that one out."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _assembled(wish: Wish, version: str, work: Path, tell: Callable[[str], None]) -> Assembly:
    recipe = wish.repository / "deploy" / "image"
    wheels, files = _fetched(wish, tell)
    base, left_out = wheels.base, wheels.left_out
    requirements = wheels.requirements()
    source = staged_source(wish.repository, work / "source", version)

    (root := work / "root").mkdir()
    assembly = Assembly(LayerStore(wish.cache / "layers"), root, tell)
    # How layers are made and packed is a part of what they are made from.
    code = sorted(Path(__file__).parent.glob("*.py"))
    rules = fingerprint(*code, recipe / "left-out.txt", zlib.ZLIB_RUNTIME_VERSION)
    packages = ", ".join(f"{package.name} {package.version} {package.digest}" for package in base.packages)
    key = fingerprint(rules, packages)
    assembly.add("Debian's packages", key, make_base(base, files, left_out), anew=wish.anew)
    key = fingerprint(key, requirements)
    assembly.add("dependencies", key, wheels.make_dependencies(requirements, work), anew=wish.anew)
    key = fingerprint(key, source, recipe / "root")
    assembly.add("Tonnage", key, wheels.make_tonnage(source, recipe), anew=wish.anew or wish.check)
    return assembly


def _fetched(wish: Wish, tell: Callable[[str], None]) -> tuple[Wheels, tuple[Path, ...]]:
    """How wheels are installed, and the files of Debian's packages, all of them on the disk."""
    recipe = wish.repository / "deploy" / "image"
    tell("  looking for Debian's packages ...")
    apt = Apt(wish.cache / "apt")
    with apt.locked():  # others use the same lists
        if not wish.offline and (warning := apt.refresh()):
            tell(f"  apt-get update: {warning}")
        base = chosen_base(apt, recipe)
        if wish.locked:
            require_locked(recipe / LOCK, this_release(), base.packages)
        elif found := differences(read_lock(recipe / LOCK).get(this_release(), {}), base.packages):
            tell(f"  {len(found)} of them are not those of {LOCK}, such as {found[0]}")
        files = apt.fetch(base.packages)
    left_out = Patterns.of(lines_of(recipe / "left-out.txt"))
    return Wheels(wish.repository, base, left_out, wish.offline), files


def full_name(reference: str) -> str:
    """A reference with its registry, as containerd completes it.

    >>> full_name("platform/agent:1.0"), full_name("localhost/agent:1")
    ('docker.io/platform/agent:1.0', 'localhost/agent:1')
    """
    if len(reference) > 255 or not _REFERENCE.fullmatch(reference):
        raise ConfigError(
            Problem(
                f"no image name: {reference[:100]!r}",
                "--tag",
                remedy="such as registry.example.com/platform/tonnage:0.1.0",
            )
        )
    first, slash, _ = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return reference
    return f"docker.io/{reference}" if slash else f"docker.io/library/{reference}"


def _configuration(wish: Wish, version: str, environment: Mapping[str, str], git: Git) -> ImageConfig:
    ours = {
        "org.opencontainers.image.title": "tonnage",
        "org.opencontainers.image.description": "GPU platform for Kubernetes: node agent and command line",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    if revision := git.says("rev-parse", "HEAD"):
        sources = ("src", "labs", "deploy/image", "uv.lock", "pyproject.toml")
        changed = git.says("status", "--porcelain", "--", *sources)
        ours["org.opencontainers.image.revision"] = revision + ("-dirty" if changed else "")
    return ImageConfig(
        entrypoint=("tonnage",),
        command=("node",),
        user=f"{USER_ID}:{USER_ID}",
        environment={
            "PATH": "/usr/local/bin:/usr/bin",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        },
        labels={**ours, **wish.labels},
        created=creation_time(git, environment),
    )


def creation_time(git: Git, environment: Mapping[str, str]) -> int:
    """The time that image and release name: SOURCE_DATE_EPOCH, else the last commit's, else the layers'.

    Source: reproducible-builds.org/specs/source-date-epoch.
    """
    said = environment.get("SOURCE_DATE_EPOCH", "") or git.says("log", "-1", "--format=%ct")
    if said and not (said.isascii() and said.isdigit() and len(said) <= 11):
        raise ConfigError(
            Problem(f"no time: {said[:40]!r}", "$SOURCE_DATE_EPOCH", remedy="seconds since 1970")
        )
    return int(said) if said else LAYER_TIME
