"""CustomResourceDefinitions: names, versions, scope. Their schemas are checked by `structural`."""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.cluster.claims.cel_errors import UnsupportedError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import at, flag, mapping, mappings, text, texts
from tonnage.twin.apiserver.objects import names
from tonnage.twin.apiserver.objects.custom_rules import compile_problem, listed_rules, uses_old_self
from tonnage.twin.apiserver.objects.problems import (
    FieldError,
    complaints,
    duplicate,
    invalid,
    required,
    unsupported,
)
from tonnage.twin.apiserver.objects.structural import schema_problems
from tonnage.twin.apiserver.objects.validation.fields import Found, unchanged

_SCOPES: Final = ("Cluster", "Namespaced")
_STRATEGIES: Final = ("None", "Webhook")


def definition(obj: JsonObject) -> Found:
    """A new CustomResourceDefinition."""
    spec = mapping(obj, "spec")
    group, plural, name = text(spec, "group"), text(spec, "names", "plural"), text(obj, "metadata", "name")
    if name != f"{plural}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    else:
        yield from complaints("spec.group", group, names.dns_subdomain(group))
        if "." not in group:
            yield invalid("spec.group", group, "should be a domain with at least one dot")
    scope = text(spec, "scope")
    if scope not in _SCOPES:
        yield required("spec.scope") if not scope else unsupported("spec.scope", scope, _SCOPES)
    yield from _versions(mappings(spec, "versions"))
    yield from _names(mapping(spec, "names"))
    strategy = text(spec, "conversion", "strategy")
    if strategy not in _STRATEGIES:
        yield unsupported("spec.conversion.strategy", strategy, _STRATEGIES)


def definition_update(new: JsonObject, old: JsonObject) -> Found:
    """A changed one: what is stored already must stay readable."""
    yield from definition(new)
    spec, before = mapping(new, "spec"), mapping(old, "spec")
    for key in ("group", "scope"):
        yield from unchanged(spec.get(key), before.get(key), f"spec.{key}")
    for key in ("plural", "kind"):
        yield from unchanged(
            mapping(spec, "names").get(key), mapping(before, "names").get(key), f"spec.names.{key}"
        )
    known = {text(version, "name") for version in mappings(spec, "versions")}
    for index, stored in enumerate(texts(old, "status", "storedVersions")):
        if stored not in known:
            words = (
                f"missing from spec.versions; {stored} was previously a storage version, and must remain in "
                "spec.versions until a storage migration ensures no data remains persisted in "
                f"{stored} and removes {stored} from status.storedVersions"
            )
            yield invalid(f"status.storedVersions[{index}]", stored, words)


def _versions(versions: list[JsonObject]) -> Found:
    path = "spec.versions"
    storing = [version for version in versions if flag(version, "storage")]
    seen: set[str] = set()
    for index, version in enumerate(versions):
        where, name = f"{path}[{index}]", text(version, "name")
        yield from complaints(f"{where}.name", name, names.dns_label_1035(name))
        if name in seen:
            yield duplicate(f"{where}.name", name)
        seen.add(name)
        schema = mapping(version, "schema", "openAPIV3Schema")
        if not schema:
            yield required(f"{where}.schema.openAPIV3Schema")
        else:
            yield from schema_problems(schema, f"{where}.schema.openAPIV3Schema")
            # One version alone is told as if all had its schema.
            single = "spec.validation" if len(versions) == 1 else f"{where}.schema"
            yield from _rules(schema, f"{single}.openAPIV3Schema")
        yield from _columns(
            mappings(version, "additionalPrinterColumns"), f"{where}.additionalPrinterColumns"
        )
    if len(storing) != 1:
        listed = [dict(version) for version in versions]
        yield FieldError(
            invalid(path, list(listed), "").type, path, list(listed),
            "must have exactly one version marked as storage version",
        )  # fmt: skip


_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_FIELD_PATH: Final = re.compile(r"(?:\.?[A-Za-z_][\w-]*|\['[^']+'\])+")


def _rules(schema: JsonObject, path: str) -> Found:
    """Rules in CEL. Those that nobody here can evaluate are taken, and never broken."""
    for where, level, rules in listed_rules(schema, path):
        for index, rule in enumerate(rules):
            if isinstance(rule, dict):
                yield from _rule(rule, level, f"{where}.x-kubernetes-validations[{index}]")


def _rule(rule: JsonObject, level: JsonObject, path: str) -> Found:
    written, message = text(rule, "rule"), text(rule, "message")
    computed, where, reason = text(rule, "messageExpression"), text(rule, "fieldPath"), text(rule, "reason")
    if not written.strip():
        yield required(f"{path}.rule", "rule is not specified")
        return
    if "messageExpression" in rule and computed and not computed.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
        computed = ""
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif "\n" in written.strip() and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if reason and reason not in _REASONS:
        yield unsupported(f"{path}.reason", reason, _REASONS)
    if where and not _FIELD_PATH.fullmatch(where):
        yield invalid(f"{path}.fieldPath", where, "must be a valid path")
    if at(rule, "optionalOldSelf") is not None and not uses_old_self(rule):
        words = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", at(rule, "optionalOldSelf"), words)
        return
    try:
        errors = compile_problem({**rule, "messageExpression": computed}, level)
    except UnsupportedError:
        return
    shown: JsonObject = {
        "Rule": written,
        "Message": message,
        "MessageExpression": computed,
        "Reason": reason or None,
        "FieldPath": where,
        "OptionalOldSelf": at(rule, "optionalOldSelf"),
    }
    for key, error in zip(("rule", "messageExpression"), errors, strict=True):
        if error:
            yield invalid(f"{path}.{key}", shown, error)


def _columns(columns: list[JsonObject], path: str) -> Found:
    kinds = ("integer", "number", "string", "boolean", "date")
    for index, column in enumerate(columns):
        where, kind = f"{path}[{index}]", text(column, "type")
        if not text(column, "name"):
            yield required(f"{where}.name")
        if not kind:
            yield required(f"{where}.type", f"must be one of {','.join(sorted(kinds))}")
        elif kind not in kinds:
            yield invalid(f"{where}.type", kind, f"must be one of {','.join(sorted(kinds))}")
        if not text(column, "jsonPath"):
            yield required(f"{where}.jsonPath")


def _names(found: JsonObject) -> Found:
    for key in ("plural", "singular"):
        name = text(found, key)
        if not name and key == "plural":
            yield required("spec.names.plural")
        elif name:
            yield from complaints(f"spec.names.{key}", name, names.dns_label_1035(name))
    for key in ("kind", "listKind"):
        name = text(found, key)
        if not name:
            yield required(f"spec.names.{key}")
        elif wrong := names.dns_label_1035(name.lower()):
            words = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            yield invalid(f"spec.names.{key}", name, words)
    for key in ("shortNames", "categories"):
        for index, name in enumerate(texts(found, key)):
            yield from complaints(f"spec.names.{key}[{index}]", name, names.dns_label_1035(name))
    if text(found, "kind") and text(found, "kind") == text(found, "listKind"):
        words = "kind and listKind may not be the same"
        yield invalid("spec.names.listKind", text(found, "listKind"), words)
