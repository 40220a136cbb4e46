"""Changes to what a module holds: in a room without effects nothing is other after a call than before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from scripts.law_reader import Module

_CHANGES: Final = frozenset(
    {
        *("append", "appendleft", "extend", "extendleft", "insert", "remove", "pop", "popleft", "popitem"),
        *("add", "discard", "update", "setdefault", "clear", "move_to_end", "sort", "reverse"),
        *("intersection_update", "difference_update", "symmetric_difference_update", "subtract"),
    }
)


_OF_FIRST: Final = frozenset(
    {
        *("next", "heappush", "heappop", "heapify", "heappushpop", "heapreplace", "insort", "insort_left"),
        *("insort_right", "setitem", "delitem"),
    }
)
"""Functions that change the first thing that they are given."""
_COLLECTIONS: Final = frozenset({"dict", "list", "set", "deque", "Counter", "OrderedDict"})


def changes_of_state(module: Module) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each function that changes a name, a collection or a class of its module."""
    held = {name for statement in module.tree.body for name in _names_of(statement)}
    for function in module.nodes:
        if isinstance(function, ast.Global):
            yield function.lineno, f"changes {function.names[0]} of the module"
        elif held and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            own = set(_own_names(function))
            theirs = {**{name: name for name in held - own}, **_aliases(function, held - own)}
            for node in ast.walk(function):
                changed = _root(_changed(node))
                if changed is not None and (changed.id in theirs or _is_class(changed, function)):
                    name = theirs.get(changed.id, "a class")
                    yield changed.lineno, f"changes {name} of the module"


def _names_of(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name


def _own_names(function: ast.AST) -> Iterator[str]:
    """Its parameters and variables, and those of functions in it."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _aliases(function: ast.AST, held: set[str]) -> dict[str, str]:
    """Variables that are another name of what the module holds."""
    return {
        target.id: node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in held
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_class(changed: ast.Name, function: ast.AST) -> bool:
    """Whether it is the class of a class method: what is set there outlives the call."""
    return changed.id == "cls" and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)


def _root(changed: ast.expr | None) -> ast.Name | None:
    """The name at which a chain of attributes and places begins."""
    while isinstance(changed, ast.Attribute | ast.Subscript):
        changed = changed.value
    return changed if isinstance(changed, ast.Name) else None


def _changed(node: ast.AST) -> ast.expr | None:
    """What an expression puts something into, or takes something out of."""
    match node:
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            return node.value
        case ast.Call(func=ast.Attribute(value=ast.Name(id=kind), attr=word), args=[first, *_]) if (
            kind in _COLLECTIONS and word in _CHANGES
        ):
            return first
        case ast.Call(func=ast.Name(id=word) | ast.Attribute(attr=word), args=[first, *_]) if (
            word in _OF_FIRST
        ):
            return first
        case ast.Attribute(attr=word) if word in _CHANGES:
            return node.value
    return None
