"""The law of `Any`: in a room of decisions the reason why nothing better is known stands beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from scripts.law_reader import Module, is_in

_ROOM: Final = "tonnage.decide"
_FEWEST_WORDS: Final = 3


def unexplained_any(name: str, module: Module) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each `Any` without a comment in its line."""
    if not is_in(name, _ROOM):
        return
    uses = [node for node in module.nodes if isinstance(node, ast.Name) and node.id == "Any"]
    if not uses:
        return
    lines = module.path.read_text(encoding="utf-8").splitlines()
    for use in uses:
        reason = lines[use.lineno - 1].partition("  # ")[2]
        if len(reason.split()) < _FEWEST_WORDS:
            yield use.lineno, "uses Any and does not say why in the same line"
