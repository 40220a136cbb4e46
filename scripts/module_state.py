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


def changes_of_state(module: Module) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each function that changes a name, list, dict or set of its module."""
    held = {name for statement in module.tree.body for name in _names_of(statement)}
    for function in module.nodes:
        if isinstance(function, ast.Global):
            yield function.lineno, f"changes {function.names[0]} of the module"
        elif held and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            own = set(_own_names(function))
            for node in ast.walk(function):
                changed = _changed(node)
                if isinstance(changed, ast.Name) and changed.id in held - own:
                    yield changed.lineno, f"changes {changed.id} of the module"


def _names_of(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


def _own_names(function: ast.AST) -> Iterator[str]:
    """Its parameters and variables, and those of functions in it."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _changed(node: ast.AST) -> ast.expr | None:
    """What an expression puts something into, or takes something out of."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.Attribute) and node.attr in _CHANGES:
        return node.value
    return None
