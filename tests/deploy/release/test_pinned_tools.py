"""What builds and installs Tonnage is known by hash: uv, the build backend, and all that uv.lock has."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from scripts.image.wheels import build_distributions, staged_source
from tonnage.model.errors import ConfigError

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
UV = (ROOT / "scripts" / "uv.txt").read_text(encoding="utf-8")
LOCK: dict[str, Any] = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_uv_is_the_one_of_the_file() -> None:
    (version,) = re.findall(r"^uv==(\S+)", UV, re.MULTILINE)
    assert metadata.version("uv") == version
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", UV)) > 10, "a wheel for each platform"


def test_pip_refuses_a_uv_of_other_bytes(tmp_path: Path) -> None:
    """By pip itself, from a folder: as `make setup` calls it, but for the network."""
    wheel = tmp_path / f"uv-{metadata.version('uv')}-py3-none-any.whl"
    wheel.write_bytes(b"somebody else's")
    words = _recipe_of("pip install")
    where = ["--no-index", "--find-links", str(tmp_path), "--dry-run", "--ignore-installed"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, *where],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def _recipe_of(command: str) -> list[str]:
    """The words after `pip` in the Makefile's line with that command."""
    (line,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if command in line]
    return line.partition("-m pip ")[2].split()


def test_every_environment_is_filled_without_building_apart() -> None:
    """Built apart, Tonnage would take the newest backend of the index, whoever made that."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    syncs = [line for line in lines if "uv sync" in line]
    assert len(syncs) == 1, "all by way of $(SYNC)"
    assert "--no-build-isolation-package tonnage" in syncs[0]
    assert "--frozen" in syncs[0]


def test_every_build_requirement_is_locked_at_one_version() -> None:
    group = [Requirement(text) for text in PROJECT["dependency-groups"]["build"]]
    wanted = [Requirement(text).name for text in PROJECT["build-system"]["requires"]]
    assert set(wanted) <= {requirement.name for requirement in group}
    locked = {package["name"] for package in LOCK["package"]}
    assert {requirement.name for requirement in group} <= locked


def test_nothing_that_is_locked_needs_to_be_built() -> None:
    """A source distribution would bring build requirements of its own, which no lock knows."""
    assert [p["name"] for p in LOCK["package"] if not p.get("wheels") and "editable" not in p["source"]] == []


def test_everything_that_is_locked_has_hashes() -> None:
    files = [file for package in LOCK["package"] for file in package.get("wheels", ())]
    assert len(files) > 100
    assert [file["url"] for file in files if not re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"])] == []


def spoilt(lock: str) -> str:
    """The lock with other hashes of the build backend."""
    head, start, rest = lock.partition('name = "hatchling"')
    own, end, tail = rest.partition("[[package]]")
    return head + start + re.sub("sha256:.{4}", "sha256:0000", own) + end + tail


def test_a_build_backend_of_other_bytes_is_refused(tmp_path: Path) -> None:
    checkout, dist = tmp_path / "checkout", tmp_path / "work" / "dist"
    (checkout / "src/tonnage").mkdir(parents=True)
    (checkout / "labs").mkdir()
    (checkout / "src/tonnage/__init__.py").write_text('__version__ = "1"\n')
    for name in ("pyproject.toml", "README.md", "LICENSE", "uv.lock"):
        shutil.copy(ROOT / name, checkout)
    source = staged_source(checkout, tmp_path / "source", "1")
    build_distributions(checkout, source, dist, "--wheel")
    assert len(list(dist.glob("*.whl"))) == 1
    (checkout / "uv.lock").write_text(spoilt((checkout / "uv.lock").read_text()))
    with pytest.raises(ConfigError, match=r"Hash mismatch for `hatchling"):
        build_distributions(checkout, source, tmp_path / "other" / "dist", "--wheel")
