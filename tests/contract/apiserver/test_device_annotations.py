"""ADM-8: the policy on annotations for NVIDIA's NRI plugin, on a genuine API server and on the twin's."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.helm import NAMESPACE, Helm
from tonnage.cli.locations.kubectl import kubectl_binary

PATIENCE_S = 60.0
POLICY = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
ASKING = {
    "all GPUs": {"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=all"},
    "for one container": {"nvidia.cdi.k8s.io/container.main": "nvidia.com/gpu=0"},
    "the short form": {"nvidia.cdi.k8s.io": "management.nvidia.com/gpu=all"},
}
Kubectl = Callable[..., str]


def namespace(name: str) -> list[dict[str, Any]]:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": name},
    }
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, account]


def pod(space: str, annotations: Mapping[str, str], name: str = "train") -> dict[str, Any]:
    meta = {"name": name, "namespace": space, "annotations": dict(annotations)}
    spec = {"containers": [{"name": "main", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def kubectl(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """What a command is refused with; empty when it is not. The policy counts already."""

    def ask(*words: str, given: object = None) -> str:
        command = [str(kubectl_binary("1.35")), "--kubeconfig", str(api_kubeconfig), *words]
        done = subprocess.run(
            command, input=json.dumps(given), capture_output=True, text=True, check=False, timeout=60
        )
        return "" if done.returncode == 0 else done.stderr

    values = "fullnameOverride: annotations\n"
    rendered = Helm(4, tmp_path_factory.mktemp("helm")).rendered(values)
    policies = [
        found
        for found in rendered
        if found["kind"] in POLICY and found["metadata"]["name"].endswith("-device-annotations")
    ]
    assert len(policies) == 2
    spaces = [obj for name in ("ml-team-a", "gpu-operator", NAMESPACE) for obj in namespace(name)]
    for obj in [*spaces, pod("ml-team-a", ASKING["all GPUs"], "before"), *policies]:
        refusal = ask("create", "-f", "-", given=obj)
        assert not refusal or "already exists" in refusal, refusal
    until = time.monotonic() + PATIENCE_S
    while not ask("create", "-f", "-", "--dry-run=server", given=pod("ml-team-a", ASKING["all GPUs"])):
        assert time.monotonic() < until
    yield ask
    for obj in policies:
        ask("delete", obj["kind"], obj["metadata"]["name"])


def created(kubectl: Kubectl, space: str, annotations: Mapping[str, str]) -> str:
    return kubectl("create", "-f", "-", "--dry-run=server", given=pod(space, annotations))


@pytest.mark.parametrize("annotations", ASKING.values(), ids=ASKING)
def test_adm_8_a_tenants_annotation_for_devices_is_denied(
    kubectl: Kubectl, annotations: Mapping[str, str]
) -> None:
    refusal = created(kubectl, "ml-team-a", annotations)
    assert f"annotation {next(iter(annotations))} asks for devices that no quota and no scheduler" in refusal


@pytest.mark.parametrize("space", ["gpu-operator", NAMESPACE])
def test_namespaces_that_are_named_may(kubectl: Kubectl, space: str) -> None:
    assert created(kubectl, space, ASKING["all GPUs"]) == ""


@pytest.mark.parametrize(
    "annotations",
    [{}, {"cdi.k8s.io/x": "nvidia.com/gpu=0"}, {"nvidia.cdi.k8s.iox": "a"}, {"a.nvidia.cdi.k8s.io/pod": "b"}],
    ids=str,
)
def test_other_annotations_may_be(kubectl: Kubectl, annotations: Mapping[str, str]) -> None:
    assert created(kubectl, "ml-team-a", annotations) == ""


def test_a_pod_that_had_one_before_lives_on_and_gets_no_other(kubectl: Kubectl) -> None:
    words = ("pod/before", "-n", "ml-team-a", "--overwrite")
    assert kubectl("label", *words, f"at=t{time.monotonic_ns()}") == ""
    assert "no quota" in kubectl("annotate", *words, "nvidia.cdi.k8s.io/pod=nvidia.com/gpu=1")
    assert "no quota" in kubectl("annotate", *words, "nvidia.cdi.k8s.io/container.main=nvidia.com/gpu=1")
