"""What Tonnage installs on a cluster, as the twin installs it: namespace, configuration, CRDs, the agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tonnage.documents.node_gpu_status import node_gpu_status_crd
from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.agent_rights import agent_rights
from tonnage.twin.world import LIGHT_LABEL
from tonnage.wire.kinds import CONFIG_MAP, CUSTOM_RESOURCE, DAEMON_SET, NAMESPACE, Kind
from tonnage.wire.objects import Object

SYSTEM_NAMESPACE: Final = "tonnage-system"
CONFIG_MAP_NAME: Final = "device-plugin-config"
MIG_CONFIG_MAP_NAME: Final = "default-mig-parted-config"
AGENT: Final = "tonnage-agent"
AGENT_IMAGE: Final = "tonnage.invalid/agent"
"""No registry can carry it: names in `.invalid` resolve nowhere (RFC 2606). Nodes of the twin have it."""

_FOLDERS: Final = (
    ("device-plugins", "/var/lib/kubelet/device-plugins", "Directory"),
    ("pod-resources", "/var/lib/kubelet/pod-resources", "Directory"),
    ("state", "/var/lib/tonnage", "DirectoryOrCreate"),
)
_HAS_GPU: Final = (
    "nvidia.com/gpu.present",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
)
"""Labels of which one says that a node has an NVIDIA GPU; the last three are node feature discovery's."""


def platform_objects(
    configs: Mapping[str, str], kubeconfig: Path, *, light: bool = False
) -> Iterator[tuple[Kind[Object], str | None, JsonObject]]:
    """Every object with its kind and namespace, in the order in which they can be created.

    `configs` is the data of the device-plugin ConfigMap; `kubeconfig` is where agents find the API server;
    `light`: there are nodes on which no agent can run.
    """
    data: JsonObject = dict(configs)
    yield NAMESPACE, None, {"metadata": {"name": SYSTEM_NAMESPACE}}
    yield CUSTOM_RESOURCE, None, node_gpu_status_crd()
    yield CONFIG_MAP, SYSTEM_NAMESPACE, {"metadata": {"name": CONFIG_MAP_NAME}, "data": data}
    yield from agent_rights(AGENT, SYSTEM_NAMESPACE, (CONFIG_MAP_NAME, MIG_CONFIG_MAP_NAME))
    yield DAEMON_SET, SYSTEM_NAMESPACE, agent_daemon_set(kubeconfig, light=light)


def agent_daemon_set(kubeconfig: Path, *, light: bool = False) -> JsonObject:
    """The DaemonSet of the node agents, as the Helm chart has it; what the twin does not act on is left out.

    It runs on every node with a GPU, whatever its taints.
    """
    labels: JsonObject = {"app.kubernetes.io/name": AGENT, "app.kubernetes.io/part-of": "tonnage"}
    mounts: list[JsonValue] = [{"name": name, "mountPath": path} for name, path, _ in _FOLDERS]
    container: JsonObject = {
        "name": "agent",
        "image": AGENT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["tonnage", "node"],
        "args": [f"--mig-config-map={SYSTEM_NAMESPACE}/{MIG_CONFIG_MAP_NAME}"],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "KUBECONFIG", "value": str(kubeconfig)},
        ],
        "volumeMounts": mounts,
    }
    pod: JsonObject = {
        "priorityClassName": "system-node-critical",
        "serviceAccountName": AGENT,
        "terminationGracePeriodSeconds": 15,
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _has_gpu(light=light)}
        },
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [
            {"name": name, "hostPath": {"path": path, "type": kind}} for name, path, kind in _FOLDERS
        ],
    }
    return {
        "metadata": {"name": AGENT, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": AGENT}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _has_gpu(*, light: bool) -> JsonObject:
    """A node selector: any of the labels, and a kubelet where not all nodes have one."""
    kubelet: list[JsonValue] = [{"key": LIGHT_LABEL, "operator": "DoesNotExist"}] if light else []
    return {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": label, "operator": "In", "values": ["true"]}, *kubelet]}
            for label in _HAS_GPU
        ]
    }
