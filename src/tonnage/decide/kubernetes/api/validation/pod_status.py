"""What a kubelet, or whoever plays one, may say of a pod.

Source: pkg/apis/core/validation (ValidatePodStatusUpdate), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    forbidden,
    internal,
    invalid,
)
from tonnage.decide.kubernetes.api.validation.fields import IMMUTABLE, Found, more_groups, user_or_group
from tonnage.decide.kubernetes.api.validation.network import legacy_address, parsed
from tonnage.decide.kubernetes.api.validation.pod_annotations import annotations_kept
from tonnage.decide.kubernetes.kubelet.restarts import starts_again
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, mapping, mappings, number, text

_OWN_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")
_NO_GENERATION: Final = "must be a non-negative integer"
_STATUSES: Final = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "",
}


def pod_status(new: JsonObject, old: JsonObject) -> Found:
    """The status of a pod, but for its metadata."""
    status, before, spec = mapping(new, "status"), mapping(old, "status"), mapping(old, "spec")
    yield from annotations_kept(new, old)
    yield from _conditions(mappings(status, "conditions"))
    yield from _nominated(status, before, spec)
    if (seen := number(status, "observedGeneration")) < 0:
        yield invalid("status.observedGeneration", seen, _NO_GENERATION)
    if (quality := text(status, "qosClass")) != text(before, "qosClass"):
        yield invalid("status.qosClass", quality, IMMUTABLE)
    for key, part in _STATUSES.items():
        yield from _ended(mappings(status, key), mappings(before, key), spec, f"status.{key}", part)
    yield from _claims(mappings(status, "resourceClaimStatuses"), spec)
    yield from _addresses(status, before, "podIPs")
    if mappings(status, "hostIPs"):
        yield from _host_addresses(status, before)
    for key in _STATUSES:
        yield from _users(mappings(status, key), spec, f"status.{key}")


def _conditions(found: list[JsonObject]) -> Found:
    for index, condition in enumerate(found):
        kind, where = text(condition, "type"), f"status.conditions[{index}]"
        if (seen := number(condition, "observedGeneration")) < 0:
            yield invalid(f"{where}.observedGeneration", seen, _NO_GENERATION)
        if kind not in _OWN_CONDITIONS:
            yield from complaints(f"{where}.Type", kind, names.qualified_name(kind))


def _nominated(status: JsonObject, before: JsonObject, spec: JsonObject) -> Found:
    name, path = text(status, "nominatedNodeName"), "status.nominatedNodeName"
    if not name or name == text(before, "nominatedNodeName"):
        return
    yield from complaints(path, name, names.dns_subdomain(name))
    if text(spec, "nodeName"):
        yield forbidden(path, "may not be set on pods that are already bound to a node")


def _ended(now: list[JsonObject], before: list[JsonObject], spec: JsonObject, path: str, part: str) -> Found:
    """Containers that have ended stay so, unless their policy wants them again; of ephemeral ones none."""
    told = {text(one, "name"): one for one in reversed(now)}
    known = {text(one, "name"): one for one in reversed(mappings(spec, part) if part else [])}
    for index, was in enumerate(before):
        end, name = at(was, "state", "terminated"), text(was, "name")
        if end is None or name not in told or at(told[name], "state", "terminated") is not None:
            continue
        if name not in known or not _starts_again(known[name], spec, number(end, "exitCode")):
            yield forbidden(f"{path}[{index}].state", "may not be transitioned to non-terminated state")


def _starts_again(container: JsonObject, spec: JsonObject, code: int) -> bool:
    rules = mappings(container, "restartPolicyRules")
    return starts_again(text(container, "restartPolicy"), rules, text(spec, "restartPolicy"), code)


def _claims(found: list[JsonObject], spec: JsonObject) -> Found:
    known = {text(one, "name") for one in mappings(spec, "resourceClaims")}
    seen: set[str] = set()
    for index, status in enumerate(found):
        name, where = text(status, "name"), f"status.resourceClaimStatuses[{index}].name"
        if name not in known:
            yield invalid(where, name, "must match the name of an entry in `spec.resourceClaims`")
        if name in seen:
            yield duplicate(where, name)
        seen.add(name)
        if status.get("resourceClaimName") is not None:
            claim = text(status, "resourceClaimName")
            yield from complaints(where, claim, names.dns_subdomain(claim))


def _host_addresses(status: JsonObject, before: JsonObject) -> Found:
    first = text(mappings(status, "hostIPs")[0], "ip")
    if first != text(status, "hostIP"):
        yield invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`")
    yield from _addresses(status, before, "hostIPs")


def _addresses(status: JsonObject, before: JsonObject, key: str) -> Found:
    """Addresses, of each family one; those that were there may be anything."""
    path = f"status.{key}"
    found = [text(one, "ip") for one in mappings(status, key)]
    known = {text(one, "ip") for one in mappings(before, key)}
    for index, address in enumerate(found):
        if address not in known:
            yield from legacy_address(address, f"{path}[{index}]")
    if len(found) < 2:
        return
    bad = next((index for index, address in enumerate(found) if parsed(address) is None), None)
    if bad is not None:
        why = f"failed to check for dual stack with error:invalid IP[{bad}]: {found[bad]}"
        yield internal(path, why)
    families = {one.version for one in map(parsed, found) if one is not None}
    if bad is not None or len(families) < 2 or len(found) > 2:
        shown: list[JsonValue] = [{"IP": address} for address in found]
        yield invalid(path, shown, "may specify no more than one IP for each IP family")


def _users(found: list[JsonObject], spec: JsonObject, path: str) -> Found:
    """As whom containers run."""
    for index, status in enumerate(found):
        if not isinstance(at(status, "user", "linux"), dict):
            continue
        user, where = mapping(status, "user", "linux"), f"{path}[{index}].user.linux"
        if text(spec, "os", "name") == "windows":
            yield forbidden(where, "cannot be set for a windows pod")
            continue
        for key in ("uid", "gid"):
            yield from user_or_group(user, key, where)
        yield from more_groups(user, where)
