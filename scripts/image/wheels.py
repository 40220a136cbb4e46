"""The upper layers: locked dependencies, then Tonnage itself, as wheels for the image's Python."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.image.base import Base
from scripts.image.inside import compile_bytecode, try_image
from scripts.image.trees import Patterns, remove_matching
from tonnage.model.errors import ConfigError, Problem

SOURCES: Final = ("pyproject.toml", "README.md", "LICENSE", "src", "labs")
"""What the wheel is built from."""
NEWEST_PLATFORM: Final = 40
"""The last glibc 2.x for which uv knows a platform; wheels for older ones run on newer ones."""
_VERSION: Final = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Wheels:
    """How to install wheels for `base`, from a checkout."""

    repository: Path
    base: Base
    left_out: Patterns
    offline: bool = False

    @property
    def folder(self) -> str:
        """Where Debian's Python looks for what did not come as a package."""
        return f"usr/local/lib/python{self.base.python}/dist-packages"

    def requirements(self) -> str:
        """What uv.lock pins for users, with hashes."""
        return self._uv("export", "--frozen", "--no-dev", "--no-emit-project", "--no-header")

    def fetch(self, requirements: str, source: Path, work: Path) -> None:
        """Bring into uv's cache all that the functions below take, so that they need no network."""
        listed = work / "requirements.txt"
        listed.write_text(requirements, encoding="utf-8")
        self._install(work / "fetched", "--require-hashes", "-r", str(listed))
        self._build(source)

    def make_dependencies(self, requirements: str, work: Path) -> Callable[[Path], None]:
        """A function that installs the locked dependencies into a root."""
        listed = work / "requirements.txt"
        listed.write_text(requirements, encoding="utf-8")

        def make(root: Path) -> None:
            self._install(root, "--require-hashes", "-r", str(listed))
            compile_bytecode(root, f"/{self.folder}")

        return make

    def make_tonnage(self, source: Path, recipe: Path) -> Callable[[Path], None]:
        """A function that installs Tonnage and the image's own files into a root, and tries them."""

        def make(root: Path) -> None:
            self._install(root, str(self._build(source)))
            compile_bytecode(root, f"/{self.folder}/tonnage")
            shutil.copytree(recipe / "root", root, symlinks=True, dirs_exist_ok=True)
            try_image(root)

        return make

    def _build(self, source: Path) -> Path:
        folder = source.parent / "dist"
        build_distributions(self.repository, source, folder, "--wheel", offline=self.offline)
        (wheel,) = folder.glob("*.whl")
        return wheel

    def _install(self, root: Path, *wanted: str) -> None:
        platform_name = f"{platform.machine()}-manylinux_2_{min(self.base.libc_minor, NEWEST_PLATFORM)}"
        target = root / self.folder
        self._uv(
            *("pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"),
            *("--python", sys.executable, "--python-version", self.base.python),
            *("--python-platform", platform_name, "--target", str(target), *wanted),
        )
        remove_matching(target, root, self.left_out)

    def _uv(self, *arguments: str) -> str:
        return run_uv(self.repository, *arguments, offline=self.offline)


def build_distributions(
    repository: Path, source: Path, folder: Path, *kinds: str, offline: bool = False
) -> None:
    """Build `source` into `folder` with the build tools that uv.lock pins, checked against its hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    tools = folder.with_name("build-requirements.txt")
    wanted = ("export", "--frozen", "--only-group", "build", "--no-emit-project", "--no-header")
    tools.write_text(run_uv(repository, *wanted, offline=offline), encoding="utf-8")
    pinned = ("--build-constraints", str(tools), "--require-hashes")
    run_uv(
        repository,
        "build",
        "--quiet",
        *kinds,
        *pinned,
        "--out-dir",
        str(folder),
        str(source),
        offline=offline,
    )


def run_uv(repository: Path, *arguments: str, offline: bool = False) -> str:
    """What uv prints.

    Raises:
        ConfigError: with what it says instead.
    """
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.is_file() else "uv"
    try:
        answer = subprocess.run(
            [program, *arguments, *(("--offline",) if offline else ())],
            cwd=repository,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ConfigError(Problem("no uv", remedy="make setup")) from None
    if answer.returncode:
        raise ConfigError(
            Problem(
                f"uv {arguments[0]} failed",
                str(repository),
                answer.stderr.strip()[-1500:],
                "a network that reaches the package index, or your own in UV_DEFAULT_INDEX"
                + ("; this build was told to use none: make image first" if offline else ""),
            )
        )
    return answer.stdout


def version_of(repository: Path) -> str:
    """The version in the checkout's `tonnage/__init__.py`."""
    found = _VERSION.search((repository / "src/tonnage/__init__.py").read_text(encoding="utf-8"))
    if found is None:
        raise ConfigError(Problem("no __version__", "src/tonnage/__init__.py"))
    return found["version"]


def staged_source(repository: Path, target: Path, version: str) -> Path:
    """A copy of what the wheel is built from, which says `version`; `target`."""
    for name in SOURCES:
        source = repository / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    module = target / "src/tonnage/__init__.py"
    module.write_text(
        _VERSION.sub(f'__version__ = "{version}"', module.read_text(encoding="utf-8")), encoding="utf-8"
    )
    return target
