"""The law of wiring: a loop has all it needs when it is made, and nobody hooks anything in afterwards.

What follows later goes by subscription: to a topic of the board, an informer, a queue.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from scripts.law_reader import Module, is_in

_ROOMS: Final = ("tonnage.agent", "tonnage.controller", "tonnage.loop")


def hooked_in(name: str, module: Module) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each attribute that is set on an object of another module."""
    if not any(is_in(name, room) for room in _ROOMS):
        return
    own = {field for node in module.nodes if isinstance(node, ast.ClassDef) for field in _fields(node)}
    for node in module.nodes:
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and not (isinstance(node.value, ast.Name) and node.value.id == "self")
            and node.attr not in own
        ):
            yield node.lineno, f"hooks {node.attr} in after an object was made"


def _fields(definition: ast.ClassDef) -> Iterator[str]:
    """What a class declares in its body or sets on itself."""
    for node in ast.walk(definition):
        match node:
            case ast.AnnAssign(target=ast.Name(id=field)):
                yield field
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self"), attr=field):
                yield field
            case _:
                pass
