"""Helm for tests: both majors, on any cluster or on none."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from scripts.find_helm import Major, helm_binary

CHART: Final = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "tonnage"
RELEASE: Final = "tonnage"
NAMESPACE: Final = "tonnage-system"
IMAGE: Final = "tonnage.invalid/agent"
"""The repository of the image in all releases that do not name another one; the chart has no default."""
_TAKE_VALUES: Final = frozenset({"template", "lint", "install", "upgrade"})
Manifest = dict[str, Any]


class Helm:
    """One Helm with folders of its own; `kubeconfig` says which cluster, without it none is reached."""

    def __init__(self, major: Major, home: Path, kubeconfig: Path | None = None) -> None:
        self.major = major
        self._binary = helm_binary(major)
        self._home = home
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "KUBECONFIG": str(kubeconfig or home / "none"),
            "GOGC": "off",  # short lives need no garbage collector
        }

    def attempt(
        self, *arguments: str | Path, values: str = "", image: str = IMAGE
    ) -> subprocess.CompletedProcess[str]:
        """The finished process; `values` is a values file's text, `image` the repository if it names none."""
        files = ["--values", str(self._image_values(image))] if image and arguments[0] in _TAKE_VALUES else []
        return subprocess.run(
            [self._binary, *arguments, *files, *(("--values", "-") if values else ())],
            input=values,
            capture_output=True,
            text=True,
            env=self._environment,
            check=False,
            timeout=300,
        )

    def _image_values(self, repository: str) -> Path:
        file = self._home / "image.yaml"
        file.write_text(json.dumps({"image": {"repository": repository}}), encoding="utf-8")
        return file

    def run(self, *arguments: str | Path, values: str = "") -> str:
        """What it prints; a failure is an AssertionError with what it said."""
        done = self.attempt(*arguments, values=values)
        assert done.returncode == 0, f"{' '.join(map(str, arguments))}: {done.stdout}{done.stderr}"
        return done.stdout

    def rendered(self, values: str = "", *, release: str = RELEASE, namespace: str = NAMESPACE) -> Rendered:
        """The chart's objects with these values."""
        return Rendered(_template(self.major, values, release, namespace))


@cache
def _template(major: Major, values: str, release: str, namespace: str) -> str:
    with tempfile.TemporaryDirectory() as home:
        helm = Helm(major, Path(home))
        return helm.run("template", release, CHART, "--namespace", namespace, values=values)


class Rendered:
    """Objects of a chart."""

    def __init__(self, text: str) -> None:
        self.objects: list[Manifest] = [found for found in yaml.load_all(text, yaml.CSafeLoader) if found]

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self.objects)

    def of(self, kind: str) -> list[Manifest]:
        """All of a kind."""
        return [found for found in self.objects if found["kind"] == kind]

    def without_hooks(self) -> list[Manifest]:
        """What stays while the release is there: hooks have accounts of their own while they run."""
        return [obj for obj in self if "helm.sh/hook" not in (obj["metadata"].get("annotations") or {})]

    def one(self, kind: str) -> Manifest:
        """The only one of a kind."""
        (found,) = self.of(kind)
        return found

    @property
    def pod(self) -> Manifest:
        """The spec of the agent's pods."""
        spec: Manifest = self.one("DaemonSet")["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Manifest:
        """The agent's container."""
        (container,) = self.pod["containers"]
        found: Manifest = container
        return found


def assert_valid(found: Manifest, version: str) -> None:
    """By upstream's own schemas of that minor version."""
    modules: dict[str, Any] = sys.modules
    modules.setdefault("rfc3987_syntax", None)  # grammars of a format that no kind has: two seconds to read
    import kubernetes_validate

    kubernetes_validate.validate(found, version, strict=True)
