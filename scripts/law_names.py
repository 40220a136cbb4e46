"""What names stand for: which are bound to which expressions, and of which module a dotted name is."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Every name that a statement or expression binds to another expression."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _bound(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _bound(node.target, node.value)
    elif isinstance(node, ast.For | ast.comprehension):
        values = node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List | ast.Set) else []
        for value in values:
            yield from _bound(node.target, value)
    elif isinstance(node, ast.arguments):
        places = [*node.posonlyargs, *node.args]
        given = [*zip(places[len(places) - len(node.defaults) :], node.defaults, strict=True)]
        given += [
            (place, value) for place, value in zip(node.kwonlyargs, node.kw_defaults, strict=True) if value
        ]
        for place, value in given:
            yield place.arg, value


def _bound(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for one, other in zip(target.elts, value.elts, strict=False):
            yield from _bound(one, other)


@cache
def module_of(full: str) -> str | None:
    """The innermost module on the way to a dotted name, by its own name: `enum.sys.modules` goes by `sys`."""
    parts = full.split(".")
    found: ModuleType | None = None
    for end in range(1, len(parts) + 1):
        path = ".".join(parts[:end])
        inner = getattr(found, parts[end - 1], None) if found is not None else None
        if found is None or inner is None:
            inner = (
                _imported(path) if end == 1 or (found is not None and hasattr(found, "__path__")) else None
            )
        if not isinstance(inner, ModuleType):
            return found.__name__ if found is not None else parts[0]
        found = inner
    return found.__name__ if found is not None else None


def _imported(name: str) -> ModuleType | None:
    """A module, brought in to see what is in it. What cannot be is judged by its name alone."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        return importlib.import_module(name)
    except Exception:
        return None
