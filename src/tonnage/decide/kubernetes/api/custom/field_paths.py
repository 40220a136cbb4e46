"""Simple JSON paths (`.spec.name`, `.spec['a-b']`) followed through the schema of a custom kind.

Source: k8s.io/apiextensions-apiserver apiserver/schema/cel (validation.go, ValidFieldPath), v1.35.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping

_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+")
_ENDS: Final = "unexpected end of JSON path"
_NOWHERE: Final = "does not refer to a valid field"


class PathError(Exception):
    """A path that leads nowhere; the text says why."""


def followed(path: str, schema: JsonObject, *, arrays: bool = True) -> tuple[tuple[str, ...], JsonObject]:
    """The names along a path and the schema at its end. `arrays`: names may stand in brackets.

    Raises:
        PathError: no field of the schema is there.
    """
    tokens = iter(_TOKEN.findall(path))
    names: list[str] = []
    for step in tokens:
        if step == "[":
            if not arrays:
                raise PathError("array notation is not allowed")
            name = _bracketed(next(tokens, None))
            schema = _inner(schema, name)
            if (end := next(tokens, None)) != "]":
                raise PathError(_ENDS if end is None else f"expected ] but got {end}")
        elif step == ".":
            token = next(tokens, None)
            if token is None:
                raise PathError(_ENDS)
            name, schema = token, _inner(schema, token)
        else:
            raise PathError(f"expected [ or . but got: {step}")
        names.append(name)
    return tuple(names), schema


def _bracketed(token: str | None) -> str:
    if token is None:
        raise PathError(_ENDS)
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise PathError(f"expected single quoted string but got {token}")
    return token[1:-1].replace("\\'", "'").replace("\\\\", "\\")


def _inner(schema: JsonObject, name: str) -> JsonObject:
    declared = mapping(schema, "properties")
    if declared:
        if name not in declared:
            raise PathError(_NOWHERE)
        return mapping(schema, "properties", name)
    if schema.get("additionalProperties") is None:
        raise PathError(_NOWHERE)
    return mapping(schema, "additionalProperties")
