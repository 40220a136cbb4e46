"""Checks that many kinds share: numbers, immutability, labels, selectors, taints and tolerations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.patches.json_patches import same_json
from tonnage.decide.kubernetes.api.problems import (
    FieldError,
    complaints,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from tonnage.decide.kubernetes.api.selectors import label_requirements, labels_of, matches_labels
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping, mappings, number, text, texts
from tonnage.model.kubernetes.name_words import pattern_complaint

FieldErrors = Iterator[FieldError]
NEGATIVE: Final = "must be greater than or equal to 0"
IMMUTABLE: Final = "field is immutable"
INT32: Final = (1 << 31) - 1
_INT64: Final = (1 << 63) - 1
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
PREEMPTION: Final = ("PreemptLowerPriority", "Never")
MISMATCH: Final = "`selector` does not match template `labels`"
_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_EMPTY: Final[tuple[JsonValue, ...]] = (None, "", [], {})


def nonnegative(obj: JsonObject, key: str, path: str) -> FieldErrors:
    """A number under `key` that must not be below zero; absent is fine."""
    if (value := number(obj, key)) < 0:
        yield invalid(f"{path}.{key}", value, NEGATIVE)


def unchanged(new: JsonValue, old: JsonValue, path: str) -> FieldErrors:
    """A value that an update must not change; unset and empty are the same."""
    if not (same_json(new, old) or (new in _EMPTY and old in _EMPTY)):
        yield invalid(path, new, IMMUTABLE)


def one_of(value: str, supported: tuple[str, ...], path: str) -> FieldErrors:
    """A value of a fixed set, required."""
    if not value:
        yield required(path)
    elif value not in supported:
        yield unsupported(path, value, supported)


def one_of_if_set(obj: JsonObject, key: str, supported: tuple[str, ...], path: str) -> FieldErrors:
    """A value of a fixed set under `key`; absent is fine."""
    if (value := obj.get(key)) is not None and value not in supported:
        yield unsupported(f"{path}.{key}", value, supported)


def domain_prefixed(value: str, path: str) -> FieldErrors:
    """A domain and what it calls something, `acme.io/foo`; required."""
    domain, _, rest = value.partition("/")
    if not value:
        yield required(path)
    elif not domain or not rest:
        yield invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from complaints(path, domain, names.dns_subdomain(domain))
        if not re.fullmatch(_PATH, rest):
            yield invalid(path, rest, pattern_complaint("Invalid path", _PATH))


def labels(entries: JsonObject, path: str) -> FieldErrors:
    """Keys and values of labels."""
    for key, value in sorted(entries.items()):
        yield from complaints(path, key, names.qualified_name(key))
        yield from complaints(path, value, names.label_value(str(value)))


def label_selector(selector: JsonObject, path: str) -> FieldErrors:
    """A LabelSelector object."""
    yield from labels(mapping(selector, "matchLabels"), f"{path}.matchLabels")
    for index, requirement in enumerate(mappings(selector, "matchExpressions")):
        where, operator = f"{path}.matchExpressions[{index}]", text(requirement, "operator")
        if operator not in OPERATORS:
            yield invalid(f"{where}.operator", operator, "not a valid selector operator")
        yield from label_requirement(requirement, where)


def label_requirement(requirement: JsonObject, path: str) -> FieldErrors:
    """A requirement of labels, whose operator may be unknown."""
    yield from operands(requirement, path)
    key = text(requirement, "key")
    yield from complaints(f"{path}.key", key, names.qualified_name(key))
    for position, value in enumerate(items(requirement, "values")):
        yield from complaints(f"{path}.values[{position}]", value, names.label_value(str(value)))


def operands(requirement: JsonObject, path: str) -> FieldErrors:
    """The values that an operator wants, or must not have."""
    operator, values = text(requirement, "operator"), items(requirement, "values")
    if operator in ("In", "NotIn") and not values:
        yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in ("Exists", "DoesNotExist") and values:
        words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        yield forbidden(f"{path}.values", words)


def is_readable(selector: JsonObject) -> bool:
    """Whether the server can turn a selector into one that it can match."""
    return not any(label_selector(selector, ""))


def selects(selector: JsonObject, template: JsonObject) -> bool:
    """Whether a readable selector matches the labels of a pod template."""
    return matches_labels(label_requirements(selector), labels_of(template))


def is_empty_selector(selector: JsonObject) -> bool:
    """Whether a selector demands nothing."""
    return not mapping(selector, "matchLabels") and not items(selector, "matchExpressions")


def tolerations(entries: list[JsonObject], path: str) -> FieldErrors:
    """Tolerations of a pod."""
    for index, toleration in enumerate(entries):
        yield from _toleration(toleration, f"{path}[{index}]")


def _toleration(toleration: JsonObject, path: str) -> FieldErrors:
    key, operator = text(toleration, "key"), text(toleration, "operator")
    value, effect = text(toleration, "value"), text(toleration, "effect")
    if key:
        yield from complaints(f"{path}.key", key, names.qualified_name(key))
    elif operator != "Exists":
        words = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{path}.operator", operator, words)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("", "Equal"):
        if wrong := names.label_value(value):
            yield invalid(f"{path}.operator", value, ";".join(wrong))
    elif operator == "Exists":
        if value:
            yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        yield unsupported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield unsupported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in _EFFECTS:
        yield unsupported(f"{path}.effect", effect, _EFFECTS)


def taints(entries: list[JsonObject], path: str) -> FieldErrors:
    """Taints of a node; a key may stand once for an effect."""
    seen_keys: set[tuple[str, str]] = set()
    for index, taint in enumerate(entries):
        where = f"{path}[{index}]"
        key, effect = text(taint, "key"), text(taint, "effect")
        yield from complaints(f"{where}.key", key, names.qualified_name(key))
        if wrong := names.label_value(text(taint, "value")):
            yield invalid(f"{where}.value", text(taint, "value"), ";".join(wrong))
        yield from one_of(effect, _EFFECTS, f"{where}.effect")
        if (key, effect) in seen_keys:
            again = duplicate(where, taint_as_shown(taint))
            yield FieldError(
                again.type, again.field, again.value, "taints must be unique by key and effect pair"
            )
        seen_keys.add((key, effect))


def taint_as_shown(taint: JsonObject) -> JsonObject:
    """A taint as the server prints it: its internal fields have capital names."""
    shown: JsonObject = {
        "Key": text(taint, "key"),
        "Value": text(taint, "value"),
        "Effect": text(taint, "effect"),
        "TimeAdded": taint.get("timeAdded"),
    }
    return shown


def int_or_percent(value: JsonValue, path: str) -> FieldErrors:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        yield from complaints(path, value, names.percentage(value))
    elif isinstance(value, int) and value < 0:
        yield invalid(path, value, NEGATIVE)


def at_most_100_percent(value: JsonValue, path: str) -> FieldErrors:
    """A percentage of at most 100."""
    if isinstance(value, str) and re.fullmatch("[0-9]+%", value) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def amount_of(value: JsonValue) -> int:
    """The number in an int-or-percentage, 0 if it has none."""
    if isinstance(value, str):
        return int(value.removesuffix("%")) if re.fullmatch("[0-9]{1,9}%?", value) else 0
    return value if isinstance(value, int) else 0


def in_range(value: int, low: int, high: int) -> tuple[str, ...]:
    """Complaint about a number outside bounds that both belong to it."""
    return () if low <= value <= high else (f"must be between {low} and {high}, inclusive",)


def user_or_group(obj: JsonObject, key: str, path: str) -> FieldErrors:
    """A numeric user or group."""
    if (value := obj.get(key)) is not None:
        yield from complaints(f"{path}.{key}", value, in_range(number(obj, key), 0, INT32))


def more_groups(obj: JsonObject, path: str) -> FieldErrors:
    """The groups beside the first one."""
    for index, group in enumerate(items(obj, "supplementalGroups")):
        if isinstance(group, int):
            where = f"{path}.supplementalGroups[{index}]"
            yield from complaints(where, group, in_range(group, 0, INT32))


def each_name(entries: list[str], path: str) -> FieldErrors:
    """Qualified names in a list; complaints name the list."""
    for name in entries:
        yield from complaints(path, name, names.qualified_name(name))


def standard_finalizer(name: str, path: str) -> FieldErrors:
    """A finalizer of a built-in kind: without a domain it must be one of Kubernetes' own."""
    if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
        yield invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")


def finalizers(obj: JsonObject, path: str) -> FieldErrors:
    """Finalizers of any object."""
    entries = texts(obj, "finalizers")
    yield from each_name(entries, f"{path}.finalizers")
    if "orphan" in entries and "foregroundDeletion" in entries:
        words = "finalizer orphan and foregroundDeletion cannot be both set"
        yield invalid(f"{path}.finalizers", list(entries), words)
