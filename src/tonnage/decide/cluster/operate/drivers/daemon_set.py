"""The DaemonSet of a driver group, as NVIDIA's driver container wants its pod.

Source: NVIDIA/gpu-operator v26.7, assets/state-driver: names, environment and host paths that driver images
and third parties rely on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tonnage.decide.cluster.operate.drivers.config_files import config_mounts, config_volumes
from tonnage.decide.cluster.operate.drivers.groups import DriverGroup
from tonnage.decide.cluster.operate.drivers.images import driver_fields, manager_image
from tonnage.decide.cluster.operate.drivers.module_containers import (
    LAST_WORDS,
    module_containers,
    module_pull_secrets,
    module_variables,
)
from tonnage.model.drivers.daemon_set import IMAGE_NOTE, PREVIOUS_NOTE, StandingDaemonSet
from tonnage.model.drivers.node import DEPLOY_DRIVER, DIGEST, GROUP_LABEL, MODULE_DIGEST, OWNER_LABEL
from tonnage.model.drivers.policy import DriverOwnerKind
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, items, mapping, text

COMPONENT: Final = "app.kubernetes.io/component"
DRIVER_COMPONENT: Final = "nvidia-driver"
DRIVER_CONTAINER: Final = "nvidia-driver-ctr"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER_NAME: Final = "tonnage-controller"
_ACCOUNT: Final = "nvidia-driver"
_READY_FILE: Final = "/run/nvidia/validations/.driver-ctr-ready"
_PROBE: Final = (
    "test -e /sys/module/nvidia/refcnt && nvidia-smi > /dev/null && mkdir -p /run/nvidia/validations &&"
    " printf 'GDRCOPY_ENABLED: %s\\nGDS_ENABLED: %s\\nGPU_DIRECT_RDMA_ENABLED: %s\\n'"
    ' "${GDRCOPY_ENABLED:-false}" "${GDS_ENABLED:-false}" "${GPU_DIRECT_RDMA_ENABLED:-false}"'
    f" > {_READY_FILE}.new && mv {_READY_FILE}.new {_READY_FILE}"
)
_STARTUP: Final[JsonObject] = {
    "initialDelaySeconds": 60,
    "periodSeconds": 10,
    "timeoutSeconds": 60,
    "failureThreshold": 120,
}
_FOLDERS: Final = (
    ("run-nvidia", "/run/nvidia", "DirectoryOrCreate"),
    ("run-nvidia-fabricmanager", "/run/nvidia-fabricmanager", "DirectoryOrCreate"),
    ("run-nvidia-topologyd", "/run/nvidia-topologyd", "DirectoryOrCreate"),
    ("var-log", "/var/log", ""),
    ("dev-log", "/dev/log", ""),
    ("host-os-release", "/etc/os-release", ""),
    ("mlnx-ofed-usr-src", "/run/mellanox/drivers/usr/src", "DirectoryOrCreate"),
    ("run-mellanox-drivers", "/run/mellanox/drivers", "DirectoryOrCreate"),
    ("host-root", "/", ""),
    ("host-sys", "/sys", "Directory"),
    ("firmware-search-path", "/sys/module/firmware_class/parameters/path", ""),
    ("sysfs-memory-online", "/sys/devices/system/memory/auto_online_blocks", ""),
    ("nv-firmware", "/run/nvidia/driver/lib/firmware", "DirectoryOrCreate"),
)
"""Name, path on the host, type."""


def daemon_set(group: DriverGroup, namespace: str, standing: StandingDaemonSet | None) -> JsonObject:
    """The whole object, to be applied; what was there before says which image went before this one."""
    template = _template(group)
    digest = digest_of(template)
    mapping(template, "metadata", "annotations")[DIGEST] = digest
    fields = driver_fields(group.policy)
    note = json.dumps(
        {"repository": fields.repository, "image": fields.image, "version": fields.version}, sort_keys=True
    )
    annotations: JsonObject = {DIGEST: digest, IMAGE_NOTE: note}
    if standing is not None:
        previous = standing.previous if standing.image == note else standing.image
        if previous and previous != note:
            annotations[PREVIOUS_NOTE] = previous
    owner = group.policy.owner
    version = "nvidia.com/v1" if owner.kind is DriverOwnerKind.CLUSTER_POLICY else "nvidia.com/v1alpha1"
    reference: JsonObject = {
        "apiVersion": version,
        "kind": owner.kind.value,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    metadata: JsonObject = {
        "name": group.name,
        "namespace": namespace,
        "labels": {**_labels(group), MANAGED_BY: MANAGER_NAME},
        "annotations": annotations,
        "ownerReferences": [reference],
    }
    spec: JsonObject = {
        "selector": {"matchLabels": {GROUP_LABEL: group.name}},
        "updateStrategy": {"type": "OnDelete"},
        "template": template,
    }
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}


def digest_of(part: JsonObject) -> str:
    """Ten hexadecimal digits that name a part of an object, whatever the order of its keys."""
    text = json.dumps(part, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def group_digest(group: DriverGroup) -> str:
    """The digest of the group's template."""
    return digest_of(_template(group))


def _labels(group: DriverGroup) -> JsonObject:
    return {
        "app": "nvidia-driver-daemonset",
        COMPONENT: DRIVER_COMPONENT,
        "nvidia.com/precompiled": "true" if group.policy.precompiled else "false",
        GROUP_LABEL: group.name,
    }


def _template(group: DriverGroup) -> JsonObject:
    pod = group.policy.pod
    labels: JsonObject = {**mapping(dict(pod), "labels"), **_labels(group)}
    if group.policy.owner.kind is DriverOwnerKind.NVIDIA_DRIVER:
        labels[OWNER_LABEL] = group.policy.owner.name
    annotations: JsonObject = {
        **mapping(dict(pod), "annotations"),
        "kubectl.kubernetes.io/default-container": DRIVER_CONTAINER,
    }
    if group.policy.module_texts:
        annotations[MODULE_DIGEST] = digest_of(dict(group.policy.module_texts))
    selector: JsonObject = {GROUP_LABEL: group.name, DEPLOY_DRIVER: "true"}
    spec: JsonObject = {
        "nodeSelector": selector,
        "tolerations": items(dict(pod), "tolerations")
        or [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_alone()]}},
        "priorityClassName": text(dict(pod), "priorityClassName") or "system-node-critical",
        "serviceAccountName": _ACCOUNT,
        "hostPID": True,
        "initContainers": [_manager(group)],
        "containers": list(_containers(group)),
        "volumes": list(_volumes(group)),
    }
    if flag(dict(pod), "hostNetwork"):
        spec["hostNetwork"] = True
    secrets: list[JsonValue] = [{"name": name} for name in pull_secrets(group)]
    if secrets:
        spec["imagePullSecrets"] = secrets
    if context := mapping(dict(pod), "podSecurityContext"):
        spec["securityContext"] = context
    return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}


def pull_secrets(group: DriverGroup) -> list[str]:
    """The Secrets that the pod's images are pulled with, each once."""
    pod = dict(group.policy.pod)
    driver, manager = items(pod, "imagePullSecrets"), items(pod, "manager", "imagePullSecrets")
    names = [*driver, *manager, *module_pull_secrets(group)]
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _alone() -> JsonObject:
    """No two drivers on a node, whoever's they are."""
    terms: JsonObject = {"key": COMPONENT, "operator": "In", "values": [DRIVER_COMPONENT]}
    return {"labelSelector": {"matchExpressions": [terms]}, "topologyKey": "kubernetes.io/hostname"}


def _manager(group: DriverGroup) -> JsonObject:
    """Unloads the driver before; the controller has made the pods leave that hold it."""
    pod = dict(group.policy.pod)
    own = (
        ("NVIDIA_VISIBLE_DEVICES", "void"),
        ("ENABLE_GPU_POD_EVICTION", "true"),
        ("ENABLE_AUTO_DRAIN", "false"),
    )
    environment: list[JsonValue] = [
        _field("NODE_NAME", "spec.nodeName"),
        _field("OPERATOR_NAMESPACE", "metadata.namespace"),
        *_variables(own),
        *items(pod, "manager", "env"),
    ]
    return {
        "name": "k8s-driver-manager",
        "image": manager_image(group.policy),
        "imagePullPolicy": text(pod, "manager", "imagePullPolicy") or "IfNotPresent",
        "command": ["driver-manager"],
        "args": ["uninstall_driver"],
        "env": environment,
        **LAST_WORDS,
        "securityContext": {"privileged": True},
        "volumeMounts": [
            _mount("run-nvidia", "/run/nvidia", "Bidirectional"),
            {**_mount("host-root", "/host", "HostToContainer"), "readOnly": True},
            _mount("host-sys", "/sys"),
            _mount("run-mellanox-drivers", "/run/mellanox/drivers", "HostToContainer"),
        ],
    }


def _containers(group: DriverGroup) -> Iterator[JsonValue]:
    pod = dict(group.policy.pod)
    variables = {"KERNEL_MODULE_TYPE": group.policy.kernel_module_type, **module_variables(group)}
    if flag(pod, "rdma", "enabled"):
        variables["GPU_DIRECT_RDMA_ENABLED"] = "true"
        variables["USE_HOST_MOFED"] = "true" if flag(pod, "rdma", "useHostMofed") else "false"
    environment: list[JsonValue] = [
        _field("NODE_NAME", "spec.nodeName"),
        _field("NODE_IP", "status.hostIP"),
        *_variables(variables.items()),
        *items(pod, "env"),
    ]
    driver: JsonObject = {
        "name": DRIVER_CONTAINER,
        "image": group.image,
        "imagePullPolicy": text(pod, "imagePullPolicy") or "IfNotPresent",
        "command": ["nvidia-driver"],
        "args": _arguments(group),
        "env": environment,
        **LAST_WORDS,
        "securityContext": {"privileged": True, "seLinuxOptions": {"level": "s0"}},
        "volumeMounts": list(_driver_mounts(group)),
        "startupProbe": {
            **_STARTUP,
            **_probe(pod, "startupProbe"),
            "exec": {"command": ["sh", "-c", _PROBE]},
        },
        "lifecycle": {"preStop": {"exec": {"command": ["rm", "-f", _READY_FILE]}}},
    }
    for name in ("livenessProbe", "readinessProbe"):
        if settings := _probe(pod, name):
            driver[name] = {**settings, "exec": {"command": ["nvidia-smi"]}}
    if resources := mapping(pod, "resources"):
        driver["resources"] = resources
    if secret := text(pod, "secretEnv"):
        driver["envFrom"] = [{"secretRef": {"name": secret}}]
    yield driver
    yield from module_containers(group)


def _arguments(group: DriverGroup) -> list[JsonValue]:
    """Those of a ClusterPolicy stand for NVIDIA's own; those of an NVIDIADriver follow it."""
    own = items(dict(group.policy.pod), "args")
    if group.policy.owner.kind is DriverOwnerKind.NVIDIA_DRIVER:
        return ["init", *own]
    return own or ["init"]


def _driver_mounts(group: DriverGroup) -> Iterator[JsonValue]:
    yield _mount("run-nvidia", "/run/nvidia", "Bidirectional")
    for name in ("run-nvidia-fabricmanager", "run-nvidia-topologyd"):
        yield _mount(name, f"/{name.replace('run-', 'run/', 1)}")
    yield _mount("var-log", "/var/log")
    yield _mount("dev-log", "/dev/log")
    yield {**_mount("host-os-release", "/host-etc/os-release"), "readOnly": True}
    yield _mount("mlnx-ofed-usr-src", "/run/mellanox/drivers/usr/src", "HostToContainer")
    yield _mount("run-mellanox-drivers", "/run/mellanox/drivers", "HostToContainer")
    yield _mount("sysfs-memory-online", "/sys/devices/system/memory/auto_online_blocks")
    yield _mount("firmware-search-path", "/sys/module/firmware_class/parameters/path")
    yield _mount("nv-firmware", "/lib/firmware")
    yield from config_mounts(group)


def _volumes(group: DriverGroup) -> Iterator[JsonValue]:
    for name, path, kind in _FOLDERS:
        place: JsonObject = {"path": path, "type": kind} if kind else {"path": path}
        yield {"name": name, "hostPath": place}
    yield from config_volumes(group)


def _probe(pod: Mapping[str, JsonValue], name: str) -> JsonObject:
    return dict(mapping(dict(pod), name))


def _mount(name: str, path: str, propagation: str = "") -> JsonObject:
    mount: JsonObject = {"name": name, "mountPath": path}
    return {**mount, "mountPropagation": propagation} if propagation else mount


def _variables(variables: Iterable[tuple[str, str]]) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in variables]


def _field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
