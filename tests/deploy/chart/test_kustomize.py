"""The way without Helm: a base rendered from the chart, and an overlay to copy."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from scripts.render_chart import BASE, for_kubectl, namespace
from scripts.render_chart import main as render
from support.helm import Helm, Manifest, Rendered, assert_valid
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.devices.sharing import SharedResource

EXAMPLE = BASE.parent / "overlays" / "example"


def kustomized(folder: Path, version: str = "1.35") -> Rendered:
    command = [str(kubectl_binary(version)), "kustomize", str(folder)]
    return Rendered(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def by_name(objects: list[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    return {
        (found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]): found
        for found in objects
    }


def test_the_base_is_what_the_chart_renders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["render_chart", "--check"])
    assert render() == 0


@pytest.mark.parametrize("version", ["1.35", "1.37"])
def test_kubectl_makes_the_charts_objects_of_it(helm4: Helm, version: str) -> None:
    chart = [for_kubectl(found) for found in helm4.rendered()]
    assert by_name(kustomized(BASE, version).objects) == by_name([namespace(), *chart])


def test_nothing_speaks_of_helm() -> None:
    for found in kustomized(BASE):
        assert "helm" not in yaml.safe_dump(found["metadata"]).lower()


def test_the_overlay_changes_image_runtime_and_sharing() -> None:
    rendered = kustomized(EXAMPLE)
    for found in rendered:
        assert_valid(found, "1.35")
    assert rendered.container["image"] == "registry.example.com/platform/tonnage:0.1.0"
    assert rendered.pod["runtimeClassName"] == "nvidia"
    config = rendered.one("ConfigMap")
    assert (
        f"--config-map={config['metadata']['namespace']}/{config['metadata']['name']}"
        in (rendered.container["args"])
    )
    parsed = {name: parse_device_plugin_config(text, source=name) for name, text in config["data"].items()}
    assert parsed["default"].shared == ()
    assert [type(shared) for shared in parsed["shared"].shared] == [SharedResource]


def test_the_pages_own_commands_make_an_overlay_that_builds(tmp_path: Path) -> None:
    """The `cp` of docs/how-to/install.md as written; of its `kubectl apply -k` what needs no cluster."""
    root = BASE.parents[2]
    page = (root / "docs/how-to/install.md").read_text(encoding="utf-8")
    (copy,) = re.findall(r"^\$ (cp -r deploy/kustomize/\S+ \S+)$", page, re.MULTILINE)
    (folder,) = re.findall(r"^\$ kubectl apply -k (\S+)$", page, re.MULTILINE)
    (deleted,) = re.findall(r"^\$ kubectl delete -k (\S+)$", page, re.MULTILINE)
    shutil.copytree(BASE.parent, tmp_path / "deploy/kustomize")
    subprocess.run(shlex.split(copy), cwd=tmp_path, check=True, timeout=60)
    assert folder == deleted
    assert by_name(kustomized(tmp_path / folder).objects) == by_name(kustomized(EXAMPLE).objects)
