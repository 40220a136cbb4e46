"""What ClusterPolicies and NVIDIADrivers ask of drivers. A field of the wrong shape counts as absent."""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.model.catalog.policy_effects import nvidia_driver_effects
from tonnage.model.drivers.daemon_set import IMAGE_NOTE, PREVIOUS_NOTE, StandingDaemonSet
from tonnage.model.drivers.node import DIGEST, GROUP_LABEL, DriverNode, DriverPod, HostSystem
from tonnage.model.drivers.policy import (
    DrainLimits,
    DriverOwner,
    DriverOwnerKind,
    DriverPolicy,
    ImageFields,
    UpgradePolicy,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, mapping, number, text
from tonnage.model.kubernetes.selectors import NodeSelectorTerm
from tonnage.reading.gpu_policy import fields_without_effect
from tonnage.reading.object_parts import affinity_of
from tonnage.wire.nvidia import ClusterPolicy, NvidiaDriver
from tonnage.wire.objects import Affinity, DaemonSet, Node, NodeGPUStatus, Pod
from tonnage.wire.ownership import OwnedNode

_POD_FIELDS: Final = (
    *("env", "args", "resources", "imagePullSecrets", "imagePullPolicy", "startupProbe", "livenessProbe"),
    *("readinessProbe", "tolerations", "labels", "annotations", "priorityClassName", "podSecurityContext"),
    *("hostNetwork", "secretEnv", "rdma", "kernelModuleConfig", "manager"),
    *("repoConfig", "certConfig", "licensingConfig", "virtualTopologyConfig"),
)
_MODULES: Final = ("gds", "gdrcopy")
"""Sections that ask for a kernel module beside the driver's."""
_OF_DAEMON_SETS: Final = ("labels", "annotations", "tolerations", "priorityClassName", "podSecurityContext")
_VERSIONED: Final = ("toolkit", "devicePlugin")
_CHART: Final = "helm.sh/chart"
_VERSION: Final = "app.kubernetes.io/version"
_UNFINISHED: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
_LONGEST: Final = 300


def cluster_driver_policy(policy: ClusterPolicy) -> DriverPolicy | None:
    """What a ClusterPolicy asks for itself; None where it leaves drivers to NVIDIADrivers."""
    spec: JsonObject = policy.spec
    driver = mapping(spec, "driver")
    if flag(driver, "useNvidiaDriverCRD"):
        return None
    common: JsonObject = {key: value for key in _OF_DAEMON_SETS if (value := at(spec, "daemonsets", key))}
    problem = ""
    upgrades = mapping(driver, "upgradePolicy")
    if "podDeletion" in upgrades and "gpuPodDeletion" in upgrades:
        problem = (
            "spec.driver.upgradePolicy: podDeletion and gpuPodDeletion are one thing; remove gpuPodDeletion"
        )
    return DriverPolicy(
        DriverOwner(DriverOwnerKind.CLUSTER_POLICY, policy.metadata.name, policy.metadata.uid),
        enabled=driver.get("enabled") is not False,
        precompiled=flag(driver, "usePrecompiled"),
        image=_image(driver),
        manager=_image(mapping(driver, "manager")),
        kernel_module_type=text(driver, "kernelModuleType") or "auto",
        upgrades=_upgrades(upgrades, automatic=False),
        upgrades_disabled=_SANDBOXES if flag(spec, "sandboxWorkloads", "enabled") else "",
        pod={**common, **_pod_fields({**driver, **_renamed(driver)}), **_modules(spec)},
        certificates=text(driver, "certConfig", "name"),
        generation=policy.metadata.generation,
        problem=problem,
        release=_release(policy),
        components={part: version for part in _VERSIONED if (version := _version(mapping(spec, part)))},
    )


def _renamed(driver: JsonObject) -> JsonObject:
    """Names of ConfigMaps under the names that an NVIDIADriver has for them."""
    licence: JsonObject = dict(mapping(driver, "licensingConfig"))
    return {
        "repoConfig": {"name": text(driver, "repoConfig", "configMapName")},
        "virtualTopologyConfig": {"name": text(driver, "virtualTopology", "config")},
        "licensingConfig": {**licence, "name": text(licence, "configMapName")},
    }


def _release(policy: ClusterPolicy) -> str:
    """The release of NVIDIA's chart that rendered it."""
    labels = policy.metadata.labels
    return labels.get(_VERSION, "") if labels.get(_CHART, "").startswith("gpu-operator-") else ""


def _version(section: JsonObject) -> str:
    return "" if section.get("enabled") is False else text(section, "version")[:_LONGEST]


_SANDBOXES: Final = (
    "drivers are not upgraded while sandboxWorkloads.enabled is set, as with NVIDIA's operator"
)


def nvidia_driver_policy(driver: NvidiaDriver) -> DriverPolicy:
    """What an NVIDIADriver asks for."""
    spec: JsonObject = driver.spec
    kind = text(spec, "driverType") or "gpu"
    licence, with_licence = mapping(spec, "licensingConfig"), dict(spec)
    if licence:  # which a ClusterPolicy has to ask for, an NVIDIADriver has by default
        with_licence["licensingConfig"] = {"nlsEnabled": True, **licence}
    selector = {key: value for key, value in mapping(spec, "nodeSelector").items() if isinstance(value, str)}
    return DriverPolicy(
        DriverOwner(DriverOwnerKind.NVIDIA_DRIVER, driver.metadata.name, driver.metadata.uid),
        precompiled=flag(spec, "usePrecompiled"),
        image=_image(spec),
        manager=_image(mapping(spec, "manager")),
        kernel_module_type=text(spec, "kernelModuleType") or "auto",
        upgrades=_upgrades(mapping(spec, "upgradePolicy"), automatic=True),
        selector=selector,
        terms=_terms(mapping(spec, "nodeAffinity")),
        default=flag(spec, "default"),
        pod={**_pod_fields(with_licence), **_modules(spec)},
        certificates=text(spec, "certConfig", "name"),
        generation=driver.metadata.generation,
        without_effect=tuple(fields_without_effect(spec, nvidia_driver_effects())),
        problem=""
        if kind == "gpu"
        else f"spec.driverType: {kind}: Tonnage runs nothing for virtual machines",
        status=dict(driver.status),
    )


def _pod_fields(section: JsonObject) -> dict[str, JsonValue]:
    return {key: section[key] for key in _POD_FIELDS if section.get(key) not in (None, "", [], {})}


def _modules(spec: JsonObject) -> dict[str, JsonValue]:
    return {section: mapping(spec, section) for section in _MODULES if flag(spec, section, "enabled")}


def _image(section: JsonObject) -> ImageFields:
    return ImageFields(*(text(section, key) for key in ("repository", "image", "version")))


def _upgrades(policy: JsonObject, *, automatic: bool) -> UpgradePolicy:
    switch, drain = policy.get("autoUpgrade"), mapping(policy, "drain")
    unavailable = policy.get("maxUnavailable", "25%")
    deletion = mapping(policy, "podDeletion") or mapping(policy, "gpuPodDeletion")
    return UpgradePolicy(
        automatic=switch if isinstance(switch, bool) else automatic,
        max_parallel=max(number(policy, "maxParallelUpgrades", default=1), 0),
        max_unavailable=unavailable
        if isinstance(unavailable, int | str) and not isinstance(unavailable, bool)
        else "25%",
        jobs=text(policy, "waitForCompletion", "podSelector"),
        jobs_timeout_s=max(number(policy, "waitForCompletion", "timeoutSeconds"), 0),
        pod_deletion=_limits(deletion),
        drain=_limits(drain) if flag(drain, "enable") else None,
    )


def _limits(section: JsonObject) -> DrainLimits:
    return DrainLimits(
        force=flag(section, "force"),
        delete_empty_dir=flag(section, "deleteEmptyDir"),
        timeout_s=max(number(section, "timeoutSeconds", default=300), 0),
        selector=text(section, "podSelector"),
    )


def _terms(affinity: JsonObject) -> tuple[NodeSelectorTerm, ...] | None:
    if not mapping(affinity, "requiredDuringSchedulingIgnoredDuringExecution"):
        return None
    try:
        read = msgspec.convert({"nodeAffinity": affinity}, Affinity)
    except msgspec.ValidationError:
        return ()  # what cannot be read selects nothing
    return affinity_of(read, {}).node


def driver_node_from(node: Node, report: NodeGPUStatus | None, waits: str) -> DriverNode:
    """A node with its agent's report; `waits` is why its GPUs are not ready."""
    status: JsonObject = report.status if report is not None else {}
    conditions = {condition.type: condition.status for condition in node.status.conditions}
    host, devices = mapping(status, "host"), status.get("devices")
    return DriverNode(
        node.metadata.name,
        labels=node.metadata.labels,
        annotations=node.metadata.annotations,
        unschedulable=node.spec.unschedulable,
        ready=conditions.get("Ready", "True") == "True",
        kernel=text(node.status.node_info, "kernelVersion"),
        system_image=text(node.status.node_info, "osImage"),
        host=host_system_from(host) if host else None,
        devices=len(devices) if isinstance(devices, list) else None,
        waits=waits,
        resource_version=node.metadata.resource_version,
    )


def host_system_from(host: JsonObject) -> HostSystem:
    """What an agent reports of its host."""
    headers, boot = host.get("kernelHeaders"), host.get("secureBoot")
    return HostSystem(
        system_id=text(host, "systemID")[:_LONGEST],
        system_version=text(host, "systemVersion")[:_LONGEST],
        kernel=text(host, "kernel")[:_LONGEST],
        headers=headers if isinstance(headers, bool) else None,
        gpus_on_bus=_count(host, "gpusOnBus"),
        nouveau_bound=_count(host, "nouveauBound"),
        secure_boot=boot if isinstance(boot, bool) else None,
        module=text(host, "moduleVersion")[:_LONGEST],
        driver_owner=text(host, "driverOwner"),
        driver_version=text(host, "driverVersion")[:_LONGEST],
    )


def _count(host: JsonObject, key: str) -> int | None:
    counted = number(host, key, default=-1)
    return None if counted < 0 else counted


def driver_pod_from(pod: Pod) -> DriverPod:
    """A pod of a driver's DaemonSet."""
    statuses: list[JsonObject] = [*pod.status.init_container_statuses, *pod.status.container_statuses]
    ready = any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )
    return DriverPod(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.metadata.uid,
        pod.spec.node_name,
        group=pod.metadata.labels.get(GROUP_LABEL, ""),
        digest=pod.metadata.annotations.get(DIGEST, ""),
        ready=ready,
        restarts=max((number(status, "restartCount") for status in statuses), default=0),
        terminating=pod.metadata.deletion_timestamp is not None,
        trouble=next(filter(None, map(_trouble, statuses)), "") or pod.status.message[:_LONGEST],
    )


def _trouble(status: JsonObject) -> str:
    """Why a container does not run: what it waits for, and how it ended before."""
    waiting = mapping(status, "state", "waiting")
    reason = text(waiting, "reason")
    ended = mapping(status, "state", "terminated") or mapping(status, "lastState", "terminated")
    if reason in _UNFINISHED and not (ended and number(ended, "exitCode")):
        return ""
    last = text(ended, "message").strip().splitlines()[-1:]
    words = [reason, *(last or [text(waiting, "message")])]
    if ended and not last:
        words = [reason, f"exit status {number(ended, 'exitCode')}"]
    return ": ".join(word for word in words if word)[:_LONGEST]


def cordon_has_the_note(node: OwnedNode, note: str) -> bool:
    """Whether who has cordoned the node is who has written the note; so it counts where nobody says.

    Both go into one write. A later cordon of somebody else's is among that writer's fields.
    """
    for entry in node.metadata.managed_fields:
        if "f:unschedulable" in mapping(entry.fields, "f:spec"):
            return f"f:{note}" in mapping(entry.fields, "f:metadata", "f:annotations")
    return True


def uses_gpu(pod: Pod) -> bool:
    """Whether a pod holds GPUs of the node: by resource, or by a claim."""
    if pod.spec.resource_claims:
        return True
    containers = [*pod.spec.containers, *pod.spec.init_containers]
    for container in containers:
        limits = {**container.resources.requests, **container.resources.limits}
        if any(name.startswith(("nvidia.com/gpu", "nvidia.com/mig-")) for name in limits):
            return True
    return False


def keeps_files(pod: Pod) -> bool:
    """Whether it has an emptyDir, whose files go with it."""
    volumes: list[JsonValue] = list(pod.spec.volumes)
    return any(isinstance(volume, dict) and "emptyDir" in volume for volume in volumes)


def standing_daemon_set(daemon_set: DaemonSet) -> StandingDaemonSet:
    """A DaemonSet that the controller has written."""
    metadata = daemon_set.metadata
    owners = [f"{owner.kind} {owner.uid}" for owner in metadata.owner_references if owner.controller]
    return StandingDaemonSet(
        metadata.name,
        metadata.uid,
        digest=metadata.annotations.get(DIGEST, ""),
        image=metadata.annotations.get(IMAGE_NOTE, ""),
        previous=metadata.annotations.get(PREVIOUS_NOTE, ""),
        owner=owners[0] if owners else "",
        template=daemon_set.spec.template,
    )
