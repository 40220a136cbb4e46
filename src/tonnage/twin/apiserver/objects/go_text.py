"""JSON values as Go prints them."""

from __future__ import annotations

from tonnage.model.json import JsonObject, JsonValue


def go_map(item: JsonObject) -> str:
    """An object as Go prints a map: keys in order, `map[a:1 b:x]`."""
    return f"map[{' '.join(f'{key}:{go_value(item[key])}' for key in sorted(item))}]"


def go_value(value: JsonValue) -> str:
    """A value as `%v` prints it."""
    match value:
        case dict():
            return go_map(value)
        case list():
            return f"[{' '.join(map(go_value, value))}]"
        case bool():
            return "true" if value else "false"
        case None:
            return "<nil>"
        case _:
            return str(value)


def go_type(value: JsonValue) -> str:
    """The type that Go's decoder makes of a value, as Go prints it."""
    match value:
        case dict():
            return "map[string]interface {}"
        case list():
            return "[]interface {}"
        case None:
            return "%!s(<nil>)"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case _:
            return "string"
