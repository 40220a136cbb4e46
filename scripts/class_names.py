"""A public class name stands for one thing: a reader who meets it knows which, without the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.law_reader import Module


def doubled_names(modules: Iterable[tuple[str, Module]]) -> Iterator[tuple[Path, int, str]]:
    """(path, line, what is wrong) of each public class whose name another module gives to something else.

    One in `wire` and one elsewhere may be a pair: an object as it is sent, and as the model has it.
    """
    places: dict[str, list[tuple[str, Path, int]]] = {}
    for name, module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append((name, module.path, node.lineno))
    for class_name, where in places.items():
        own = [place for place in where if not place[0].startswith("tonnage.wire.")]
        sent = len(where) - len(own)
        if len(own) > 1 or sent > 1:
            for name, path, line in where:
                others = ", ".join(other for other, _, _ in where if other != name)
                yield path, line, f"{class_name} is also a class of {others}"
