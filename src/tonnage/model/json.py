"""JSON as the type checker sees it."""

from typing import TypeAlias, Union

JsonScalar: TypeAlias = str | int | float | bool | None
JsonValue: TypeAlias = Union[JsonScalar, "list[JsonValue]", "dict[str, JsonValue]"]
JsonObject: TypeAlias = dict[str, JsonValue]
