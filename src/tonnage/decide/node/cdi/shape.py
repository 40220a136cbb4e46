"""The fields of a CDI spec as container runtimes read them: what is unknown is refused, spelling is forgiven.

They read YAML into Go's types: a number where text is wanted is that text, and a field's name may be in
capitals.

Source: Container Device Interface 1.1.0, sigs.k8s.io/yaml; held against containerd in tests/kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from tonnage.model.errors import Problem
from tonnage.model.json import JsonObject, JsonValue

Shape = str | tuple["Shape"] | Mapping[str, "Shape"]
"""`text`, `number`, `bool`, `texts` (text by name); a tuple is a list of its shape, a mapping an object."""

_NODE: Final[Shape] = {
    **dict.fromkeys(("path", "hostPath", "type", "permissions"), "text"),
    **dict.fromkeys(("major", "minor", "fileMode", "uid", "gid"), "number"),
}
_HOOK: Final[Shape] = {
    "hookName": "text",
    "path": "text",
    "args": ("text",),
    "env": ("text",),
    "timeout": "number",
}
_MOUNT: Final[Shape] = {"hostPath": "text", "containerPath": "text", "options": ("text",), "type": "text"}
_RDT: Final[Shape] = {
    **dict.fromkeys(("closID", "l3CacheSchema", "memBwSchema"), "text"),
    **dict.fromkeys(("enableCMT", "enableMBM", "enableMonitoring"), "bool"),
    "schemata": ("text",),
}
_EDITS: Final[Shape] = {
    "env": ("text",),
    "deviceNodes": (_NODE,),
    "netDevices": ({"hostInterfaceName": "text", "name": "text"},),
    "hooks": (_HOOK,),
    "mounts": (_MOUNT,),
    "intelRdt": _RDT,
    "additionalGids": ("number",),
}
_SPEC_FIELDS: Final[Mapping[str, Shape]] = {
    "cdiVersion": "text",
    "kind": "text",
    "annotations": "texts",
    "devices": ({"name": "text", "annotations": "texts", "containerEdits": _EDITS},),
    "containerEdits": _EDITS,
}
_SPEC: Final[Shape] = _SPEC_FIELDS
MOST_UNKNOWN: Final = 20
"""Fields of one file that are named as unknown: more are another program's file, or a hostile one."""


def shape_problems(document: JsonValue) -> Iterator[Problem]:
    """Fields that nobody knows, and values of another kind; `where` is a field's path.

    What has no field of a spec at all is some other file, of which nothing is told; of other unknown fields
    the first few are.
    """
    if (
        isinstance(document, dict)
        and document
        and not any(_field_name(key, _SPEC_FIELDS) for key in document)
    ):
        why = f"it has none of the fields {', '.join(_SPEC_FIELDS)}"
        yield Problem("not a CDI spec", "", why, "remove it, or the link to it, from the folder of specs")
        return
    unknown = 0
    for problem in _shape_problems(document, _SPEC, ""):
        if isinstance(problem, Problem):
            yield problem
        elif (unknown := unknown + 1) <= MOST_UNKNOWN:
            yield _unknown(*problem)


def normal_spec(document: JsonObject) -> JsonObject:
    """A spec with its fields' own names, without those that nobody knows, and text where text is wanted.

    >>> normal_spec({"Kind": "a.b/cd", "devices": [{"name": 0}]})
    {'kind': 'a.b/cd', 'devices': [{'name': '0'}]}
    """
    normal = _normal(document, _SPEC)
    return normal if isinstance(normal, dict) else {}


def _normal(value: JsonValue, shape: Shape) -> JsonValue:
    if isinstance(shape, tuple) and isinstance(value, list):
        return [_normal(element, shape[0]) for element in value]
    if isinstance(shape, Mapping) and isinstance(value, dict):
        named = ((_field_name(key, shape), inner) for key, inner in value.items())
        return {key: _normal(inner, shape[key]) for key, inner in named if key}
    if shape == "text" and isinstance(value, int | float):
        return str(value).lower().removesuffix(".0")
    return value


def _field_name(key: str, shape: Mapping[str, Shape]) -> str:
    """The field that is meant; empty if there is none."""
    if key in shape:
        return key
    return next((name for name in shape if name.casefold() == key.casefold()), "")


def _unknown(key: str, where: str, names: Sequence[str]) -> Problem:
    near = get_close_matches(key, names, n=1)
    remedy = f"use {near[0]} if you meant that" if near else f"one of {', '.join(names)}"
    return Problem(f'unknown field "{key}"', where, remedy=remedy)


def _shape_problems(
    value: JsonValue, shape: Shape, where: str
) -> Iterator[Problem | tuple[str, str, Sequence[str]]]:
    """Values of another kind, and fields that nobody knows: (name, where, those that are known).

    Null is what is not there. To find what is nearest to a name takes longer than all else.
    """
    if value is None and where:
        return
    if isinstance(shape, str):
        if not _fits(value, shape):
            yield Problem(f"no {shape}", where)
    elif isinstance(shape, tuple):
        if not isinstance(value, list):
            yield Problem("no list", where)
        for place, element in enumerate(value if isinstance(value, list) else ()):
            if element is None:
                yield Problem("an item of the list is empty", f"{where}[{place}]")
            yield from _shape_problems(element, shape[0], f"{where}[{place}]")
    elif not isinstance(value, dict):
        yield Problem("no object", where)
    else:
        for key, inner in value.items():
            path = f"{where}.{key[:100]}".lstrip(".")
            field_name = _field_name(key, shape)
            if field_name:
                yield from _shape_problems(inner, shape[field_name], path)
                continue
            yield key[:100], path, tuple(shape)


def _fits(value: JsonValue, kind: str) -> bool:
    match kind:
        case "text":
            return isinstance(value, str | int | float)
        case "number":
            return isinstance(value, int) and not isinstance(value, bool)
        case "bool":
            return isinstance(value, bool)
    return isinstance(value, dict) and all(
        isinstance(element, str | int | float) for element in value.values()
    )
