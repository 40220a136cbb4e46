"""Pod Security: namespaces' labels decide which pods are refused and of which clients are warned.

Source: k8s.io/pod-security-admission (admission), plugin/pkg/admission/security/podsecurity (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.decide.kubernetes.admission.pod_security import (
    PREFIX,
    Insecure,
    PodSecurityLevel,
    PodSecurityPolicy,
    against,
    policy_of,
)
from tonnage.decide.kubernetes.api.pod_containers import every_container
from tonnage.decide.kubernetes.api.problems import InvalidError, invalid, invalid_status
from tonnage.decide.kubernetes.api.selectors import labels_of
from tonnage.decide.kubernetes.api.strategies.pods import TEMPLATES
from tonnage.model.json import JsonObject
from tonnage.model.json_access import flag, mapping, mappings, text
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import NAMESPACE, POD
from tonnage.twin.apiserver.statuses import forbidden

MINOR: Final = 35
_MOST_PODS: Final = 3000
"""Pods of a namespace that are held against its new level."""
_LOOKED_AT: Final = ("", "ephemeralcontainers")


class PodSecurityPlugin:
    """Asked of pods, of what has a template of pods, and of namespaces."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse what the namespace enforces; warn and note for the audit as it wants."""
        if obj is None or request.subresource not in _LOOKED_AT:
            return
        if request.resource == NAMESPACE:
            self._namespace(request, obj, old)
            return
        path = TEMPLATES.get(request.resource)
        if request.resource != POD and path is None:
            return
        namespace = self._store.get(NAMESPACE, ("", request.namespace))
        policy = policy_of(labels_of(namespace.object if namespace is not None else {}))
        if policy == PodSecurityPolicy():
            return
        if path is not None:
            template = mapping(obj, *path)
            if template:
                _warn_and_audit(request, policy, template)
        elif old is None or _changed(obj, old):
            violation = against(obj, policy.enforce, minor=MINOR)
            request.notes.audit[f"{PREFIX}enforce-policy"] = str(policy.enforce)
            _warn_and_audit(request, policy, obj, refused=violation is not None)
            if violation is not None:
                raise forbidden(POD, text(obj, "metadata", "name"), violation.text)

    def _namespace(self, request: ApiRequest, namespace: JsonObject, old: JsonObject | None) -> None:
        policy = policy_of(labels_of(namespace))
        before = policy_of(labels_of(old)) if old is not None else PodSecurityPolicy()
        name = text(namespace, "metadata", "name")
        if policy.unread and policy.unread != before.unread:
            faults = tuple(
                invalid(f"metadata.labels[{label}]", value, why) for label, value, why in policy.unread
            )
            raise InvalidError(invalid_status(request.served.row, name, faults))
        new, was = policy.enforce, before.enforce
        if old is None or new == was or new.level == "privileged":
            return
        if new.version == was.version and new.strictness <= was.strictness:
            return
        for words in self._misfits(name, new):
            request.notes.warn(words)

    def _misfits(self, namespace: str, demand: PodSecurityLevel) -> Iterator[str]:
        """Warnings of pods that are there already."""
        pods = _one_of_each_owner([stored.object for stored in self._store.list(POD, namespace=namespace)])
        names: dict[str, list[str]] = {}
        for pod in pods[:_MOST_PODS]:
            violation = against(pod, demand, minor=MINOR)
            if violation is not None:
                names.setdefault(_reasons(violation), []).append(text(pod, "metadata", "name"))
        if len(pods) > _MOST_PODS:
            yield (
                f"new PodSecurity enforce level only checked against the first {_MOST_PODS} of {len(pods)} "
                "existing pods"
            )
        if names:
            yield (
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level '
                f'"{demand}"'
            )
        yield from sorted(f"{_counted(violation)}: {why}" for why, violation in names.items())


def _warn_and_audit(
    request: ApiRequest, policy: PodSecurityPolicy, template: JsonObject, *, refused: bool = False
) -> None:
    audited = against(template, policy.audit, minor=MINOR)
    if audited is not None:
        request.notes.audit[f"{PREFIX}audit-violations"] = _would(audited)
    warned = against(template, policy.warn, minor=MINOR)
    if warned is not None and not refused:
        request.notes.warn(_would(warned))


def _would(violation: Insecure) -> str:
    return f'would violate PodSecurity "{violation.policy}": {violation.listed}'


def _reasons(violation: Insecure) -> str:
    return ", ".join(reason for reason, _ in violation.violations)


def _counted(names: list[str]) -> str:
    first, others = min(names), len(names) - 1
    match others:
        case 0:
            return first
        case 1:
            return f"{first} (and 1 other pod)"
        case _:
            return f"{first} (and {others} other pods)"


def _changed(pod: JsonObject, old: JsonObject) -> bool:
    """Whether an update touches what the standards look at: containers, their images."""
    return _looks(pod) != _looks(old)


def _looks(pod: JsonObject) -> list[tuple[str, str, str]]:
    containers = every_container(mapping(pod, "spec"), "")
    return [(where, text(container, "name"), text(container, "image")) for container, where in containers]


def _one_of_each_owner(pods: Iterable[JsonObject]) -> list[JsonObject]:
    """Pods, the first of each controller before its other ones."""
    first: list[JsonObject] = []
    rest: list[JsonObject] = []
    uids: set[str] = set()
    for pod in pods:
        owners = mappings(pod, "metadata", "ownerReferences")
        uid = next((text(owner, "uid") for owner in owners if flag(owner, "controller")), "")
        (rest if uid and uid in uids else first).append(pod)
        uids.add(uid)
    return [*first, *rest]
