"""`tonnage convert`: what it prints and writes, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tonnage.cli.main import run

CLAIM = """\
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c}
spec:
  devices:
    requests:
    - name: gpu   # one
      deviceClassName: gpu.nvidia.com
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    path = tmp_path / "claim.yaml"
    path.write_text(CLAIM)
    return path


def test_the_text_is_printed_and_the_file_left_alone(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["convert", str(manifest)], "tonnage") == 0
    assert "    - name: gpu   # one\n      exactly:\n        deviceClassName" in capsys.readouterr().out
    assert manifest.read_text() == CLAIM


def test_the_file_is_changed_on_request(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["convert", str(manifest), "--write"], "tonnage") == 0
    assert "ResourceClaim c: resource.k8s.io/v1beta1 converted to v1" in capsys.readouterr().err
    assert manifest.read_text().startswith("apiVersion: resource.k8s.io/v1\n")
    assert run(["convert", str(manifest), "--diff"], "tonnage") == 0
    assert "No object is of an older version" in capsys.readouterr().err


def test_what_stays_has_a_status_of_its_own(manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest.write_text(CLAIM.replace("v1beta1", "v1alpha2"))
    assert run(["convert", str(manifest), "-o", "json"], "tonnage") == 1
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert (item["subject"], item["converted"]) == ("ResourceClaim c", False)


def test_what_cannot_be_read_has_status_2_and_nothing_is_said_of_its_objects(
    manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest.write_text("a: [")
    assert run(["convert", str(manifest)], "tonnage") == 2
    assert "No object" not in capsys.readouterr().err
