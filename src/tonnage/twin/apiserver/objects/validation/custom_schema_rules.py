"""Rules in CEL of a custom kind's schema, before anything is evaluated.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation (validation.go), v1.35.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.cluster.claims.cel_errors import UnsupportedError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import at, text
from tonnage.twin.apiserver.objects.custom_rules import compile_problem, uses_old_self
from tonnage.twin.apiserver.objects.field_paths import PathError, followed
from tonnage.twin.apiserver.objects.go_schema import rule_in_go
from tonnage.twin.apiserver.objects.problems import invalid, required, unsupported
from tonnage.twin.apiserver.objects.validation.fields import Found

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_BREAK: Final = re.compile(r"[\n\r]")


def rule_text(rule: JsonObject, schema: JsonObject, path: str) -> Found:
    """What is wrong with a rule before anybody compiles it."""
    written, message, reason = text(rule, "rule").strip(), text(rule, "message"), text(rule, "reason")
    if not written:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _BREAK.search(written) and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    computed = text(rule, "messageExpression")
    if computed and not computed.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if reason and reason not in _REASONS:
        yield unsupported(f"{path}.reason", reason, _REASONS)
    where = text(rule, "fieldPath")
    if where and not where.strip():
        yield invalid(f"{path}.fieldPath", where, "must be non-empty if specified")
    if _BREAK.search(where):
        yield invalid(f"{path}.fieldPath", where, "must not contain line breaks")
    if where:
        try:
            followed(where, schema)
        except PathError:
            yield invalid(f"{path}.fieldPath", where, "must be a valid path")


def compiled_rule(rule: JsonObject, schema: JsonObject, path: str, uncorrelated: str) -> Found:
    """What the compiler has against a rule, and where it looks at an old value that nobody can tell."""
    shown = rule_in_go(rule)
    try:
        errors = compile_problem(rule, schema)
    except UnsupportedError as error:
        yield invalid(f"{path}.rule", shown, f"this server cannot evaluate the rule: {error}")
        return
    for key, words in zip(("rule", "messageExpression"), errors, strict=True):
        if words:
            yield invalid(f"{path}.{key}", shown, words)
    if uses_old_self(rule):
        if uncorrelated:
            words = "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            yield invalid(f"{path}.rule", text(rule, "rule"), words + uncorrelated)
    elif at(rule, "optionalOldSelf") is not None:
        words = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{path}.optionalOldSelf", at(rule, "optionalOldSelf"), words)
