"""Report modules, functions, classes and parameter lists that are longer than docs say they should be.

Every excess must be named in docs/critiques.md (as `path` or `path:name`); the script fails on one that is
not, and on an exception there that no longer applies.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MODULE_LINES, FUNCTION_LINES, PARAMETERS, PUBLIC_METHODS = 400, 60, 6, 12
EXCEPTION = re.compile(r"^- `(?P<place>src/[^`]+)`")


class Excess(NamedTuple):
    """One thing that is too long: `place` is `path` or `path:qualified.name`."""

    place: str
    what: str


def excesses_of(path: Path) -> Iterator[Excess]:
    """Everything in one module that is over a limit."""
    text = path.read_text(encoding="utf-8")
    where = str(path.relative_to(ROOT))
    lines = text.count("\n")
    if lines > MODULE_LINES:
        yield Excess(where, f"{lines} lines, limit {MODULE_LINES}")
    yield from _walk(ast.parse(text), where, "")


def _walk(node: ast.AST, where: str, outer: str) -> Iterator[Excess]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _walk(child, where, outer)
            continue
        name = f"{outer}{child.name}"
        if isinstance(child, ast.ClassDef):
            methods = [m for m in child.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
            public = sum(not m.name.startswith("_") for m in methods)
            if public > PUBLIC_METHODS:
                yield Excess(f"{where}:{name}", f"{public} public methods, limit {PUBLIC_METHODS}")
        else:
            yield from _function_excesses(child, f"{where}:{name}")
        yield from _walk(child, where, f"{name}.")


def _function_excesses(node: ast.FunctionDef | ast.AsyncFunctionDef, place: str) -> Iterator[Excess]:
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    if length > FUNCTION_LINES:
        yield Excess(place, f"{length} lines, limit {FUNCTION_LINES}")
    arguments = node.args
    named = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    count = len([name for name in named if name not in ("self", "cls")])
    decorated = any("option" in ast.unparse(d) or "argument" in ast.unparse(d) for d in node.decorator_list)
    if count > PARAMETERS and not decorated:
        yield Excess(place, f"{count} parameters, limit {PARAMETERS}")


def main() -> int:
    """Print what is over a limit; 1 if docs/critiques.md does not admit it, or admits what is gone."""
    modules = [p for p in sorted((ROOT / "src").rglob("*.py")) if not p.name.endswith("_pb2.py")]
    found = {excess.place: excess.what for path in modules for excess in excesses_of(path)}
    critiques = (ROOT / "docs" / "critiques.md").read_text(encoding="utf-8")
    admitted = {m["place"] for line in critiques.splitlines() if (m := EXCEPTION.match(line))}
    for place, what in found.items():
        print(f"{'admitted' if place in admitted else 'TOO LONG'}  {place}: {what}")
    for place in sorted(admitted - found.keys()):
        print(f"IN VAIN   {place}: no longer over a limit; remove its line from docs/critiques.md")
    total = sum(p.read_text(encoding="utf-8").count("\n") for p in modules)
    print(f"{len(modules)} modules, {total} lines, {len(found)} over a limit")
    return 1 if found.keys() ^ admitted else 0


if __name__ == "__main__":
    sys.exit(main())
