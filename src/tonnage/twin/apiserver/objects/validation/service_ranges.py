"""Ranges and addresses of services.

Source: pkg/apis/networking/validation (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import at, mapping, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.problems import (
    complaints,
    invalid,
    required,
)
from tonnage.twin.apiserver.objects.validation.fields import (
    IMMUTABLE,
    Found,
    unchanged,
)
from tonnage.twin.apiserver.objects.validation.network import (
    legacy_range,
    parsed,
    parsed_range,
)

_TWO_RANGES: Final = (
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
)


def service_range(obj: JsonObject) -> Found:
    """A ServiceCIDR."""
    found, path = texts(obj, "spec", "cidrs"), "spec.cidrs"
    if not found:
        yield required(path, "at least one CIDR required")
        return
    if len(found) > 2:
        yield invalid(path, {"CIDRs": list(found)}, "may only hold up to 2 values")
        return
    for index, shown in enumerate(found):
        yield from _strict_range(shown, f"{path}[{index}]")
    families = [one.version for shown in found if (one := parsed_range(shown))]
    if len(families) == 2 and families[0] == families[1]:
        yield invalid(path, list(found), _TWO_RANGES)


def service_range_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed ServiceCIDR: its ranges stay; one may get a second."""
    found, known = texts(new, "spec", "cidrs"), texts(old, "spec", "cidrs")
    grows = len(known) == 1 and len(found) == 2
    if len(found) != len(known) and not grows:
        yield invalid("spec.cidrs", list(found) or None, IMMUTABLE)
        return
    for index, (shown, was) in enumerate(zip(found, known, strict=False)):
        if shown != was:
            yield invalid(f"spec.cidrs[{index}]", shown, IMMUTABLE)
    if grows:
        yield from service_range(new)


def _strict_range(shown: str, path: str) -> Found:
    found = parsed_range(shown)
    if found is None:
        yield from legacy_range(shown, path)
    elif parsed(shown.partition("/")[0]) != found.network_address:
        yield invalid(path, shown, "must not have bits set beyond the prefix length")
    elif str(found) != shown:
        yield invalid(path, shown, f'must be in canonical form ("{found}")')


def service_address(obj: JsonObject) -> Found:
    """An IPAddress and whose it is."""
    parent, path = at(obj, "spec", "parentRef"), "spec.parentRef"
    if not isinstance(parent, dict):
        yield required(path)
        return
    if group := text(parent, "group"):
        yield from complaints(f"{path}.group", group, names.dns_subdomain(group))
    for key in ("resource", "name"):
        if not text(parent, key):
            yield required(f"{path}.{key}")
    for key in ("resource", "name", "namespace"):
        value = text(parent, key)
        yield from complaints(f"{path}.{key}", value, names.path_segment(value))


def service_address_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed IPAddress: it stays whose it is."""
    now, was = mapping(new, "spec", "parentRef"), mapping(old, "spec", "parentRef")
    yield from unchanged(_in_go(now), _in_go(was), "spec.parentRef")


def _in_go(parent: JsonObject) -> JsonObject:
    return {key.capitalize(): text(parent, key) for key in ("group", "resource", "namespace", "name")}
