"""Pods and pod templates, new and changed."""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.encoding.body import copy_json
from tonnage.decide.kubernetes.api.go_values import difference, pod_spec_in_go
from tonnage.decide.kubernetes.api.pod_containers import every_container
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.differences import changed_paths
from tonnage.decide.kubernetes.api.validation.fields import (
    INT32,
    PREEMPTION,
    FieldErrors,
    in_range,
    labels,
    one_of,
    tolerations,
)
from tonnage.decide.kubernetes.api.validation.metadata import annotation_rules
from tonnage.decide.kubernetes.api.validation.pods.containers import (
    ContainerPodFacts,
    containers,
    image_changes_only,
    image_rules,
    init_containers,
)
from tonnage.decide.kubernetes.api.validation.pods.dns import dns_config, host_aliases, host_name
from tonnage.decide.kubernetes.api.validation.pods.environment import file_volumes
from tonnage.decide.kubernetes.api.validation.pods.ephemeral_containers import (
    ephemeral_containers,
    ephemeral_kept,
    is_mirror_pod,
)
from tonnage.decide.kubernetes.api.validation.pods.gated_updates import narrowed_affinity, narrowed_selector
from tonnage.decide.kubernetes.api.validation.pods.placement import affinity, spread_constraints
from tonnage.decide.kubernetes.api.validation.pods.security_contexts import pod_security
from tonnage.decide.kubernetes.api.validation.pods.volumes import volumes
from tonnage.decide.kubernetes.api.validation.resources import pod_requirements, requirements
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, flag, items, mapping, mappings, number, text

_SYSTEMS: Final = ("linux", "windows")
_RESTARTS: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_GRACE: Final = "terminationGracePeriodSeconds"
_CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_create(obj: JsonObject) -> FieldErrors:
    """A new pod, but for its metadata."""
    spec = mapping(obj, "spec")
    yield from _whole(obj)
    if items(spec, "ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if text(spec, "nodeName") and items(spec, "schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _whole(pod: JsonObject) -> FieldErrors:
    """The spec of a pod, not of a template."""
    spec = mapping(pod, "spec")
    yield from pod_spec(spec, "spec", text(pod, "metadata", "name"))
    if not text(spec, "serviceAccountName"):
        yield from _no_tokens(spec)
    for key in ("containers", "initContainers"):
        # In templates an image of blanks is a token that controllers know.
        for index, container in enumerate(mappings(spec, key)):
            yield from image_rules(container, f"spec.{key}[{index}]")


def _no_tokens(spec: JsonObject) -> FieldErrors:
    for index, volume in enumerate(mappings(spec, "volumes")):
        for place, source in enumerate(mappings(volume, "projected", "sources")):
            if source.get("serviceAccountToken") is not None:
                where = f"spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"
                yield forbidden(where, "must not be specified when serviceAccountName is not set")


def ephemeral_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A pod that got ephemeral containers, but for its metadata."""
    if is_mirror_pod(old):
        yield forbidden("[]", "static pods do not support ephemeral containers")
        return
    yield from _whole(new)
    yield from ephemeral_kept(new, old)


def template_head(template: JsonObject, path: str) -> FieldErrors:
    """Labels and annotations of a pod template."""
    annotations = mapping(template, "metadata", "annotations")
    yield from labels(mapping(template, "metadata", "labels"), f"{path}.labels")
    yield from annotation_rules(annotations, f"{path}.annotations")


def pod_template(template: JsonObject, path: str) -> FieldErrors:
    """A pod template of a workload."""
    spec = mapping(template, "spec")
    yield from template_head(template, path)
    yield from pod_spec(spec, f"{path}.spec")
    if items(spec, "ephemeralContainers"):
        yield forbidden(
            f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"
        )


def pod_spec(spec: JsonObject, path: str, name: str | None = None) -> FieldErrors:
    """A pod's spec, alone or in a template, in the server's order."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        yield required(f"{path}.terminationGracePeriodSeconds")
    claims = mappings(spec, "resourceClaims")
    wrong, usable_volumes = volumes(mappings(spec, "volumes"), f"{path}.volumes", name)
    yield from wrong
    yield from _resource_claims(claims, f"{path}.resourceClaims")
    facts = ContainerPodFacts(
        volumes=usable_volumes,
        claims=tuple(filter(None, dict.fromkeys(text(claim, "name") for claim in claims))),
        restart_policy=text(spec, "restartPolicy"),
        grace_period_s=grace if isinstance(grace, int) else None,
        host_users=spec.get("hostUsers") is not False,
    )
    regular = mappings(spec, "containers")
    yield from containers(regular, f"{path}.containers", facts)
    yield from init_containers(mappings(spec, "initContainers"), regular, f"{path}.initContainers", facts)
    yield from ephemeral_containers(spec, f"{path}.ephemeralContainers", facts)
    yield from pod_requirements(spec, f"{path}.resources", facts.claims)
    yield from _policies(spec, path)
    yield from pod_security(spec, f"{path}.securityContext")
    yield from affinity(mapping(spec, "affinity"), f"{path}.affinity")
    yield from dns_config(spec, f"{path}.dnsConfig")
    yield from _gates(spec, path)
    yield from spread_constraints(
        mappings(spec, "topologySpreadConstraints"), f"{path}.topologySpreadConstraints"
    )
    yield from _own_users(spec, path)
    yield from host_name(spec, path)
    yield from _names(spec, path)
    yield from tolerations(mappings(spec, "tolerations"), f"{path}.tolerations")
    yield from host_aliases(spec, f"{path}.hostAliases")
    yield from _classes(spec, path)
    yield from _operating_system(spec, path)
    yield from file_volumes(spec, path)


def _operating_system(spec: JsonObject, path: str) -> FieldErrors:
    """The system that a pod says it needs. What Windows has not, and what it alone has, nobody checks."""
    if spec.get("os") is not None and (name := text(spec, "os", "name")) not in _SYSTEMS:
        yield unsupported(f"{path}.os", name, _SYSTEMS) if name else required(f"{path}.os.name")


def _policies(spec: JsonObject, path: str) -> FieldErrors:
    if flag(spec, "hostNetwork"):
        for index, container in enumerate(mappings(spec, "containers")):
            for position, port in enumerate(mappings(container, "ports")):
                host = number(port, "hostPort")
                if host and host != number(port, "containerPort"):
                    where = f"{path}.containers[{index}].ports[{position}].hostPort"
                    yield invalid(where, host, "must match `containerPort` when `hostNetwork` is true")
    yield from one_of(text(spec, "restartPolicy"), _RESTARTS, f"{path}.restartPolicy")
    yield from one_of(text(spec, "dnsPolicy"), _DNS, f"{path}.dnsPolicy")
    yield from labels(mapping(spec, "nodeSelector"), f"{path}.nodeSelector")


def _own_users(spec: JsonObject, path: str) -> FieldErrors:
    """A pod whose users are not the host's shares nothing else with it."""
    if spec.get("hostUsers") is not False:
        return
    words = "when `hostUsers` is false"
    for key, name in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if flag(spec, key):
            yield forbidden(f"{path}.{name}", words)
    for container, where in every_container(spec, path):
        if items(container, "volumeDevices"):
            yield forbidden(f"{where}.volumeDevices", words)


def _resource_claims(claims: list[JsonObject], path: str) -> FieldErrors:
    seen_names: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{path}[{index}]", text(claim, "name")
        if not name:
            yield required(f"{where}.name")
        elif name in seen_names:
            yield duplicate(f"{where}.name", name)
        else:
            yield from complaints(f"{where}.name", name, names.dns_label(name))
        seen_names.add(name)
        yield from _claim_source(claim, where)


def _claim_source(claim: JsonObject, path: str) -> FieldErrors:
    keys = ("resourceClaimName", "resourceClaimTemplateName")
    set_keys = [key for key in keys if claim.get(key) is not None]
    shown: JsonObject = {
        "Name": text(claim, "name"),
        "ResourceClaimName": claim.get(keys[0]),
        "ResourceClaimTemplateName": claim.get(keys[1]),
    }
    if len(set_keys) == 2:
        words = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield invalid(path, shown, words)
    if not set_keys:
        yield invalid(path, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for key in set_keys:
        yield from complaints(f"{path}.{key}", text(claim, key), names.dns_subdomain(text(claim, key)))


def _gates(spec: JsonObject, path: str) -> FieldErrors:
    for index, gate in enumerate(mappings(spec, "readinessGates")):
        kind = text(gate, "conditionType")
        where = f"{path}.readinessGates[{index}].conditionType"
        yield from complaints(where, kind, names.qualified_name(kind))
    seen_names: set[str] = set()
    for index, gate in enumerate(mappings(spec, "schedulingGates")):
        where, name = f"{path}.schedulingGates[{index}]", text(gate, "name")
        yield from complaints(where, name, names.qualified_name(name))
        if name in seen_names:
            yield duplicate(where, name)
        seen_names.add(name)


def _names(spec: JsonObject, path: str) -> FieldErrors:
    for key in ("serviceAccountName", "nodeName"):
        if name := text(spec, key):
            yield from complaints(f"{path}.{key}", name, names.dns_subdomain(name))
    if spec.get("activeDeadlineSeconds") is not None:
        deadline = number(spec, "activeDeadlineSeconds")
        yield from complaints(f"{path}.activeDeadlineSeconds", deadline, in_range(deadline, 1, INT32))
    for key in ("hostname", "subdomain"):
        if name := text(spec, key):
            yield from complaints(f"{path}.{key}", name, names.dns_label(name))


def _classes(spec: JsonObject, path: str) -> FieldErrors:
    if name := text(spec, "priorityClassName"):
        yield from complaints(f"{path}.priorityClassName", name, names.dns_subdomain(name))
    if spec.get("runtimeClassName") is not None:
        name = text(spec, "runtimeClassName")
        yield from complaints(f"{path}.runtimeClassName", name, names.dns_subdomain(name))
    if spec.get("preemptionPolicy") is not None:
        yield from one_of(text(spec, "preemptionPolicy"), PREEMPTION, f"{path}.preemptionPolicy")
    if overhead := mapping(spec, "overhead"):
        yield from requirements({"limits": overhead}, f"{path}.overhead")


def pod_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    """A changed pod, but for its metadata: only images, a deadline and more tolerations may change."""
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    yield from _whole(new)
    for key in ("containers", "initContainers"):
        yield from image_changes_only(mappings(spec, key), mappings(before, key), f"spec.{key}")
        if len(items(spec, key)) != len(items(before, key)):
            return
    yield from (late := list(_deadline(spec, before)))
    if any(error.value is not None for error in late):
        return
    yield from _added_tolerations(mappings(spec, "tolerations"), mappings(before, "tolerations"))
    yield from _removed_gates(spec, before)
    if items(before, "schedulingGates"):
        yield from narrowed_selector(spec, before)
        yield from narrowed_affinity(spec, before)
    munged = _without_changeable(spec, before)
    if changed_paths(munged, before, "spec"):
        shown = difference(pod_spec_in_go(before), pod_spec_in_go(munged))
        yield forbidden("spec", f"{_CHANGEABLE}\n{shown}")


def _deadline(spec: JsonObject, before: JsonObject) -> FieldErrors:
    deadline, previous = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    path = "spec.activeDeadlineSeconds"
    if not isinstance(deadline, int):
        if previous is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
    elif isinstance(previous, int) and previous < deadline:
        yield invalid(path, deadline, "must be less than or equal to previous value")


def _added_tolerations(new: list[JsonObject], old: list[JsonObject]) -> FieldErrors:
    def without_seconds(toleration: JsonObject) -> JsonObject:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    new_without_seconds = [without_seconds(toleration) for toleration in new]
    if any(without_seconds(toleration) not in new_without_seconds for toleration in old):
        words = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden("spec.tolerations", words)


def _removed_gates(spec: JsonObject, before: JsonObject) -> FieldErrors:
    names_before = {text(gate, "name") for gate in mappings(before, "schedulingGates")}
    for index, gate in enumerate(mappings(spec, "schedulingGates")):
        if (name := text(gate, "name")) not in names_before:
            words = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", words)


def _without_changeable(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The new spec with everything that may change as it was."""
    munged = copy_json(spec)
    assert isinstance(munged, dict)
    for key in ("containers", "initContainers"):
        for container, previous in zip(mappings(munged, key), mappings(before, key), strict=True):
            container["image"] = text(previous, "image")
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged.pop(key, None)
        if key in before:
            munged[key] = before[key]
    if number(before, _GRACE) < 0 and munged.get(_GRACE) == 1:
        munged[_GRACE] = before[_GRACE]
    if items(before, "schedulingGates"):
        # A pod that waits behind a gate may still be narrowed down to fewer nodes.
        munged.pop("nodeSelector", None)
        if "nodeSelector" in before:
            munged["nodeSelector"] = before["nodeSelector"]
        _keep_node_affinity(munged, before)
    return munged


def _keep_node_affinity(munged: JsonObject, before: JsonObject) -> None:
    affinity: JsonObject = {
        key: value for key, value in mapping(munged, "affinity").items() if key != "nodeAffinity"
    }
    if (node_affinity := at(before, "affinity", "nodeAffinity")) is not None:
        affinity["nodeAffinity"] = node_affinity
    if affinity or isinstance(before.get("affinity"), dict):
        munged["affinity"] = affinity
    else:
        munged.pop("affinity", None)


def binding(obj: JsonObject) -> FieldErrors:
    """A Binding: the node that a pod is given to."""
    kind = text(obj, "target", "kind")
    if kind not in ("", "Node"):
        yield unsupported("target.kind", kind, ("Node", "<empty>"))
    if not text(obj, "target", "name"):
        yield required("target.name")
