"""Containers of a pod: names, images, ports, environment, mounts, probes and hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import (
    PROTOCOLS,
    PULL_POLICIES,
    FieldErrors,
    nonnegative,
    one_of,
    one_of_if_set,
)
from tonnage.decide.kubernetes.api.validation.pods.environment import environment, environment_from
from tonnage.decide.kubernetes.api.validation.pods.mounts import mounts
from tonnage.decide.kubernetes.api.validation.pods.security_contexts import container_security
from tonnage.decide.kubernetes.api.validation.resources import requirements
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, mappings, number, text

_MESSAGES: Final = ("File", "FallbackToLogsOnError")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_OPERATORS: Final = ("In", "NotIn")
_RULES_NEED: Final = "must specify restartPolicy when restart rules are used"
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"


@dataclass(frozen=True, slots=True)
class ContainerPodFacts:
    """What a container's rules need to know of its pod."""

    volumes: Mapping[str, JsonObject]
    claims: tuple[str, ...]
    restart_policy: str
    grace_period_s: int | None
    host_users: bool


def containers(entries: list[JsonObject], path: str, pod: ContainerPodFacts) -> FieldErrors:
    """The regular containers; there must be one."""
    if not entries:
        yield required(path)
    seen_names: set[str] = set()
    for index, container in enumerate(entries):
        where, name = f"{path}[{index}]", text(container, "name")
        yield from container_rules(container, where, pod)
        if name in seen_names:
            yield duplicate(f"{where}.name", name)
        seen_names.add(name)
        yield from _life(container, where, pod)
        yield from _restarts(container, where)
    yield from host_port_conflicts(entries, path)


def init_containers(
    entries: list[JsonObject], regular: list[JsonObject], path: str, pod: ContainerPodFacts
) -> FieldErrors:
    """The init containers; those that restart always are sidecars and may have probes."""
    seen_names = {text(container, "name") for container in regular}
    for index, container in enumerate(entries):
        where, name = f"{path}[{index}]", text(container, "name")
        yield from container_rules(container, where, pod)
        yield from _init_restarts(container, where)
        if name in seen_names:
            yield duplicate(f"{where}.name", name)
        elif name:
            seen_names.add(name)
        yield from host_port_conflicts([container], path)
        if text(container, "restartPolicy") == "Always":
            yield from _life(container, where, pod)
            continue
        for key in ("lifecycle", *_PROBES):
            if container.get(key) is not None:
                yield forbidden(f"{where}.{key}", _ONLY_SIDECARS)


def _init_restarts(container: JsonObject, path: str) -> FieldErrors:
    rules = items(container, "restartPolicyRules")
    if container.get("restartPolicy") is None:
        if rules:
            yield required(f"{path}.restartPolicy", _RULES_NEED)
    elif text(container, "restartPolicy") != "Always":
        yield from _restarts(container, path)
    elif rules:
        words = "restartPolicyRules are not allowed for init containers with restart policy Always"
        yield forbidden(f"{path}.restartPolicyRules", words)


def _restarts(container: JsonObject, path: str) -> FieldErrors:
    """A container's own policy for its restarts, and its rules."""
    policy, rules = container.get("restartPolicy"), mappings(container, "restartPolicyRules")
    yield from one_of_if_set(container, "restartPolicy", _RESTARTS, path)
    if rules and policy is None:
        yield required(f"{path}.restartPolicy", _RULES_NEED)
    if len(rules) > _MOST_RULES:
        yield too_long(f"{path}.restartPolicyRules", _MOST_RULES)
    for index, rule in enumerate(rules):
        where, codes = f"{path}.restartPolicyRules[{index}]", mapping(rule, "exitCodes")
        if text(rule, "action") != "Restart":
            yield unsupported(f"{where}.action", text(rule, "action"), ("Restart",))
        if rule.get("exitCodes") is None:
            yield required(f"{where}.exitCodes", "must be specified")
            continue
        if text(codes, "operator") not in _OPERATORS:
            yield unsupported(f"{where}.exitCodes.operator", text(codes, "operator"), _OPERATORS)
        if len(items(codes, "values")) > _MOST_CODES:
            yield too_long(f"{where}.exitCodes.values", _MOST_CODES)


def image_rules(container: JsonObject, path: str) -> FieldErrors:
    """What only a pod's own containers must keep to, not those of a template."""
    image = text(container, "image")
    if image.strip() != image:
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def container_rules(container: JsonObject, path: str, pod: ContainerPodFacts) -> FieldErrors:
    name = text(container, "name")
    if not name:
        yield required(f"{path}.name")
    else:
        yield from complaints(f"{path}.name", name, names.dns_label(name))
    if not text(container, "image"):
        yield required(f"{path}.image")
    yield from one_of(
        text(container, "terminationMessagePolicy"), _MESSAGES, f"{path}.terminationMessagePolicy"
    )
    yield from _ports(mappings(container, "ports"), f"{path}.ports")
    yield from environment(mappings(container, "env"), f"{path}.env")
    yield from environment_from(mappings(container, "envFrom"), f"{path}.envFrom")
    yield from mounts(container, path, pod.volumes)
    yield from one_of(text(container, "imagePullPolicy"), PULL_POLICIES, f"{path}.imagePullPolicy")
    yield from requirements(mapping(container, "resources"), f"{path}.resources", pod.claims)
    yield from _resize_policy(mappings(container, "resizePolicy"), f"{path}.resizePolicy", pod.restart_policy)
    context = mapping(container, "securityContext")
    yield from container_security(context, f"{path}.securityContext", host_users=pod.host_users)


def _ports(ports: list[JsonObject], path: str) -> FieldErrors:
    seen_names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{path}[{index}]", text(port, "name")
        if name:
            wrong = names.port_name(name)
            yield from complaints(f"{where}.name", name, wrong)
            if not wrong and name in seen_names:
                yield duplicate(f"{where}.name", name)
            seen_names.add(name)
        container_port, host_port = number(port, "containerPort"), number(port, "hostPort")
        if not container_port:
            yield required(f"{where}.containerPort")
        else:
            yield from complaints(f"{where}.containerPort", container_port, names.port_number(container_port))
        if host_port:
            yield from complaints(f"{where}.hostPort", host_port, names.port_number(host_port))
        yield from one_of(text(port, "protocol"), PROTOCOLS, f"{where}.protocol")


def host_port_conflicts(entries: list[JsonObject], path: str) -> FieldErrors:
    """One port of the host, given away twice within a pod."""
    host_ports: set[str] = set()
    for index, container in enumerate(entries):
        for position, port in enumerate(mappings(container, "ports")):
            host_port = number(port, "hostPort")
            if not host_port:
                continue
            shown = f"{text(port, 'protocol')}/{text(port, 'hostIP')}/{host_port}"
            if shown in host_ports:
                yield duplicate(f"{path}[{index}].ports[{position}].hostPort", shown)
            host_ports.add(shown)


def _resize_policy(policies: list[JsonObject], path: str, restart_policy: str) -> FieldErrors:
    seen_names: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = text(policy, "resourceName"), text(policy, "restartPolicy")
        if name in seen_names:
            yield duplicate(f"{path}[{index}]", name)
        seen_names.add(name)
        yield from one_of(name, ("cpu", "memory"), path)
        yield from one_of(restart, ("NotRequired", "RestartContainer"), path)
        if restart_policy == "Never" and restart != "NotRequired":
            yield invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'")


def _life(container: JsonObject, path: str, pod: ContainerPodFacts) -> FieldErrors:
    lifecycle = mapping(container, "lifecycle")
    for key in ("postStart", "preStop"):
        if lifecycle.get(key) is not None:
            yield from _handler(mapping(lifecycle, key), f"{path}.lifecycle.{key}", pod)
    for key in _PROBES:
        if container.get(key) is not None:
            yield from _probe(mapping(container, key), key, f"{path}.{key}", pod)


def _probe(probe: JsonObject, kind: str, path: str, pod: ContainerPodFacts) -> FieldErrors:
    yield from _handler(probe, path, pod)
    for key in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        yield from nonnegative(probe, key, path)
    grace = probe.get("terminationGracePeriodSeconds")
    where = f"{path}.terminationGracePeriodSeconds"
    if isinstance(grace, int) and grace <= 0:
        yield invalid(where, grace, "must be greater than 0")
    if kind == "readinessProbe":
        if grace is not None:
            yield invalid(where, grace, "must not be set for readinessProbes")
    elif (threshold := number(probe, "successThreshold")) != 1:
        yield invalid(f"{path}.successThreshold", threshold, "must be 1")


def _handler(handler: JsonObject, path: str, pod: ContainerPodFacts) -> FieldErrors:
    actions = [key for key in _HANDLERS if handler.get(key) is not None]
    if not actions:
        yield required(path, "must specify a handler type")
        return
    first = actions[0]
    yield from _action(first, mapping(handler, first), f"{path}.{first}", pod)
    for key in actions[1:]:
        yield forbidden(f"{path}.{key}", "may not specify more than 1 handler type")


def _action(kind: str, action: JsonObject, path: str, pod: ContainerPodFacts) -> FieldErrors:
    match kind:
        case "exec":
            if not items(action, "command"):
                yield required(f"{path}.command")
        case "httpGet":
            if not text(action, "path"):
                yield required(f"{path}.path")
            yield from port_or_name(action.get("port"), f"{path}.port")
            if (scheme := text(action, "scheme")) not in ("HTTP", "HTTPS"):
                yield unsupported(f"{path}.scheme", scheme, ("HTTP", "HTTPS"))
            for header in mappings(action, "httpHeaders"):
                name = text(header, "name")
                yield from complaints(f"{path}.httpHeaders", name, names.header_name(name))
        case "tcpSocket" | "grpc":
            yield from port_or_name(action.get("port"), f"{path}.port")
        case _:
            seconds, grace = number(action, "seconds"), pod.grace_period_s
            if grace is not None and not 0 <= seconds <= grace:
                words = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                yield invalid(path, seconds, words)


def port_or_name(port: JsonValue, path: str) -> FieldErrors:
    """A port's number, or the name of a container's port."""
    if isinstance(port, str):
        yield from complaints(path, port, names.port_name(port))
    else:
        value = port if isinstance(port, int) else 0
        yield from complaints(path, value, names.port_number(value))


def image_changes_only(new: list[JsonObject], old: list[JsonObject], path: str) -> FieldErrors:
    """Containers of an update to a pod: the same number of them, and every one with an image."""
    if len(new) != len(old):
        yield forbidden(path, "pod updates may not add or remove containers")
        return
    for index, container in enumerate(new):
        image = text(container, "image")
        if not image:
            yield required(f"{path}[{index}].image")
        elif image.strip() != image:
            yield invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace")
