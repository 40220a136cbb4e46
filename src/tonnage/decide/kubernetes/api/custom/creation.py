"""What the server answers to a new object of a custom kind whose definition is at hand."""

from __future__ import annotations

from tonnage.decide.kubernetes.api.custom.changes import BLOCKING, UNCHECKED, schema_problems_of
from tonnage.decide.kubernetes.api.custom.counts import scale_problems
from tonnage.decide.kubernetes.api.custom.definitions import CustomDefinition
from tonnage.decide.kubernetes.api.custom.rules import has_rules, rule_problems
from tonnage.decide.kubernetes.api.custom.values import decode_custom
from tonnage.decide.kubernetes.api.problems import Errors
from tonnage.model.json import JsonObject
from tonnage.wire.schema import load_schema


def decoded_object(definition: CustomDefinition, body: JsonObject, *, strict: bool) -> JsonObject:
    """The object as the server has it once it is read and its defaults are set.

    Raises:
        BodyError: metadata has a wrong type, or with `strict` a field is unknown or stands twice.
    """
    obj = decode_custom(load_schema(), definition.schema, body, strict=strict).value
    if definition.has_status:
        obj.pop("status", None)
    return obj


def problems_of(definition: CustomDefinition, obj: JsonObject) -> Errors:
    """Everything that breaks the schema and its rules, metadata aside."""
    errors = schema_problems_of(definition.schema, obj, None, status=False)
    if definition.scale is not None:
        errors += tuple(scale_problems(definition.scale, obj, status_only=False))
    if any(error.type in BLOCKING for error in errors):
        return (*errors, *([UNCHECKED] if has_rules(definition.schema) else []))
    broken, _ = rule_problems(definition.schema, obj, None)
    return (*errors, *broken)
