"""Writes out of the Helm chart what is installed without Helm; `--check` only compares.

deploy/kustomize/base is the chart with its default values, for people without Helm. What the twin installs,
src/tonnage/twin/agent.json, is the agent that divides GPUs, and its rights; controller.json the controller.
What only Helm reads is left out.
The image has a name that resolves nowhere, until an overlay says which one it is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from scripts.find_helm import helm_binary
from scripts.image.build import IMAGE
from tonnage.model.errors import ConfigError

ROOT: Final = Path(__file__).resolve().parents[1]
CHART: Final = ROOT / "deploy" / "helm" / "tonnage"
BASE: Final = ROOT / "deploy" / "kustomize" / "base"
TWIN: Final = ROOT / "src" / "tonnage" / "twin" / "agent.json"
TWIN_CONTROLLER: Final = TWIN.with_name("controller.json")
RELEASE: Final = "tonnage"
NAMESPACE: Final = "tonnage-system"
_HEAD: Final = "# Written by scripts/render_chart.py from deploy/helm/tonnage.\n"
TWIN_VALUES: Final = (
    *("migManager.enabled=true", "migManager.evictPods=true", "readerRole.create=false"),
    *("claims.enabled=true", "nvidiaDriverRoot=/"),
)
"""On the twin agents divide GPUs, may evict pods for it, and serve claims; its user needs no role to read."""
CONTROLLER_VALUES: Final = (
    *("controller.enabled=true", "controller.operatorNamespace=gpu-operator"),
    *("controller.definitions=false", "readerRole.create=false", "controller.drivers.enabled=true"),
    "clusterMetrics.enabled=true",
)
"""On the twin ConfigMaps that a ClusterPolicy names lie where NVIDIA's operator would be."""
_TWIN_KINDS: Final = (
    *("CustomResourceDefinition", "ServiceAccount"),
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    *("DeviceClass", "PriorityClass", "DaemonSet", "Deployment", "PodDisruptionBudget"),
)
"""In the order in which they can be created."""
_RELEASE_LABELS: Final = frozenset({"app.kubernetes.io/instance", "app.kubernetes.io/version"})
"""The twin is no release of Helm; and the DaemonSet of a kept cluster cannot take another selector."""
_FOR_HELM: Final = ("app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy")


def files() -> dict[Path, str]:
    """Every file that is written, with its text. Raises ConfigError where there is no Helm."""
    objects = [namespace(), *(for_kubectl(found) for found in rendered())]
    texts = {f"{_file_name(found)}.yaml": _dumped(found) for found in objects}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(texts),
    }
    texts["kustomization.yaml"] = _dumped(kustomization)
    agents = [for_kubectl(found) for found in rendered(*TWIN_VALUES)]
    both = [for_kubectl(found) for found in rendered(*CONTROLLER_VALUES)]
    controller = [found for found in both if _is_of_controller(found)]
    for_the_twin = {TWIN: _for_the_twin(agents), TWIN_CONTROLLER: _for_the_twin(controller)}
    return for_the_twin | {BASE / name: _HEAD + text for name, text in texts.items()}


def _is_of_controller(found: dict[str, Any]) -> bool:
    name = found["metadata"]["name"]
    return "-controller" in name or name == "nvidia-driver" or found["kind"] == "PriorityClass"


def _for_the_twin(chart: list[dict[str, Any]]) -> str:
    objects = [found for kind in _TWIN_KINDS for found in chart if found["kind"] == kind]
    return json.dumps(_without_release(objects), indent=1) + "\n"


def _without_release(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_release(inner) for key, inner in value.items() if key not in _RELEASE_LABELS}
    return [_without_release(inner) for inner in value] if isinstance(value, list) else value


def rendered(*values: str) -> list[dict[str, Any]]:
    """The chart's objects with `values` over its own. Raises ConfigError where there is no Helm."""
    command = [str(helm_binary(4)), "template", RELEASE, str(CHART), "--namespace", NAMESPACE]
    command += ["--set", ",".join((f"image.repository={IMAGE}", *values))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted(filter(_is_of_the_release, yaml.load_all(text, yaml.CSafeLoader)), key=_file_name)


def _is_of_the_release(found: dict[str, Any] | None) -> bool:
    """Not an object of a hook: without Helm there is nobody who runs it."""
    return bool(found) and "helm.sh/hook" not in (found or {})["metadata"].get("annotations", {})


def for_kubectl(found: dict[str, Any]) -> dict[str, Any]:
    """The object without what only Helm reads."""
    metadata = dict(found["metadata"])
    for field in ("labels", "annotations"):
        left = {key: value for key, value in metadata.pop(field, {}).items() if key not in _FOR_HELM}
        if left:
            metadata[field] = left
    return {**found, "metadata": metadata}


def namespace() -> dict[str, Any]:
    """The namespace, which the chart leaves to `helm --create-namespace`; hostPath needs the level."""
    labels = {
        "app.kubernetes.io/part-of": "tonnage",
        "pod-security.kubernetes.io/enforce": "privileged",
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _file_name(found: dict[str, Any]) -> str:
    return f"{found['kind'].lower()}-{found['metadata']['name']}"


def _dumped(found: dict[str, Any]) -> str:
    return yaml.safe_dump(found, sort_keys=False, width=110)


def main() -> int:
    """Write the files, or with `--check` say which files differ."""
    checking = "--check" in sys.argv[1:]
    try:
        wanted = files()
    except ConfigError as error:
        print(f"{'not checked: ' if checking else ''}{error}", file=sys.stderr)
        return 0 if checking else 2
    paths = [*BASE.glob("*.yaml"), *TWIN.parent.glob(TWIN.name), *TWIN.parent.glob(TWIN_CONTROLLER.name)]
    there = {path: path.read_text(encoding="utf-8") for path in paths}
    stale = sorted(path for path in wanted.keys() | there.keys() if wanted.get(path) != there.get(path))
    if checking:
        for path in stale:
            print(f"{path} differs from the chart; run python -m scripts.render_chart", file=sys.stderr)
        return 1 if stale else 0
    BASE.mkdir(parents=True, exist_ok=True)
    for path in stale:
        if path in wanted:
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
