"""ADM-9: quota keys that are accepted and never enforced, refused, or leave a gap; LimitRanges.

Source: k8s.io/kubernetes pkg/apis/core/validation (ValidateResourceQuotaResourceName, ValidateLimitRange),
pkg/quota/v1/evaluator/core/pods.go (MatchingResources), 1.36.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.diagnose.lint.finding import Draft, RenameKey
from tonnage.diagnose.lint.manifest_objects import ManifestObject, mapping, mappings
from tonnage.diagnose.lint.resource_names import name_drafts
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.reader import Path, field_path
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.names import GPU, MIG_PREFIX, SHARED_SUFFIX, is_label_key
from tonnage.model.reasons.lint.manifests import (
    LimitRangeGivesDevices,
    LimitRangeInvalid,
    QuantityUnreadable,
    QuotaKeyInvalid,
    QuotaLeavesGap,
)
from tonnage.model.reasons.pod.admission import QuantityNegative, ResourceNotInteger
from tonnage.model.reasons.pod.quota import QuotaKeyWithoutEffect
from tonnage.model.severity import Severity

_STANDARD: Final = frozenset({
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods",
    "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas",
    "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_WHOLE: Final = _STANDARD - {key for key in _STANDARD if key.endswith(("cpu", "memory", "storage"))}
"""Counts of objects."""
_HAMI: Final = re.compile(r"limits\.nvidia\.com/(gpumem|gpucores|gpumem-percentage)")
_COUNTED: Final = ("requests.", "count/")
_OF_DRA: Final = ("deviceclass.resource.k8s.io/", "requests.deviceclass.resource.kubernetes.io/")
_STORAGE: Final = ".storageclass.storage.k8s.io/"


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on a ResourceQuota or a LimitRange."""
    if manifest.api_version != "v1":
        return
    if manifest.kind == "ResourceQuota":
        yield from _quota(manifest, inputs)
    elif manifest.kind == "LimitRange":
        types: set[str] = set()
        for index, limit in mappings(mapping(manifest.value.get("spec")).get("limits")):
            at: Path = (*manifest.path, "spec", "limits", index)
            kind = limit.get("type")
            if not isinstance(kind, str) or not kind:
                yield _invalid(at, "a limit needs a type", "write type: Container")
            elif kind in types:
                message = f"type {kind[:60]} has two limits"
                yield _invalid((*at, "type"), message, "merge them into one")
            types.add(str(kind))
            yield from _limit(limit, at, manifest)


def _quota(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    hard = mapping(mapping(manifest.value.get("spec")).get("hard"))
    at: Path = (*manifest.path, "spec", "hard")
    hami = any(_HAMI.fullmatch(key) for key in hard)
    for key, value in hard.items():
        if "/" not in key:
            yield from _standard(key, (*at, key))
        elif not is_label_key(key):
            message, remedy = f"{key[:100]} is not a qualified name", "write domain/name"
            yield Draft(QuotaKeyInvalid(message=message, remedy=remedy, key=key), (*at, key), on_key=True)
        elif not _is_counted(key) and not hami:
            yield _without_effect(key, hard, (*at, key), manifest)
        if key.startswith("requests."):
            yield from _name_drafts(key.removeprefix("requests."), (*at, key))
        yield from _whole(key, value, (*at, key), manifest)
    yield from _gap(hard, (*at, f"requests.{GPU}"), manifest, inputs)


def _standard(key: str, place: Path) -> Iterator[Draft]:
    if key in _STANDARD or key.startswith(("hugepages-", "requests.hugepages-")):
        return
    bare = re.sub(r"^(requests|limits)\.", "", key)
    remedy = f"write requests.{GPU}" if "gpu" in bare.lower() else nearest(key, sorted(_STANDARD))
    why = "the API server refuses it: must be a standard resource for quota"
    message = f"quotas do not count {key[:100]}"
    yield Draft(QuotaKeyInvalid(message=message, remedy=remedy, key=key), place, why, on_key=True)


def _is_counted(key: str) -> bool:
    return key.startswith((*_COUNTED, "requests.")) or any(part in key for part in (*_OF_DRA, _STORAGE))


def _without_effect(key: str, hard: JsonObject, place: Path, manifest: ManifestObject) -> Draft:
    bare = key.removeprefix("limits.")
    right = f"requests.{bare}"
    change = RenameKey(place, right) if right not in hard else None
    reason = QuotaKeyWithoutEffect(
        subject=manifest.subject,
        message=f"Kubernetes accepts {key[:100]} and never enforces it",
        remedy=f"write {right[:100]}" if change else f"remove it: {right[:100]} exists too",
        quota=manifest.name,
        key=key,
        hard=str(hard[key]),
    )
    return Draft(
        reason,
        place,
        "for devices, quotas count only requests",
        change,
        on_key=True,
    )


def _name_drafts(name: str, place: Path) -> Iterator[Draft]:
    """A resource that cannot exist; standard ones are none of this rule's."""
    if "/" in name and not any(part in name for part in _OF_DRA):
        yield from name_drafts(name, place)


def _whole(key: str, value: JsonValue, place: Path, manifest: ManifestObject) -> Iterator[Draft]:
    amount = _amount(value)
    if amount is None:
        yield _unreadable(key, value, place)
    elif amount < 0:
        negative = QuantityNegative(
            subject=manifest.subject,
            message=f"{key[:100]}: {value} is below zero",
            remedy="write 0 or more",
            field=field_path(place),
            resource=key,
            value=str(value),
        )
        yield Draft(negative, place)
    elif amount.denominator != 1 and (key in _WHOLE or ("/" in key and _STORAGE not in key)):
        message = f"{key[:100]}: {value} is not a whole number"
        accepted = Severity.WARNING if key.startswith("requests.") else None
        yield _not_integer(message, key, value, place, manifest, accepted)


def _unreadable(name: str, value: JsonValue, place: Path) -> Draft:
    message = f"{str(value)[:60]!r} is not a quantity"
    reason = QuantityUnreadable(message=message, remedy="write a number", resource=name, value=str(value))
    return Draft(reason, place)


def _not_integer(
    message: str,
    name: str,
    value: JsonValue,
    place: Path,
    manifest: ManifestObject,
    severity: Severity | None,
) -> Draft:
    reason = ResourceNotInteger(
        subject=manifest.subject,
        message=message,
        remedy="write a whole number",
        field=field_path(place),
        resource=name,
        value=str(value),
    )
    return Draft(reason, place, severity=severity)


def _gap(hard: JsonObject, place: Path, manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """A quota on whole GPUs covers no other name that a GPU is had by."""
    if f"requests.{GPU}" not in hard:
        return
    keys = "\n".join(hard)
    ways = {
        "shared GPUs": SHARED_SUFFIX in keys,
        "MIG devices": f"requests.{MIG_PREFIX}" in keys,
        "resource claims": any(part in keys for part in _OF_DRA),
    }
    offered = _ways_in(inputs)
    open_ways = [way for way, closed in ways.items() if not closed and (offered is None or way in offered)]
    if not open_ways:
        return
    others = "" if offered is None else ", which this cluster offers"
    reason = QuotaLeavesGap(
        message=f"{' and '.join(open_ways)}{others} are not counted by requests.{GPU}",
        remedy=f"add their own keys: requests.{GPU}{SHARED_SUFFIX}, requests.{MIG_PREFIX}<profile>, "
        "<class>.deviceclass.resource.k8s.io/devices; 0 forbids",
        uncounted=tuple(open_ways),
    )
    yield Draft(reason, place, severity=None if offered is None else Severity.WARNING, on_key=True)


def _ways_in(inputs: RuleInputs) -> frozenset[str] | None:
    """By what other names the cluster has GPUs; None when no cluster is known, or not its nodes."""
    if inputs.cluster is None or not inputs.cluster.looked_at("Node"):
        return None
    view = inputs.cluster.ground.view
    names = {name for node in view.nodes.values() for name, n in node.node.allocatable.items() if n > 0}
    ways = set()
    if any(name.endswith(SHARED_SUFFIX) for name in names):
        ways.add("shared GPUs")
    if any(name.startswith(MIG_PREFIX) for name in names):
        ways.add("MIG devices")
    if view.snapshot.slices:
        ways.add("resource claims")
    return frozenset(ways)


def _limit(limit: JsonObject, at: Path, manifest: ManifestObject) -> Iterator[Draft]:
    kind = limit.get("type")
    parts = {name: mapping(limit.get(name)) for name in ("min", "max", "default", "defaultRequest")}
    for part, values in parts.items():
        for name, value in values.items():
            place = (*at, part, name)
            amount = _amount(value)
            if amount is None:
                yield _unreadable(name, value, place)
            elif is_extended(name) and amount.denominator != 1:
                message = f"{name}: {value} is not a whole number"
                yield _not_integer(message, name, value, place, manifest, Severity.WARNING)
    if kind == "Pod":
        for part in ("default", "defaultRequest"):
            if parts[part]:
                message = f"{part} is not allowed where type is Pod"
                yield _invalid((*at, part), message, "use type: Container", on_key=True)
    yield from _ordered(parts, at)
    for name in parts["default"] or parts["defaultRequest"]:
        if is_extended(name) and kind == "Container" and _amount(parts["default"].get(name, 0)) != 0:
            reason = LimitRangeGivesDevices(
                message=f"every container of the namespace that does not ask for {name} gets some, init "
                "containers and sidecars included",
                remedy="leave devices out of the defaults",
                resource=name,
            )
            section = "default" if name in parts["default"] else "defaultRequest"
            yield Draft(reason, (*at, section, name), on_key=True)


def _invalid(at: Path, message: str, remedy: str, *, on_key: bool = False) -> Draft:
    return Draft(LimitRangeInvalid(message=message, remedy=remedy), at, on_key=on_key)


def _ordered(parts: dict[str, JsonObject], at: Path) -> Iterator[Draft]:
    """min, defaultRequest, default, max in this order; of a device the defaults are equal."""
    for low, high in (
        ("min", "max"),
        ("min", "default"),
        ("min", "defaultRequest"),
        ("default", "max"),
        ("defaultRequest", "max"),
        ("defaultRequest", "default"),
    ):
        for name in parts[low].keys() & parts[high].keys():
            least, most = _amount(parts[low][name]), _amount(parts[high][name])
            if least is not None and most is not None and least > most:
                message = f"{low} of {name} is {parts[low][name]}, more than {high}, {parts[high][name]}"
                yield _invalid((*at, low, name), message, f"lower {low}, or raise {high}")
    for name in parts["default"].keys() & parts["defaultRequest"].keys():
        default, default_request = _amount(parts["default"][name]), _amount(parts["defaultRequest"][name])
        if (
            is_extended(name)
            and default is not None
            and default_request is not None
            and default_request < default
        ):
            message = f"default and defaultRequest of {name} differ; for a device they must be equal"
            yield _invalid((*at, "defaultRequest", name), message, "leave defaultRequest out")


def _amount(value: JsonValue) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return parse_quantity(str(value))
    except ValueError:
        return None
