"""Which families of addresses a service has, on a cluster that has but one.

Source: pkg/registry/core/service/storage/alloc.go (initIPFamilyFields), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.api.problems import FieldError, invalid
from tonnage.decide.kubernetes.api.validation.network.addresses import parsed
from tonnage.decide.kubernetes.api.validation.network.services import addresses
from tonnage.model.json import JsonObject
from tonnage.model.json_access import items, mapping, text, texts

_CONFIGURED: Final = "IPv4"
_BOTH: Final = ("IPv4", "IPv6")
_POLICY: Final = "spec.ipFamilyPolicy"
_RELEASE: Final = "must be 'SingleStack' to release the secondary"
_SEVERAL: Final = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"


def settle_families(spec: JsonObject, before: JsonObject) -> Iterator[FieldError]:
    """Fill in the policy and the families of a service; what is wrong with those that it has."""
    if text(spec, "type") == "ExternalName" or _stays_preferred(spec, before):
        return
    open_ended = text(spec, "clusterIP") == "None" and not mapping(spec, "selector")
    if spec.get("ipFamilyPolicy") is None:
        anew = "RequireDualStack" if open_ended else "SingleStack"
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or anew
    faults = [*addresses(spec, before)] or [*_counted(spec, before), *_inferred(spec)]
    if faults:
        yield from faults
        return
    if open_ended:
        families = texts(spec, "ipFamilies") or [_CONFIGURED]
        if text(spec, "ipFamilyPolicy") != "SingleStack" and len(families) < len(_BOTH):
            families = [*families, *(family for family in _BOTH if family not in families)]
        spec["ipFamilies"] = list(families)
        return
    faults = [*_configured(spec)]
    yield from faults
    if not faults and not items(spec, "ipFamilies"):
        spec["ipFamilies"] = [_CONFIGURED]


def _stays_preferred(spec: JsonObject, before: JsonObject) -> bool:
    """Whether a service that prefers two families is left as it is."""
    same = ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    prefers = spec.get("ipFamilyPolicy") == "PreferDualStack"
    return prefers and all((spec.get(key) or []) == (before.get(key) or []) for key in same)


def _counted(spec: JsonObject, before: JsonObject) -> Iterator[FieldError]:
    """One of each or two, as the policy says; without a second address nor family the policy may say less."""
    policy = text(spec, "ipFamilyPolicy")
    for key, singular, several in (
        ("clusterIPs", "cluster IP", "cluster IPs"),
        ("ipFamilies", "IP family", "IP families"),
    ):
        values, values_before = items(spec, key), items(before, key)
        if policy == "SingleStack":
            if before and values == values_before and len(values) > 1:
                spec[key] = values = values[:1]
            if len(values) == len(_BOTH):
                yield invalid(_POLICY, policy, f"{_SEVERAL} {several} are specified")
        elif values and len(values) < len(values_before):
            yield invalid(_POLICY, policy, f"{_RELEASE} {singular}")


def _inferred(spec: JsonObject) -> Iterator[FieldError]:
    """Families that addresses tell."""
    families, written = items(spec, "ipFamilies"), texts(spec, "clusterIPs")
    for index, written_address in enumerate(written):
        if written_address == "None":
            break
        if index < len(families):
            continue
        address = parsed(written_address)
        family = "unknown" if address is None else f"IPv{address.version}"
        if family == _CONFIGURED:
            families.append(family)
        else:
            path = f"spec.clusterIPs[{index}]"
            yield invalid(path, list(written), f"{family} is not configured on this cluster")
    if families:
        spec["ipFamilies"] = families


def _configured(spec: JsonObject) -> Iterator[FieldError]:
    """No more than the cluster has."""
    policy = text(spec, "ipFamilyPolicy")
    if policy == "RequireDualStack":
        yield invalid(_POLICY, policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(texts(spec, "ipFamilies")):
        if family != _CONFIGURED:
            yield invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
