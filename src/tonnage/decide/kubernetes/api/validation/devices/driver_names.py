"""How drivers, pools, devices and what describes them are named, and what drivers alone understand.

Source: k8s.io/kubernetes pkg/apis/resource/validation, 1.35.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
)
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.api.validation.storage.volume_sources import driver_name
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping, text

_Element = TypeVar("_Element")
_LONGEST_POOL: Final = 253
_LONGEST_ID: Final = 32
_MOST_BYTES: Final = 10 * 1024


def pool_name(name: str, path: str) -> FieldErrors:
    """The name of a pool: subdomains with slashes between them."""
    if not name:
        yield required(path)
        return
    if len(name.encode()) > _LONGEST_POOL:
        yield too_long(path, _LONGEST_POOL)
    for part in name.split("/"):
        yield from complaints(path, part, names.dns_subdomain(part))


def label(name: str, path: str) -> FieldErrors:
    """The name of a device or of a request."""
    yield from complaints(path, name, names.dns_label(name))


def attribute_name(name: str, path: str) -> FieldErrors:
    """The name of an attribute or a capacity, with a domain or without."""
    parts = name.split("/")
    if len(parts) > 2:
        return  # Which the server takes.
    if len(parts) == 2:
        if parts[0]:
            yield from driver_name(parts[0], path)
        else:
            yield invalid(path, "", "the domain must not be empty")
    if len(parts) == 2 and not parts[1]:
        yield invalid(path, "", "the name must not be empty")
        return
    if len(parts[-1].encode()) > _LONGEST_ID:
        yield too_long(path, _LONGEST_ID)
    yield from complaints(path, parts[-1], names.c_identifier(parts[-1]))


def full_attribute_name(name: str, path: str) -> FieldErrors:
    """The name of an attribute with its domain."""
    yield from attribute_name(name, path)
    if "/" not in name:
        yield invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash")


def configuration(config: JsonObject, path: str) -> FieldErrors:
    """What a driver is told and nobody else understands."""
    if not isinstance(config.get("opaque"), dict):
        yield required(f"{path}.opaque")
        return
    opaque = mapping(config, "opaque")
    yield from driver_name(text(opaque, "driver"), f"{path}.opaque.driver")
    yield from raw_object(opaque.get("parameters"), f"{path}.opaque.parameters")


def raw_object(value: JsonValue, path: str) -> FieldErrors:
    """An object of any fields, of bounded size."""
    if value is None:
        yield required(path)
    elif len(msgspec.json.encode(value)) > _MOST_BYTES:
        yield too_long(path, _MOST_BYTES)
    elif not isinstance(value, dict):
        yield invalid(path, "<value omitted>", "must be a valid JSON object")


def each_element(
    elements: Sequence[_Element],
    most: int,
    path: str,
    rule: Callable[[_Element, str], FieldErrors],
    key: Callable[[_Element], JsonValue] | None = None,
) -> FieldErrors:
    """A list of at most so many (-1: any number), each by a rule; with a key, nothing may stand twice."""
    if 0 <= most < len(elements):
        yield too_many(path, len(elements), most)
        return
    for index, element in enumerate(elements):
        yield from rule(element, f"{path}[{index}]")
    seen_names: list[JsonValue] = []
    for index, element in enumerate(elements if key else ()):
        assert key is not None
        if (name := key(element)) in seen_names:
            yield duplicate(f"{path}[{index}]", name)
        seen_names.append(name)
