"""The pod of NVIDIA's DCGM, which a ClusterPolicy may ask for; nothing of Tonnage's needs it.

Source: NVIDIA/gpu-operator, assets/state-dcgm/0400_dcgm.yml (v26.7).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.cluster.operate.drivers.images import image_path
from tonnage.model.drivers.policy import ImageFields
from tonnage.model.gpu_policy import GpuPolicy
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, items, mapping, text, texts
from tonnage.model.operands import DCGM, DEPLOY, VALIDATIONS

DCGM_IMAGE: Final = ImageFields("nvcr.io/nvidia/cloud-native", "dcgm", "4.6.0-1-ubuntu24.04")
_PORT: Final = 5555
_RUN_NVIDIA: Final = "/run/nvidia"
_WAIT: Final = f"until test -e {VALIDATIONS}/toolkit-ready; do sleep 5; done"
_PRIVILEGED: Final[JsonObject] = {"privileged": True}


def dcgm_pod(policy: GpuPolicy) -> JsonObject:
    """The pod's spec; it waits for the node's runtime in its own image, which has a shell."""
    section: JsonObject = dict(policy.operands.dcgm or {})
    fields = ImageFields(*(text(section, key) for key in ("repository", "image", "version")))
    common: JsonObject = {
        "image": image_path(fields) or image_path(DCGM_IMAGE),
        "imagePullPolicy": text(section, "imagePullPolicy") or "IfNotPresent",
        "securityContext": _PRIVILEGED,
    }
    wait: JsonObject = {
        **common,
        "name": "toolkit-validation",
        "command": ["sh", "-c", _WAIT],
        "volumeMounts": [
            {
                "name": "run-nvidia",
                "mountPath": _RUN_NVIDIA,
                "mountPropagation": "HostToContainer",
                "readOnly": True,
            }
        ],
    }
    tolerations: list[JsonValue] = [dict(toleration) for toleration in policy.operands.tolerations]
    secrets: list[JsonValue] = [{"name": name} for name in texts(section, "imagePullSecrets")]
    pod: JsonObject = {
        "nodeSelector": {f"{DEPLOY}{DCGM.part}": "true"},
        "tolerations": tolerations,
        "priorityClassName": policy.operands.priority_class,
        "automountServiceAccountToken": False,
        "initContainers": [wait],
        "containers": [{**common, **_container(section)}],
        "volumes": [
            {"name": "run-nvidia", "hostPath": {"path": _RUN_NVIDIA, "type": "DirectoryOrCreate"}},
        ],
    }
    if policy.runtime_classes:
        pod["runtimeClassName"] = policy.runtime_classes[0]
    if secrets:
        pod["imagePullSecrets"] = secrets
    if flag(section, "hostNetwork"):
        pod["hostNetwork"] = True
    return pod


def _container(section: JsonObject) -> JsonObject:
    probe: JsonObject = {"tcpSocket": {"port": _PORT}, "initialDelaySeconds": 15}
    container: JsonObject = {
        "name": DCGM.container,
        "ports": [{"name": "dcgm", "containerPort": _PORT, "protocol": "TCP"}],
        "livenessProbe": probe,
        "readinessProbe": probe,
    }
    own: JsonObject = {
        "args": items(section, "args"),
        "env": items(section, "env"),
        "resources": mapping(section, "resources"),
    }
    return {**container, **{key: value for key, value in own.items() if value}}
