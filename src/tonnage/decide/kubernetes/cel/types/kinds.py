"""Types of what an expression knows.

Source: k8s.io/apiserver pkg/cel (types.go).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

AUTHORIZER: Final = "kubernetes.authorization.Authorizer"
RESOURCE_CHECK: Final = "kubernetes.authorization.ResourceCheck"


@dataclass(frozen=True, slots=True)
class CelKind:
    """A type: `int`, `string`, ..., `list` and `map` of an `element`, `optional`, `object` with its `fields`.

    Any other name is a type of Kubernetes' own. `most` and `least` bound what a value of it can hold, and the
    bytes that it takes, where a schema tells.
    """

    name: str
    element: CelKind | None = None
    fields: tuple[tuple[str, CelKind], ...] = ()
    title: str = ""
    """What errors call an object; without one it is called by where it stands."""
    most: int = 0
    least: int = 0

    def field(self, name: str) -> CelKind | None:
        """The type of a field."""
        return next((kind for key, kind in self.fields if key == name), None)


DYN: Final = CelKind("dyn")
BOOL: Final = CelKind("bool")
INT: Final = CelKind("int")
STRING: Final = CelKind("string")
STRINGS: Final = CelKind("list", STRING)
KnownKinds = tuple[tuple[str, CelKind], ...]
"""Names that an expression may use, with their types."""

_SIMPLE: Final = frozenset({"double", "int", "uint", "bool", "string", "bytes"}) | {"timestamp", "duration"}


def kind_named(written: str) -> CelKind:
    """The type that a variable gets of one that errors call so: any for Kubernetes' own, and for objects.

    >>> kind_named("list(string)").element
    CelKind(name='string', element=None, fields=(), title='', most=0, least=0)
    """
    if written in _SIMPLE:
        return CelKind(written)
    head, _, inside_it = written.removesuffix(")").partition("(")
    if head == "list":
        return CelKind("list", kind_named(inside_it))
    if head == "map" and inside_it.startswith("string, "):
        return CelKind("map", kind_named(inside_it.removeprefix("string, ")))
    return DYN


def inside(kind: CelKind, path: Iterator[str]) -> CelKind | None:
    """The type at a path of fields, `@items` and `@values`; None where nobody knows."""
    inner: CelKind | None = kind
    for step in path:
        if inner is None:
            return None
        match step:
            case "@items" | "@values":
                inner = inner.element
            case "@keys":
                inner = STRING if inner.name == "map" else None
            case _:
                inner = inner.field(step)
    return inner
