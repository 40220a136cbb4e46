"""A release installs without a checkout: by pip, by uv from a folder as index, and as krew's plugin."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from scripts.find_helm import MAJORS, helm_binary
from scripts.image.wheels import build_distributions, run_uv, staged_source, version_of
from scripts.locked import ROOT
from scripts.release.archives import chart_files, packed
from scripts.release.krew import manifest, plugin_files

pytestmark = pytest.mark.long
VERSION = version_of(ROOT)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, alone in a folder."""
    work = tmp_path_factory.mktemp("wheel")
    build_distributions(ROOT, staged_source(ROOT, work / "source", VERSION), work / "dist", "--wheel")
    (wheel,) = (work / "dist").glob("*.whl")
    return wheel


def outside(home: Path) -> dict[str, str]:
    """An environment without anything of the checkout: a home, and no Python variables."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "TONNAGE", "VIRTUAL"))
    }
    return {
        **kept,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TONNAGE_STATE": str(home / "state"),
    }


def run(*command: str, at: Path, environment: Mapping[str, str], status: int = 0) -> str:
    finished = subprocess.run(
        command, cwd=at, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert finished.returncode == status, finished.stderr
    return finished.stdout + finished.stderr


def test_pip_installs_the_wheel_with_all_its_data(wheel: Path, tmp_path: Path) -> None:
    """Dependencies come from this environment, so that no index is needed; Tonnage from the wheel alone."""
    run(sys.executable, "-m", "venv", "--without-pip", "venv", at=tmp_path, environment=os.environ)
    here = tmp_path / "venv" / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    install = ("-m", "pip", "--python", "venv/bin/python", "install", "--quiet", "--no-deps", "--no-index")
    run(sys.executable, *install, str(wheel), at=tmp_path, environment=outside(tmp_path))
    (here / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    programs = tmp_path / "venv" / "bin"
    environment = {**outside(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}
    assert run("tonnage", "--version", at=tmp_path, environment=environment).split()[-1] == VERSION
    where = run(
        "venv/bin/python",
        "-P",
        "-c",
        "import tonnage; print(tonnage.__file__)",
        at=tmp_path,
        environment=environment,
    )
    assert where.startswith(str(here))
    assert "pending-pod" in run("tonnage", "lab", "list", at=tmp_path, environment=environment)
    assert "Usage: kubectl gpu" in run("kubectl-gpu", "--help", at=tmp_path, environment=environment)
    run("tonnage", "lab", "run", "pending-pod", at=tmp_path, environment=environment)


def test_uv_runs_it_from_a_folder_as_index(wheel: Path, tmp_path: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    options = ("--quiet", "--find-links", str(wheel.parent), "--python", sys.executable)
    from_index = (uv, "tool", "run", *options, "--from", f"tonnage=={VERSION}", "tonnage")
    environment = {
        **outside(tmp_path),
        "UV_CACHE_DIR": run(uv, "cache", "dir", at=tmp_path, environment=os.environ).strip(),
    }
    listed = run(*from_index, "lab", "list", "-o", "json", at=tmp_path, environment=environment)
    assert "pending-pod" in json.dumps(json.loads(listed))


@pytest.fixture
def plugin(wheel: Path, tmp_path: Path) -> Path:
    """The folder into which krew unpacks the archive that its manifest names."""
    requirements = run_uv(ROOT, "export", "--frozen", "--no-dev", "--no-emit-project", "--no-header")
    archive = packed(plugin_files(wheel, requirements, b"licence", VERSION), tmp_path / "gpu.tar.gz")
    document = yaml.load(
        manifest(archive, VERSION, "https://downloads.example.com/tonnage"), yaml.CSafeLoader
    )
    platform = document["spec"]["platforms"][0]
    assert document["metadata"]["name"] == "gpu"
    assert platform["uri"] == f"https://downloads.example.com/tonnage/v{VERSION}/gpu.tar.gz"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    folder = tmp_path / "krew"
    folder.mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True, timeout=60)
    assert (folder / platform["bin"]).stat().st_mode & 0o111
    return folder


def test_the_plugin_installs_itself_once_and_runs(plugin: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "kubectl-gpu"
    program.parent.mkdir()
    program.symlink_to(plugin / "kubectl-gpu")  # as krew does
    environment = {**outside(tmp_path), "TONNAGE_PYTHON": sys.executable}
    nowhere = {
        **environment,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    refused = run(str(program), "--version", at=tmp_path, environment=nowhere, status=2)
    assert "PIP_INDEX_URL" in refused
    assert list((tmp_path / "cache" / "tonnage").iterdir()) == [], "nothing half-made is left"

    assert "once, about a minute" in run(str(program), "lab", "list", at=tmp_path, environment=environment)
    again = run(str(program), "--version", at=tmp_path, environment=nowhere)
    assert again.split() == ["tonnage", VERSION]


def test_the_plugin_says_which_python_it_needs(plugin: Path, tmp_path: Path) -> None:
    environment = {**outside(tmp_path), "TONNAGE_PYTHON": "/bin/false"}
    refused = run(str(plugin / "kubectl-gpu"), "status", at=tmp_path, environment=environment, status=2)
    assert "needs Python 3.11, 3.12 or 3.13, and /bin/false is none of them" in refused


@pytest.mark.parametrize("major", MAJORS)
def test_helm_reads_the_packed_chart(major: int, tmp_path: Path) -> None:
    helm = str(helm_binary(3 if major == 3 else 4))
    archive = packed(chart_files(ROOT / "deploy/helm/tonnage"), tmp_path / "chart.tgz")
    shown = yaml.load(
        run(helm, "show", "chart", str(archive), at=tmp_path, environment=outside(tmp_path)), yaml.CSafeLoader
    )
    assert (shown["name"], shown["version"]) == ("tonnage", VERSION)
    values = ("--set", "image.repository=registry.example.com/tonnage", "--set", "image.tag=v1")
    rendered = run(helm, "template", "t", str(archive), *values, at=tmp_path, environment=outside(tmp_path))
    assert "kind: DaemonSet" in rendered
    assert (
        packed(chart_files(ROOT / "deploy/helm/tonnage"), tmp_path / "again.tgz").read_bytes()
        == archive.read_bytes()
    )
