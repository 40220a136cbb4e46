"""What extensions of custom kinds mean, said in whole where their schemas are published.

Source: apiextensions-apiserver pkg/apiserver/schema/unfold.go (v1.35).
"""

from __future__ import annotations

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import items, mapping


def unfold(schema: JsonObject) -> None:
    """Say of what may be a number or a text that it is one of both."""
    inside = (
        *mapping(schema, "properties").values(),
        schema.get("items"),
        schema.get("additionalProperties"),
    )
    for inner in inside:
        if isinstance(inner, dict):
            unfold(inner)
    either: list[JsonValue] = [{"type": "integer"}, {"type": "string"}]
    all_of = items(schema, "allOf")
    is_unfolded = (
        schema.get("anyOf") == either or mapping(all_of[0] if all_of else None).get("anyOf") == either
    )
    if is_unfolded or not schema.get("x-kubernetes-int-or-string"):
        return
    if "anyOf" in schema:
        schema["allOf"] = [{"anyOf": either}, *all_of]
    else:
        schema["anyOf"] = either
