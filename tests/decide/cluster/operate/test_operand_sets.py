"""OPR-4: DaemonSets under NVIDIA's names, as a policy asks for them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tonnage.decide.cluster.operate.operand_sets import operand_sets
from tonnage.model.json_access import at, mappings, text
from tonnage.model.operands import APPLIED_HASH, OperandImage, SeenObject
from tonnage.reading.gpu_policy import gpu_policy_from
from tonnage.wire.nvidia import ClusterPolicy
from tonnage.wire.objects import ObjectMeta

NAMES = {
    *("nvidia-container-toolkit-daemonset", "nvidia-operator-validator", "nvidia-device-plugin-daemonset"),
    *("nvidia-dcgm-exporter", "gpu-feature-discovery", "nvidia-mig-manager"),
}


def sets(spec: str = "", *there: SeenObject) -> Any:
    policy = ClusterPolicy(
        metadata=ObjectMeta(name="cluster-policy", uid="u"), spec=yaml.load(spec, yaml.CSafeLoader) or {}
    )
    return operand_sets(
        gpu_policy_from(policy),
        OperandImage("registry.example.com/tonnage:1", ("pull",)),
        "gpu-operator",
        there,
    )


def made(spec: str = "") -> dict[str, Any]:
    return {action.name: action.body for action in sets(spec).applied}


def standing(spec: str = "") -> list[SeenObject]:
    return [
        SeenObject(
            name,
            f"uid of {name}",
            text(body, "metadata", "labels", "tonnage.dev/operand"),
            text(body, "metadata", "annotations", APPLIED_HASH),
        )
        for name, body in made(spec).items()
    ]


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        pytest.param("", NAMES, id="what NVIDIA's operator runs unless the policy says otherwise"),
        pytest.param("migManager: {enabled: false}", NAMES - {"nvidia-mig-manager"}, id="a section off"),
        pytest.param(
            "nodeStatusExporter: {enabled: true}", NAMES | {"nvidia-node-status-exporter"}, id="one on"
        ),
        pytest.param("dcgm: {enabled: true}", NAMES | {"nvidia-dcgm"}, id="DCGM where it is asked for"),
        pytest.param("dcgm: {version: '1'}", NAMES, id="DCGM is not run unasked"),
    ],
)
def test_which_there_are(spec: str, names: set[str]) -> None:
    assert {*made(spec)} == names


def test_people_find_what_they_type() -> None:
    body = made()["nvidia-device-plugin-daemonset"]
    pod = at(body, "spec", "template")
    assert text(pod, "metadata", "labels", "app") == "nvidia-device-plugin-daemonset"
    assert at(pod, "spec", "nodeSelector") == {"nvidia.com/gpu.deploy.device-plugin": "true"}
    [container] = mappings(pod, "spec", "containers")
    assert container["name"] == "nvidia-device-plugin"
    assert container["command"] == ["tail"]
    assert text(body, "metadata", "namespace") == "gpu-operator"


def test_what_the_policy_says_of_all_daemon_sets() -> None:
    spec = """
    daemonsets:
      labels: {team: gpu, app: stolen}
      annotations: {note: x}
      priorityClassName: high
      tolerations: [{key: pool, operator: Exists}]
      updateStrategy: RollingUpdate
      rollingUpdate: {maxUnavailable: "3"}
    """
    body = made(spec)["gpu-feature-discovery"]
    pod = at(body, "spec", "template", "spec")
    assert at(body, "spec", "updateStrategy") == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": 3},
    }
    assert at(pod, "tolerations") == [{"key": "pool", "operator": "Exists"}]
    assert at(pod, "priorityClassName") == "high"
    labels = at(body, "spec", "template", "metadata", "labels")
    assert labels == {
        "team": "gpu",
        "app": "gpu-feature-discovery",
        "tonnage.dev/operand": "gpu-feature-discovery",
    }
    assert at(body, "spec", "template", "metadata", "annotations") == {"note": "x"}


def test_pods_hold_nothing_and_may_nothing() -> None:
    for body in made("nodeStatusExporter: {enabled: true}").values():
        pod = at(body, "spec", "template", "spec")
        [container] = mappings(pod, "containers")
        assert at(container, "resources", "limits") == {"memory": "16Mi"}
        assert at(container, "securityContext", "capabilities") == {"drop": ["ALL"]}
        assert [mount["readOnly"] for mount in mappings(container, "volumeMounts")] == [True]
        assert at(pod, "securityContext", "runAsNonRoot") is True
        assert at(pod, "automountServiceAccountToken") is False
        assert at(pod, "imagePullSecrets") == [{"name": "pull"}]


def test_what_stands_is_not_written_again() -> None:
    daemon_sets = sets("", *standing())
    assert (daemon_sets.applied, daemon_sets.deleted, daemon_sets.refusal) == ((), (), None)


def test_one_that_is_not_wanted_any_more_is_deleted() -> None:
    [gone] = sets("gfd: {enabled: false}", *standing()).deleted
    assert (gone.name, gone.uid, gone.namespace) == (
        "gpu-feature-discovery",
        "uid of gpu-feature-discovery",
        "gpu-operator",
    )


def test_another_s_of_that_name_stays_and_is_named() -> None:
    daemon_sets = sets("", SeenObject("nvidia-dcgm-exporter", "u"), SeenObject("prometheus", "v"))
    assert {action.name for action in daemon_sets.applied} == NAMES - {"nvidia-dcgm-exporter"}
    assert not daemon_sets.deleted
    assert daemon_sets.refusal is not None
    assert daemon_sets.refusal.daemon_sets == ("nvidia-dcgm-exporter",)
    assert daemon_sets.refusal.message.startswith(
        "DaemonSets nvidia-dcgm-exporter in gpu-operator are another's"
    )


def test_dcgm_is_nvidia_s_as_the_policy_says() -> None:
    spec = """
    operator: {runtimeClass: nvidia-own}
    daemonsets:
      labels: {team: gpu}
      priorityClassName: high
      tolerations: [{key: pool, operator: Exists}]
      updateStrategy: OnDelete
    dcgm:
      enabled: true
      repository: registry.example.com/nvidia
      image: dcgm
      version: "1.2"
      imagePullPolicy: Always
      imagePullSecrets: [own]
      args: [--log-level, DEBUG]
      env: [{name: A, value: b}]
      resources: {limits: {memory: 1Gi}}
      hostNetwork: true
    """
    body = made(spec)["nvidia-dcgm"]
    assert at(body, "spec", "updateStrategy") == {"type": "OnDelete"}
    assert at(body, "spec", "selector", "matchLabels") == {"app": "nvidia-dcgm"}
    labels = at(body, "spec", "template", "metadata", "labels")
    assert labels == {"team": "gpu", "app": "nvidia-dcgm", "tonnage.dev/operand": "dcgm"}
    pod = at(body, "spec", "template", "spec")
    assert at(pod, "nodeSelector") == {"nvidia.com/gpu.deploy.dcgm": "true"}
    assert at(pod, "tolerations") == [{"key": "pool", "operator": "Exists"}]
    assert (at(pod, "priorityClassName"), at(pod, "runtimeClassName")) == ("high", "nvidia-own")
    assert (at(pod, "imagePullSecrets"), at(pod, "hostNetwork")) == ([{"name": "own"}], True)
    [wait], [engine] = mappings(pod, "initContainers"), mappings(pod, "containers")
    assert "/run/nvidia/validations/toolkit-ready" in str(wait["command"])
    for container in (wait, engine):
        assert container["image"] == "registry.example.com/nvidia/dcgm:1.2"
        assert container["imagePullPolicy"] == "Always"
    assert (engine["name"], mappings(engine, "ports")[0]["containerPort"]) == ("nvidia-dcgm-ctr", 5555)
    assert (engine["args"], engine["env"]) == (["--log-level", "DEBUG"], [{"name": "A", "value": "b"}])
    assert engine["resources"] == {"limits": {"memory": "1Gi"}}


def test_dcgm_has_nvidia_s_image_where_the_policy_names_none() -> None:
    spec = "{dcgm: {enabled: true}, toolkit: {enabled: false}}"
    pod = at(made(spec)["nvidia-dcgm"], "spec", "template", "spec")
    [engine] = mappings(pod, "containers")
    assert engine["image"] == "nvcr.io/nvidia/cloud-native/dcgm:4.6.0-1-ubuntu24.04"
    assert at(pod, "runtimeClassName") is None, "there is no RuntimeClass without the toolkit"
