"""Resource names and amounts: of containers, nodes, quotas and limit ranges.

The rules about extended resources (GPUs): whole numbers, a limit where there is a request, both equal.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.pod_amounts import together
from tonnage.decide.kubernetes.api.problems import (
    FieldError,
    complaints,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import NEGATIVE, FieldErrors
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, text
from tonnage.model.kubernetes.name_words import COUNTS, HUGE_PAGES, OF_CONTAINERS
from tonnage.model.kubernetes.quantity import canonical_quantity, parse_quantity

_NATIVE_DOMAIN: Final = "kubernetes.io/"
_POD_LEVEL: Final = ("cpu", "memory")
_REQUESTS: Final = (
    *(f"requests.{name}" for name in (*OF_CONTAINERS, "storage")),
    *(f"limits.{name}" for name in OF_CONTAINERS),
)
_STANDARD: Final = (*OF_CONTAINERS, "storage", *_REQUESTS, *COUNTS)
_QUOTA: Final = (*OF_CONTAINERS, *_REQUESTS, *COUNTS)


def is_native(name: str) -> bool:
    """A resource that Kubernetes itself defines: without a domain, or with its own."""
    return "/" not in name or _NATIVE_DOMAIN in name


def counts_standard(name: str) -> bool:
    """Whether quotas know a resource or a kind of object by a name of their own."""
    return name in _QUOTA or name == "requests.storage"


def is_huge_page(name: str) -> bool:
    """`hugepages-2Mi` and the like."""
    return name.startswith(HUGE_PAGES)


def is_extended(name: str) -> bool:
    """A device plugin's resource, such as `nvidia.com/gpu`: counted in whole numbers."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def allows_overcommit(name: str) -> bool:
    """Whether a request may be smaller than its limit."""
    return is_native(name) and not is_huge_page(name)


def resource_name(name: str, path: str) -> FieldErrors:
    """A resource name of any use."""
    wrong = names.qualified_name(name)
    yield from complaints(path, name, wrong)
    if not wrong and "/" not in name and not _is_standard(name):
        yield invalid(path, name, "must be a standard resource type or fully qualified")


def _is_standard(name: str) -> bool:
    return name in _STANDARD or is_huge_page(name) or name.startswith("requests." + HUGE_PAGES)


def container_resource_name(name: str, path: str) -> FieldErrors:
    """A resource that a container may ask for."""
    yield from resource_name(name, path)
    if "/" not in name:
        if name not in OF_CONTAINERS and not is_huge_page(name):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def quota_resource_name(name: str, path: str) -> FieldErrors:
    """A resource that a quota may bound, or an object that it may count."""
    yield from resource_name(name, path)
    huge = is_huge_page(name) or name.startswith("requests." + HUGE_PAGES)
    if "/" not in name and name not in _QUOTA and not huge:
        yield invalid(path, name, "must be a standard resource for quota")


def amount(name: str, quantity: str, path: str) -> FieldErrors:
    """An amount of a resource: not negative, and whole where the resource is counted."""
    value = parse_quantity(quantity)
    if value < 0:
        yield invalid(path, quantity, NEGATIVE)
    if (name in COUNTS or is_extended(name)) and value.denominator != 1:
        yield invalid(path, canonical_quantity(quantity), "must be an integer")


def requirements(resources: JsonObject, path: str, claim_names: tuple[str, ...] = ()) -> FieldErrors:
    """`resources` of a container: limits, requests and claims."""
    yield from _amounts(resources, path, container_resource_name)
    yield from _claims(mappings(resources, "claims"), f"{path}.claims", claim_names)


def _amounts(resources: JsonObject, path: str, rule: Callable[[str, str], FieldErrors]) -> FieldErrors:
    """Limits and requests of what a rule allows."""
    limits, requests = mapping(resources, "limits"), mapping(resources, "requests")
    for name, quantity in sorted(limits.items()):
        where = f"{path}.limits[{name}]"
        yield from rule(name, where)
        yield from amount(name, str(quantity), where)
        yield from _huge_page_amount(name, str(quantity), where)
    for name, quantity in sorted(requests.items()):
        where = f"{path}.requests[{name}]"
        yield from rule(name, where)
        yield from amount(name, str(quantity), where)
        yield from _request_against_limit(name, str(quantity), limits, path)
        yield from _huge_page_amount(name, str(quantity), where)
    all_names = {*limits, *requests}
    if any(map(is_huge_page, all_names)) and not all_names & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")


def pod_requirements(spec: JsonObject, path: str, claim_names: tuple[str, ...] = ()) -> FieldErrors:
    """`resources` of a whole pod: only what its containers can share, and enough for them."""
    if not isinstance(spec.get("resources"), dict):
        return
    if text(spec, "os", "name") == "windows":
        yield forbidden(path, "may not be set for a windows pod")
        return
    resources = mapping(spec, "resources")
    if resources.get("claims") is not None:
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from _amounts(resources, path, _pod_resource_name)
    yield from _claims(mappings(resources, "claims"), f"{path}.claims", claim_names)
    yield from _enough_for_containers(spec, resources, path)


def _pod_resource_name(name: str, path: str) -> FieldErrors:
    wrong = tuple(resource_name(name, path))
    yield from wrong
    if not wrong and name not in _POD_LEVEL and not is_huge_page(name):
        yield unsupported(path, name, (_POD_LEVEL[0], HUGE_PAGES, _POD_LEVEL[1]))


def _enough_for_containers(spec: JsonObject, resources: JsonObject, path: str) -> FieldErrors:
    """What a pod asks for must cover its containers, and its limits theirs."""
    if not resources:
        return
    for section, applies in (("requests", lambda _name: True), ("limits", is_huge_page)):
        own = mapping(resources, section)
        for name, needed in sorted(together(spec, section).items()):
            if name in own and applies(name) and parse_quantity(needed) > parse_quantity(str(own[name])):
                words = f"must be greater than or equal to aggregate container {section} of {needed}"
                yield invalid(f"{path}.{section}[{name}]", canonical_quantity(str(own[name])), words)
    for index, container in enumerate(mappings(spec, "containers")):
        for name, limit in sorted(mapping(container, "resources", "limits").items()):
            most = mapping(resources, "limits").get(name)
            if most is not None and parse_quantity(str(limit)) > parse_quantity(str(most)):
                where = f"{path}.containers[{index}][{name}].limits"
                words = f"must be less than or equal to pod limits of {most}"
                yield invalid(where, canonical_quantity(str(limit)), words)


def _huge_page_amount(name: str, quantity: str, path: str) -> FieldErrors:
    if not is_huge_page(name):
        return
    try:
        page = parse_quantity(name.removeprefix(HUGE_PAGES))
    except ValueError:
        page = Fraction(0)
    if not page or parse_quantity(quantity) % page != 0:
        yield invalid(path, quantity, f"{quantity} is not positive integer multiple of {name}")


def _request_against_limit(name: str, quantity: str, limits: JsonObject, path: str) -> FieldErrors:
    if name not in limits:
        if not allows_overcommit(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    limit = str(limits[name])
    requested, allowed = parse_quantity(quantity), parse_quantity(limit)
    if requested != allowed and not allows_overcommit(name):
        yield invalid(f"{path}.requests", quantity, f"must be equal to {name} limit of {limit}")
    elif requested > allowed:
        yield invalid(f"{path}.requests", quantity, f"must be less than or equal to {name} limit of {limit}")


def _claims(claims: list[JsonObject], path: str, claim_names: tuple[str, ...]) -> FieldErrors:
    seen_keys: set[str] = set()
    for index, claim in enumerate(claims):
        where, name, request = f"{path}[{index}]", text(claim, "name"), text(claim, "request")
        if not name:
            yield required(where)
            continue
        key = f"{name}/{request}" if request else name
        if request and name not in seen_keys:
            yield from complaints(f"{where}.request", request, names.dns_label(request))
        if (
            name in seen_keys
            or key in seen_keys
            or (not request and any(earlier.startswith(f"{name}/") for earlier in seen_keys))
        ):
            yield duplicate(where, name if name in seen_keys or not request else key)
        seen_keys.add(key)
        if name not in claim_names:
            listed = f": {', '.join(sorted(claim_names))}" if claim_names else " which is empty"
            missing = not_found(where, name)
            detail = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield FieldError(missing.type, missing.field, missing.value, detail)
