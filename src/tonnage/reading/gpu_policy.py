"""A ClusterPolicy, and what it is about, as model values. A field of the wrong shape counts as absent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tonnage.documents.yaml.reader import parse_yaml_all
from tonnage.model.catalog.policy_effects import PolicyEffects, gpu_cluster_effects, policy_effects
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.gpu_policy import (
    ConfigMapChoice,
    FieldWithoutEffect,
    GpuClusterPolicy,
    GpuPolicy,
    OperandSettings,
    OperatedNode,
    RejectedPod,
    SeenConfigMap,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import flag, mapping, mappings, text
from tonnage.model.names import COPIED_FROM
from tonnage.model.operands import APPLIED_HASH, OPERAND_LABEL, OPERANDS, SeenObject
from tonnage.reading.documents import objects_in
from tonnage.reading.gpu_status import gpu_status_from
from tonnage.reading.object_parts import moment
from tonnage.wire.kinds import CLUSTER_POLICY, NVIDIA_DRIVER, Kind
from tonnage.wire.nvidia import ClusterPolicy, GpuCluster, NvidiaDriver
from tonnage.wire.objects import ConfigMap, DaemonSet, Node, NodeGPUStatus, Object, Pod
from tonnage.wire.policies import RuntimeClass

_DEEPEST: Final = 8
_MOST_FIELDS: Final = 2000
_DIGITS: Final = 6
_DEVICES: Final = ("nvidia.com/gpu", "nvidia.com/mig-")
_OFF_BY_DEFAULT: Final = frozenset({"nodeStatusExporter"})
_DCGM_FIELDS: Final = (
    *("repository", "image", "version", "imagePullPolicy", "imagePullSecrets"),
    *("args", "env", "resources", "hostNetwork"),
)
_GPU_TAINT: Final[JsonObject] = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
"""What DaemonSets bear unless the policy says otherwise."""


@dataclass(frozen=True, slots=True)
class OperatorManifests:
    """What a YAML text has for an operator."""

    policies: Sequence[ClusterPolicy]
    drivers: Sequence[NvidiaDriver]


def operator_manifests(content: str, source: str) -> OperatorManifests:
    """ClusterPolicies and NVIDIADrivers. Raises ConfigError: unreadable, or a field has another type."""
    documents = parse_yaml_all(content, source=source)
    objects = list(objects_in(document.value for document in documents))
    try:
        return OperatorManifests(
            [msgspec.convert(obj, ClusterPolicy) for obj in objects if _is_of(CLUSTER_POLICY, obj)],
            [msgspec.convert(obj, NvidiaDriver) for obj in objects if _is_of(NVIDIA_DRIVER, obj)],
        )
    except msgspec.ValidationError as error:
        words, _, path = str(error).partition(" - at `$")
        where = f"{source} {path.strip('`.')}".strip()
        raise ConfigError(Problem(words, where=where, remedy="run tonnage lint on it")) from None


def _is_of(kind: Kind[Any], obj: JsonObject) -> bool:
    return (obj.get("apiVersion"), obj.get("kind")) == (kind.api_version, kind.kind)


def gpu_policy_from(policy: ClusterPolicy, *, drivers: bool = False) -> GpuPolicy:
    """What a policy wants; `drivers`: the controller installs them."""
    spec: JsonObject = policy.spec
    return GpuPolicy(
        policy.metadata.name,
        uid=policy.metadata.uid,
        generation=policy.metadata.generation,
        created=moment(policy.metadata.creation_timestamp),
        sandboxes=flag(spec, "sandboxWorkloads", "enabled"),
        default_workload=text(spec, "sandboxWorkloads", "defaultWorkload") or "container",
        sandbox_mode=text(spec, "sandboxWorkloads", "mode") or "kubevirt",
        plugin_config=_choice(spec, "devicePlugin"),
        mig_strategy=text(spec, "mig", "strategy"),
        mig_config=_choice(spec, "migManager") if _is_on(spec, "migManager") else ConfigMapChoice(),
        counters=_choice(spec, "dcgmExporter") if _is_on(spec, "dcgmExporter") else ConfigMapChoice(),
        runtime_classes=tuple(_runtime_classes(spec)),
        operands=_operands(spec),
        without_effect=tuple(fields_without_effect(spec, policy_effects(drivers=drivers))),
        status=dict(policy.status),
    )


def gpu_cluster_from(cluster: GpuCluster) -> GpuClusterPolicy:
    """What a GPUCluster wants."""
    return GpuClusterPolicy(
        cluster.metadata.name,
        generation=cluster.metadata.generation,
        without_effect=tuple(fields_without_effect(cluster.spec, gpu_cluster_effects())),
        status=dict(cluster.status),
    )


def operated_node_from(node: Node, report: NodeGPUStatus | None) -> OperatedNode:
    """A node with its agent's report; an object that its agent has not filled yet is none."""
    status = gpu_status_from(report) if report is not None and report.status else None
    allocatable = {
        name: int(count) for name, count in node.status.allocatable.items() if str(count).isdigit()
    }
    boot = text(node.status.node_info, "bootID")
    meta = node.metadata
    return OperatedNode(meta.name, meta.labels, allocatable, status, boot, meta.annotations)


def seen_object(obj: Object) -> SeenObject:
    """An object that the controller makes for a policy, or another's of its kind."""
    meta = obj.metadata
    part = meta.labels.get(OPERAND_LABEL, "")
    template = obj.spec.template if isinstance(obj, DaemonSet) else {}
    handler = obj.handler if isinstance(obj, RuntimeClass) else ""
    return SeenObject(meta.name, meta.uid, part, meta.annotations.get(APPLIED_HASH, ""), template, handler)


def pods_not_made(daemons: DaemonSet) -> str:
    """How many pods of a DaemonSet have not been made, in words; empty: all have."""
    scheduled = daemons.status.desired_number_scheduled
    missing = scheduled - daemons.status.current_number_scheduled
    return f"{missing} of {scheduled} pods have not been made" if missing > 0 else ""


def pods_not_ready(daemons: DaemonSet) -> str:
    """How many pods of a DaemonSet are not ready, and how to see why; empty: all are."""
    scheduled, ready = daemons.status.desired_number_scheduled, daemons.status.number_ready
    if ready >= scheduled:
        return ""
    name, namespace = daemons.metadata.name, daemons.metadata.namespace
    words = f"DaemonSet {namespace}/{name}: {scheduled - ready} of {scheduled} pods are not ready"
    return f"{words}; run: kubectl describe pods -l app={name} -n {namespace}"


def rejected_pod_from(pod: Pod) -> RejectedPod:
    """A pod that has failed, with the devices that all its containers ask for together."""
    devices: dict[str, int] = {}
    for container in pod.spec.containers:
        for name, count in {**container.resources.requests, **container.resources.limits}.items():
            if name.startswith(_DEVICES) and str(count).isdecimal():
                devices[name] = devices.get(name, 0) + int(count)
    metadata, status = pod.metadata, pod.status
    return RejectedPod(
        *(metadata.namespace, metadata.name, pod.spec.node_name, status.reason, status.message),
        devices=devices,
        controller=next((owner.kind for owner in metadata.owner_references if owner.controller), ""),
        leaving=metadata.deletion_timestamp is not None,
    )


def config_map_from(config_map: ConfigMap) -> SeenConfigMap:
    """A ConfigMap with the source that it is a copy of, if it is one."""
    metadata = config_map.metadata
    source = metadata.annotations.get(COPIED_FROM, "")
    return SeenConfigMap(metadata.namespace, metadata.name, config_map.data, source)


def _operands(spec: JsonObject) -> OperandSettings:
    """As NVIDIA's operator reads `daemonsets`, and `enabled` of each section, left out where it is on."""
    sets = mapping(spec, "daemonsets")
    parts = frozenset(operand.part for operand in OPERANDS.values() if _is_on(spec, operand.section))
    strategy: JsonObject = {"type": text(sets, "updateStrategy") or "RollingUpdate"}
    if strategy["type"] == "RollingUpdate":
        most = mapping(sets, "rollingUpdate").get("maxUnavailable") or "1"
        strategy["rollingUpdate"] = {"maxUnavailable": _whole_or_percent(most)}
    tolerations = mappings(sets, "tolerations") if "tolerations" in sets else [dict(_GPU_TAINT)]
    return OperandSettings(
        parts=parts,
        labels=_texts(sets, "labels"),
        annotations=_texts(sets, "annotations"),
        tolerations=tuple(tolerations),
        priority_class=text(sets, "priorityClassName") or "system-node-critical",
        update_strategy=strategy,
        dcgm=_dcgm(mapping(spec, "dcgm")),
    )


def _dcgm(section: JsonObject) -> JsonObject | None:
    """Only where it is said: NVIDIA's image is not run unasked."""
    if not flag(section, "enabled"):
        return None
    return {key: section[key] for key in _DCGM_FIELDS if key in section}


def _runtime_classes(spec: JsonObject) -> Iterator[str]:
    """Those of NVIDIA's runtime; with its plugin for NRI there is none."""
    if not _is_on(spec, "toolkit") or flag(spec, "cdi", "nriPluginEnabled"):
        return
    yield text(spec, "operator", "runtimeClass") or "nvidia"
    if _is_on(spec, "cdi"):
        yield "nvidia-cdi"
        yield "nvidia-legacy"


def _is_on(spec: JsonObject, section: str) -> bool:
    enabled = mapping(spec, section).get("enabled")
    return enabled if isinstance(enabled, bool) else section not in _OFF_BY_DEFAULT


def _texts(owner: JsonObject, key: str) -> dict[str, str]:
    return {name: value for name, value in mapping(owner, key).items() if isinstance(value, str)}


def _whole_or_percent(value: JsonValue) -> JsonValue:
    """A count is written as a text there, and as a number in a DaemonSet."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < _DIGITS else value


def _choice(spec: JsonObject, section: str) -> ConfigMapChoice:
    config = mapping(spec, section, "config")
    return ConfigMapChoice(text(config, "name"), text(config, "default"))


def fields_without_effect(spec: JsonObject, effects: PolicyEffects) -> Iterator[FieldWithoutEffect]:
    """The fields that are set and change nothing, sections whole where none of their fields does."""
    for path in _leaves(spec, (), [_MOST_FIELDS]):
        why = effects.why_without(path)
        if why is not None:
            yield FieldWithoutEffect(path, why)


def _leaves(value: JsonValue, path: tuple[str, ...], left: list[int]) -> Iterator[str]:
    if isinstance(value, dict) and value and len(path) < _DEEPEST:
        for key, child in value.items():
            yield from _leaves(child, (*path, key), left)
    elif path and value not in ({}, [], "", None) and left[0] > 0:
        left[0] -= 1
        yield ".".join(path)


def is_divided(report: NodeGPUStatus | None) -> bool:
    """Whether a GPU is in MIG mode, or nobody knows."""
    if report is None or not report.status:
        return True
    return any(device.get("migEnabled") for device in mappings(report.status, "devices"))


def devices_in(report: NodeGPUStatus | None) -> int | None:
    """How many devices an agent reports; None: it has not."""
    if report is None or not report.status:
        return None
    devices = report.status.get("devices")
    return len(devices) if isinstance(devices, list) else 0
