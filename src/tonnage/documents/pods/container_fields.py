"""Fields of containers, beside their amounts, that the API server refuses.

A missing image is let pass: what only sketches a pod has none.

Source: k8s.io/kubernetes pkg/apis/core/validation (validateContainers, validateInitContainers), 1.35.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from tonnage.documents.nearest import nearest
from tonnage.documents.pods.placement import FieldPath, PodFault, mapping, mappings, text_of, unsupported
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.name_words import wrong_in_label
from tonnage.model.reasons.pod.admission import ClaimEntryInvalid, PodFieldInvalid

_T = TypeVar("_T")
_PULLS: Final = ("Always", "IfNotPresent", "Never")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_LAST_PORT: Final = 65535
_LONGEST_PORT_NAME: Final = 15


def container_faults(
    spec: JsonObject, amounts: Callable[[FieldPath], Iterable[_T]]
) -> Iterator[PodFault | _T]:
    """All of them, in the server's order. `amounts`: what stands against the amounts of the one at a path."""
    containers, first = [*mappings(spec.get("containers"))], [*mappings(spec.get("initContainers"))]
    if not containers:
        yield field_fault(("containers",), "Required value", "containers is empty", "give it one", ())
    names: set[str] = set()
    for index, container in containers:
        at: FieldPath = ("containers", index)
        yield from _common(container, at, spec, amounts)
        yield from _doubled(container, at, names)
        yield from _restart_policy(container, at)
    yield from _taken_ports(containers, spec)
    for index, container in first:
        at = ("initContainers", index)
        yield from _common(container, at, spec, amounts)
        yield from _restart_policy(container, at)
        yield from _doubled(container, at, names)
        yield from _taken_ports([(index, container)], spec, "initContainers")


def host_network_faults(spec: JsonObject) -> Iterator[PodFault]:
    """On the network of the node a port has one number."""
    if spec.get("hostNetwork") is not True:
        return
    for index, container in mappings(spec.get("containers")):
        for place, port in mappings(container.get("ports")):
            host_port, own = port.get("hostPort"), port.get("containerPort")
            if isinstance(host_port, int) and host_port and host_port != own:
                why = f"Invalid value: {host_port}: must match `containerPort` when `hostNetwork` is true"
                message = (
                    f"on the host's network the container's port {own} cannot be {host_port} of the host"
                )
                path: FieldPath = ("containers", index, "ports", place, "hostPort")
                yield field_fault(path, why, message, "leave it out")


def claim_name_faults(container: JsonObject, at: FieldPath, spec: JsonObject) -> Iterator[PodFault]:
    """`resources.claims`, each of which names an entry of the pod's `resourceClaims`."""
    claim_names = {
        name for _, entry in mappings(spec.get("resourceClaims")) if (name := text_of(entry, "name"))
    }
    seen_keys: set[str] = set()
    for index, claim in mappings(mapping(container.get("resources")).get("claims")):
        name, request = text_of(claim, "name"), text_of(claim, "request")
        path: FieldPath = (*at, "resources", "claims", index)
        key = f"{name}/{request}" if request else name
        if not name:
            yield _claim(path, "Required value", "the claim has no name", "name one of spec.resourceClaims")
            continue
        if (
            name in seen_keys
            or key in seen_keys
            or (not request and any(o.startswith(f"{name}/") for o in seen_keys))
        ):
            message = f"the claim {key[:100]} is named twice"
            yield _claim(path, f"Duplicate value: {json.dumps(key)}", message, "name it once")
        seen_keys.add(key)
        if name not in claim_names:
            listed = ", ".join(sorted(claim_names))
            why = "must be one of the names in pod.spec.resourceClaims"
            why += f": {listed}" if claim_names else " which is empty"
            remedy = f"one of {listed}" if claim_names else "add it to spec.resourceClaims"
            message = f"the pod has no resource claim {name[:100]}"
            yield _claim(path, f"Not found: {json.dumps(name)}: {why}", message, remedy, (*path, "name"))


def _common(
    container: JsonObject, at: FieldPath, spec: JsonObject, amounts: Callable[[FieldPath], Iterable[_T]]
) -> Iterator[PodFault | _T]:
    name = text_of(container, "name")
    if not name:
        yield field_fault((*at, "name"), "Required value", "the container has no name", "give it one", at)
    for why in wrong_in_label(name) if name else ():
        message, remedy = f"a container cannot be named {name[:63]!r}", "use small letters, digits and -"
        yield field_fault((*at, "name"), _invalid(name, why), message, remedy)
    yield from _ports(container, at)
    policy = text_of(container, "imagePullPolicy")
    yield from choice_faults(policy, _PULLS, (*at, "imagePullPolicy"))
    yield from amounts((*at, "resources"))
    yield from claim_name_faults(container, at, spec)


def _ports(container: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    names: set[str] = set()
    for index, port in mappings(container.get("ports")):
        path: FieldPath = (*at, "ports", index)
        name, number = text_of(port, "name"), port.get("containerPort", 0)
        wrong = [*_wrong_in_port_name(name)] if name else []
        for why in wrong:
            message, remedy = (
                f"a port cannot be named {name[:60]!r}",
                "use at most 15 small letters, digits and -",
            )
            yield field_fault((*path, "name"), _invalid(name, why), message, remedy)
        if name and not wrong and name in names:
            message = f"two ports of the container are named {name}"
            yield field_fault((*path, "name"), f"Duplicate value: {json.dumps(name)}", message, "rename one")
        names.add(name)
        if number == 0:
            mark = (*path, "containerPort") if "containerPort" in port else path
            message = "the port has no number"
            yield field_fault((*path, "containerPort"), "Required value", message, "give it one", mark)
        yield from _number(number, (*path, "containerPort"))
        yield from _number(port.get("hostPort", 0), (*path, "hostPort"))
        yield from choice_faults(text_of(port, "protocol"), _PROTOCOLS, (*path, "protocol"))


def _number(number: JsonValue, path: FieldPath) -> Iterator[PodFault]:
    if isinstance(number, int) and number and not 0 < number <= _LAST_PORT:
        why = f"Invalid value: {number}: must be between 1 and {_LAST_PORT}, inclusive"
        yield field_fault(path, why, f"there is no port {number}", f"write one of 1 to {_LAST_PORT}")


def _wrong_in_port_name(name: str) -> Iterator[str]:
    if len(name) > _LONGEST_PORT_NAME:
        yield f"must be no more than {_LONGEST_PORT_NAME} characters"
    if not re.fullmatch("[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def _doubled(container: JsonObject, at: FieldPath, names: set[str]) -> Iterator[PodFault]:
    name = text_of(container, "name")
    if name in names:
        why, message = f"Duplicate value: {json.dumps(name)}", f"two containers are named {name[:63]}"
        yield field_fault((*at, "name"), why, message, "rename one")
    if name:
        names.add(name)


def _restart_policy(container: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    policy = text_of(container, "restartPolicy")
    yield from choice_faults(policy, _RESTARTS, (*at, "restartPolicy"))


def _taken_ports(
    containers: list[tuple[int, JsonObject]], spec: JsonObject, section: str = "containers"
) -> Iterator[PodFault]:
    """The server looks at init containers one by one, and writes of each as if it were the first."""
    host_ports: set[str] = set()
    shared = spec.get("hostNetwork") is True
    for index, container in containers:
        for place, port in mappings(container.get("ports")):
            number = port.get("hostPort") or (port.get("containerPort") if shared else 0)
            if not number:
                continue
            key = f"{text_of(port, 'protocol') or 'TCP'}/{text_of(port, 'hostIP')}/{number}"
            if key in host_ports:
                shown = index if section == "containers" else 0
                mark: FieldPath = (section, index, "ports", place)
                path: FieldPath = (section, shown, "ports", place, "hostPort")
                message = f"the port {number} of the host is asked for twice"
                yield field_fault(
                    path, f"Duplicate value: {json.dumps(key)}", message, "choose another", mark
                )
            host_ports.add(key)


def choice_faults(value: str, choices: tuple[str, ...], path: FieldPath) -> Iterator[PodFault]:
    """A value that is none of a fixed set; empty is not given."""
    if value and value not in choices:
        message = f"{path[-1]} cannot be {value[:60]!r}"
        yield field_fault(path, unsupported(value, choices), message, nearest(value, [*choices]))


def field_fault(path: FieldPath, text: str, message: str, remedy: str, mark: FieldPath = ()) -> PodFault:
    """A field of a pod, of which nothing more special can be said."""
    return PodFault(PodFieldInvalid, path, text, message, remedy, mark)


def _claim(path: FieldPath, text: str, message: str, remedy: str, mark: FieldPath = ()) -> PodFault:
    return PodFault(ClaimEntryInvalid, path, text, message, remedy, mark)


def _invalid(value: str, why: str) -> str:
    return f"Invalid value: {json.dumps(value)}: {why}"
