"""Warnings about pods and what makes pods: labels of old, twice the same, amounts that are no whole bytes.

Source: pkg/api/pod/warnings.go, pkg/api/node/util.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.pod_containers import every_container
from tonnage.decide.kubernetes.api.validation.pods.security_contexts import (
    APP_ARMOR_OF,
    SECCOMP_OF,
    SECCOMP_OF_POD,
)
from tonnage.decide.kubernetes.api.warnings.network import odd_address
from tonnage.decide.kubernetes.api.warnings.paths import overlapping_paths
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, mapping, mappings, number, text, texts
from tonnage.model.kubernetes.quantity import canonical_quantity, parse_quantity
from tonnage.model.kubernetes.well_known import PREFERRED, REQUIRED

_OLD_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_SYSCTLS: Final = 'non-functional in v1.11+; use the "sysctls" field instead'
_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": _SYSCTLS,
    "security.alpha.kubernetes.io/unsafe-sysctls": _SYSCTLS,
}
OLD_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SPELT: Final = {"storageos": "storageOS"}
_FIELD: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_MATCHES_NOTHING: Final = "a null labelSelector results in matching no pod"


def pod(obj: JsonObject, old: JsonObject | None) -> Iterator[str]:
    """A new Pod."""
    if old is None:
        yield from host_name(obj, "the Pod's hostname")
        yield from described_pod(obj, "")


def host_name(obj: JsonObject, use: str) -> Iterator[str]:
    """A name that pods' host names are made of."""
    name = text(obj, "metadata", "name")
    if wrong := names.dns_label(name):
        risk = "which can result in surprising behavior; a DNS label is recommended"
        yield f"metadata.name: this is used in {use}, {risk}: [{' '.join(wrong)}]"


def described_pod(described: JsonObject, path: str) -> Iterator[str]:
    """A Pod (without a path) or a template of pods."""
    head = f"{path}." if path else ""
    spec, where = mapping(described, "spec"), f"{head}spec"
    annotations = mapping(described, "metadata", "annotations")
    yield from _placing(spec, where)
    for key, words in _OLD_ANNOTATIONS.items():
        if key in annotations:
            yield f"{head}metadata.annotations[{key}]: {words}"
    yield from _volumes(spec, where)
    yield from _twice(spec, where)
    for key, shown in mapping(spec, "overhead").items():
        yield from whole_bytes(key, shown, f"{where}.overhead")
    if SECCOMP_OF_POD in annotations and at(spec, "securityContext", "seccompProfile") is None:
        yield f"{head}metadata.annotations[{SECCOMP_OF_POD}]: {_FIELD}"
    containers = list(every_container(spec, where))
    for container, place in containers:
        yield from _profiles(container, annotations, head)
        yield from _container(container, place)
    yield from _ports(containers)
    yield from _port_names(containers)
    if number(spec, "terminationGracePeriodSeconds") < 0:
        words = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{where}.terminationGracePeriodSeconds: {words}"
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(mapping(spec, "affinity", kind), f"{where}.affinity.{kind}")
    yield from _host_addresses(spec, where)


def _placing(spec: JsonObject, where: str) -> Iterator[str]:
    """By which labels nodes are chosen."""
    for key in mapping(spec, "nodeSelector"):
        yield from old_label(key, f"{where}.nodeSelector[{key}]")
    yield from _node_affinity(mapping(spec, "affinity", "nodeAffinity"), f"{where}.affinity.nodeAffinity")
    for index, spread in enumerate(mappings(spec, "topologySpreadConstraints")):
        place, key = f"{where}.topologySpreadConstraints[{index}]", text(spread, "topologyKey")
        if key in _OLD_LABELS:
            yield f"{place}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if spread.get("labelSelector") is None:
            yield f"{place}.labelSelector: {_MATCHES_NOTHING}"


def _host_addresses(spec: JsonObject, where: str) -> Iterator[str]:
    for index, shown in enumerate(texts(spec, "dnsConfig", "nameservers")):
        yield from odd_address(shown, f"{where}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(mappings(spec, "hostAliases")):
        yield from odd_address(text(alias, "ip"), f"{where}.hostAliases[{index}].ip")


def node_terms(terms: list[JsonObject], path: str) -> Iterator[str]:
    """Old labels by which nodes are chosen."""
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}[{index}]", values=False)


def _node_term(term: JsonObject, path: str, *, values: bool) -> Iterator[str]:
    for place, expression in enumerate(mappings(term, "matchExpressions")):
        key, where = text(expression, "key"), f"{path}.matchExpressions[{place}]"
        if key in _OLD_LABELS:
            yield f"{where}.key: {key} is {_OLD_LABELS[key]}"
        for position, value in enumerate(texts(expression, "values") if values else ()):
            for wrong in names.label_value(value):
                yield f"{where}.values[{position}]: {value} is invalid, {wrong}"


def old_label(key: str, path: str) -> Iterator[str]:
    """A label that nodes had once."""
    if key in _OLD_LABELS:
        yield f"{path}: {_OLD_LABELS[key]}"


def _node_affinity(affinity: JsonObject, path: str) -> Iterator[str]:
    if not affinity:
        return
    yield from node_terms(
        mappings(affinity, REQUIRED, "nodeSelectorTerms"), f"{path}.{REQUIRED}.nodeSelectorTerms"
    )
    for index, term in enumerate(mappings(affinity, PREFERRED)):
        where = f"{path}.{PREFERRED}[{index}].preference"
        yield from _node_term(mapping(term, "preference"), where, values=True)


def _pod_affinity(affinity: JsonObject, path: str) -> Iterator[str]:
    for index, term in enumerate(mappings(affinity, REQUIRED)):
        if term.get("labelSelector") is None:
            yield f"{path}.{REQUIRED}[{index}].labelSelector: {_MATCHES_NOTHING}"
    for index, term in enumerate(mappings(affinity, PREFERRED)):
        if at(term, "podAffinityTerm", "labelSelector") is None:
            yield f"{path}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {_MATCHES_NOTHING}"


def _volumes(spec: JsonObject, where: str) -> Iterator[str]:
    volumes = mappings(spec, "volumes")
    for index, volume in enumerate(volumes):
        for key in volume.keys() & OLD_VOLUMES.keys():
            yield f"{where}.volumes[{index}].{_SPELT.get(key, key)}: {OLD_VOLUMES[key]}"
        template = mapping(volume, "ephemeral", "volumeClaimTemplate")
        if template:
            path = f"{where}.volumes[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from claimed_bytes(mapping(template, "spec"), path)
    yield from overlapping_paths(volumes)


def claimed_bytes(spec: JsonObject, path: str) -> Iterator[str]:
    """How much a claim asks for."""
    for section in ("requests", "limits"):
        for key, shown in mapping(spec, "resources", section).items():
            if key == "storage":
                yield from _whole(shown, f"{path}.resources.{section}[{key}]")


def whole_bytes(key: str, shown: JsonValue, path: str) -> Iterator[str]:
    """An amount of memory or of a node's disk."""
    if key in ("memory", "ephemeral-storage"):
        yield from _whole(shown, f"{path}[{key}]")


def _whole(shown: JsonValue, path: str) -> Iterator[str]:
    written = str(shown)
    # Most amounts end in a unit of bytes, which is whole by itself.
    if written.isdigit() or (written.endswith("i") and "." not in written):
        return
    if parse_quantity(written).denominator != 1:
        yield f'{path}: fractional byte value "{canonical_quantity(written)}" is invalid, must be an integer'


def _twice(spec: JsonObject, where: str) -> Iterator[str]:
    for key, field in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen_values: set[str] = set()
        values = [text(entry, field) for entry in mappings(spec, key)]
        for index, value in enumerate(values):
            if value in seen_values:
                yield f'{where}.{key}[{index}].{field}: duplicate {field} "{value}"'
            seen_values.add(value)
        for index, value in enumerate(values):
            if not value and field == "name":
                yield f'{where}.{key}[{index}].name: invalid empty name ""'


def _profiles(container: JsonObject, annotations: JsonObject, head: str) -> Iterator[str]:
    """Annotations of old that name what a container may do."""
    if not annotations:
        return
    name, context = text(container, "name"), mapping(container, "securityContext")
    if SECCOMP_OF + name in annotations and context.get("seccompProfile") is None:
        yield f"{head}metadata.annotations[{SECCOMP_OF}{name}]: {_FIELD}"
    if head and APP_ARMOR_OF + name in annotations and not context.get("appArmorProfile"):
        words = 'deprecated since v1.30; use the "appArmorProfile" field instead'
        yield f"{head}metadata.annotations[{APP_ARMOR_OF}{name}]: {words}"


def _container(container: JsonObject, where: str) -> Iterator[str]:
    resources = mapping(container, "resources")
    for resource in ("memory", "ephemeral-storage"):
        for section in ("limits", "requests"):
            if (shown := at(resources, section, resource)) is not None:
                yield from whole_bytes(resource, shown, f"{where}.resources.{section}")
    seen_names: set[str] = set()
    for index, variable in enumerate(mappings(container, "env")):
        name, value = text(variable, "name"), text(variable, "value")
        again = f"$({name})"
        if name in seen_names and (
            variable.get("valueFrom") is not None or value == again or again not in value
        ):
            words = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{where}.env[{index}]: {words}"
        seen_names.add(name)


def _ports(containers: list[tuple[JsonObject, str]]) -> Iterator[str]:
    """Ports of all containers, which are one host."""
    by_number: dict[tuple[JsonValue, JsonValue], list[tuple[JsonObject, str]]] = {}
    for container, path in containers:
        for index, port in enumerate(mappings(container, "ports")):
            where = f"{path}.ports[{index}]"
            if text(port, "hostIP") and not number(port, "hostPort"):
                yield f"{where}: hostIP set without hostPort: {_shown_port(port)}"
            others = by_number.setdefault((port.get("containerPort"), port.get("protocol")), [])
            for other, there in others:
                if how := _clash(port, other):
                    yield f"{where}: {how} port definition with {there}"
            others.append((port, where))


def _shown_port(port: JsonObject) -> str:
    fields = (("Name", "name"), ("HostPort", "hostPort"), ("ContainerPort", "containerPort"))
    shown = [f"{title}:{port.get(key) or (0 if 'Port' in title else '')}" for title, key in fields]
    return (
        "{" + " ".join([*shown, f"Protocol:{text(port, 'protocol')}", f"HostIP:{text(port, 'hostIP')}"]) + "}"
    )


def _clash(port: JsonObject, other: JsonObject) -> str:
    first, two = (number(entry, "hostPort") for entry in (port, other))
    here, there = (text(entry, "hostIP") for entry in (port, other))
    if first == two and here == there:
        return "duplicate"
    if not first or not two:
        return "overlapping"
    return "dangerously ambiguous" if first == two and bool(here) != bool(there) else ""


def _port_names(containers: list[tuple[JsonObject, str]]) -> Iterator[str]:
    places: dict[str, str] = {}
    for container, path in containers:
        for index, port in enumerate(mappings(container, "ports")):
            name, where = text(port, "name"), f"{path}.ports[{index}]"
            if not name:
                continue
            if other := places.get(name):
                use = f"services and probes that select ports by name will use {other}"
                yield f'{where}: duplicate port name "{name}" with {other}, {use}'
            places.setdefault(name, where)


def deprecated_volumes(spec: JsonObject, path: str) -> Iterator[str]:
    """Sources of a PersistentVolume that nothing serves any more."""
    for key in ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"):
        if spec.get(key) is not None:
            yield f"{path}.{_SPELT.get(key, key)}: {OLD_VOLUMES[key]}"
