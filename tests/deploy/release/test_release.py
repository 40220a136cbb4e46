"""A release's folder: all of it or nothing, and the same again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion

from scripts.image.wheels import version_of
from scripts.locked import ROOT
from scripts.release.build import SUMS, ReleaseWish, make_release, published, sums
from tonnage.cli.locations.folders import cache_folder
from tonnage.model.errors import ConfigError, Problem

FINE = (sys.executable, "-c", "print('{\"dependencies\": []}')")
VULNERABLE = """
import json
known = {"id": "PYSEC-1", "aliases": [], "fix_versions": ["9"]}
print(json.dumps({"dependencies": [{"name": "click", "version": "8", "vulns": [known]}]}))
"""


def test_a_folder_is_there_when_all_went_well(tmp_path: Path) -> None:
    target = tmp_path / "dist" / "release"
    for text in ("first", "second"):
        with published(target) as folder:
            (folder / "file").write_text(text)
            assert not target.exists() or (target / "file").read_text() == "first"
        assert (target / "file").read_text() == text
    assert [path.name for path in target.parent.iterdir()] == ["release"]


def test_a_failure_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "release"
    with published(target) as folder:
        (folder / "file").write_text("first")

    def fail() -> None:
        with published(target) as folder:
            (folder / "file").write_text("second")
            raise ConfigError(Problem("no"))

    with pytest.raises(ConfigError):
        fail()
    assert (target / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


def test_the_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_bytes(b"b")
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / SUMS).write_text(sums(tmp_path))
    assert sums(tmp_path) == (tmp_path / SUMS).read_text(), "its own is not among them"
    assert [line.split()[1] for line in sums(tmp_path).splitlines()] == ["a.whl", "b.tar"]
    subprocess.run(
        ["sha256sum", "--check", "--strict", SUMS], cwd=tmp_path, check=True, capture_output=True, timeout=300
    )


@pytest.mark.long
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="images are built from Debian's packages")
def test_a_release_has_everything_and_is_the_same_again(tmp_path: Path) -> None:
    """With today's Debian packages: those of the lock need not be offered any more."""
    told: list[str] = []
    cache, version = cache_folder(os.environ) / "images", version_of(ROOT)
    wish = ReleaseWish(tmp_path, cache, trial=True, audit_program=FINE)
    environment = {"SOURCE_DATE_EPOCH": "86400"}
    folder = make_release(wish, told.append, environment)
    base = f"tonnage-{version}"
    assert {path.name for path in folder.iterdir()} == {
        f"{base}-py3-none-any.whl",
        f"{base}.tar.gz",
        f"{base}-image.tar",
        f"tonnage-chart-{version}.tgz",
        f"{base}-kubectl-gpu.tar.gz",
        "gpu.yaml",
        f"{base}-wheel.cdx.json",
        f"{base}-image.cdx.json",
        "licences.txt",
        "audit.json",
        SUMS,
    }
    first = (folder / SUMS).read_text()
    for line in first.splitlines():
        digest, name = line.split()
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert "not audited: " in "\n".join(told)
    assert json.loads((folder / "audit.json").read_text())["status"] == "not audited"
    _look_at_contents(folder, base)

    assert (make_release(wish, told.append, environment) / SUMS).read_text() == first
    hostile = ReleaseWish(tmp_path, cache, trial=True, audit_program=(sys.executable, "-c", VULNERABLE))
    with pytest.raises(ConfigError, match="PYSEC-1; mended in 9"):
        make_release(hostile, told.append, environment)
    assert (folder / SUMS).read_text() == first, "the one before stays"


def _look_at_contents(folder: Path, base: str) -> None:
    from cyclonedx.validation.json import JsonStrictValidator  # a second of every worker

    for kind in ("wheel", "image"):
        text = (folder / f"{base}-{kind}.cdx.json").read_text()
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
        parts = {part["name"] for part in json.loads(text)["components"]}
        assert {"grpcio", "cryptography", "Kubernetes"} <= parts
        assert ("libc6" in parts) == (kind == "image")
    with zipfile.ZipFile(folder / f"{base}-py3-none-any.whl") as wheel:
        assert {"tonnage/cli/main.py", "tonnage/labs/numa/lab.yaml"} <= set(wheel.namelist())
    with tarfile.open(folder / f"{base}.tar.gz") as sources:
        assert f"{base}/pyproject.toml" in sources.getnames()
    assert "libc6" in (folder / "licences.txt").read_text()
