"""The law of `Any`: in a room of decisions the reason why nothing better is known stands beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from scripts.law_reader import Module, is_in

_ROOM: Final = "tonnage.decide"
_FEWEST_WORDS: Final = 3
_ANY: Final = re.compile(r"\bAny\b")


def unexplained_any(name: str, module: Module) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each `Any` without a comment in its line, or under another name."""
    if not is_in(name, _ROOM):
        return
    typing = {"typing"}
    for node in module.nodes:
        if isinstance(node, ast.Import):
            typing |= {alias.asname for alias in node.names if alias.name == "typing" and alias.asname}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name == "Any" and alias.asname:
                    yield node.lineno, "imports Any under another name"
    uses = [line for node in module.nodes for line in _uses(node, typing)]
    if not uses:
        return
    lines = module.path.read_text(encoding="utf-8").splitlines()
    for line in uses:
        reason = lines[line - 1].partition("  # ")[2]
        if len(reason.split()) < _FEWEST_WORDS:
            yield line, "uses Any and does not say why in the same line"


def _uses(node: ast.AST, typing: set[str]) -> Iterator[int]:
    """The lines in which it is used: by its name, by its module's, in a type that is written as a text."""
    match node:
        case ast.Name(id="Any"):
            yield node.lineno
        case ast.Attribute(value=ast.Name(id=module), attr="Any") if module in typing:
            yield node.lineno
        case ast.Call(func=ast.Name(id="cast"), args=[ast.Constant(value=str(text)), *_]):
            yield from [node.lineno] if _ANY.search(text) else []
    for hint in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        for part in ast.walk(hint) if hint is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and _ANY.search(part.value):
                yield part.lineno
