"""Imports of our own modules that `lint-imports` does not see: by a text, by dots, by a relative name.

What it does not see it cannot forbid, so each is refused in every room, but where it hides nothing: beside an
import that says the same, or within one package.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from scripts.law_reader import Law, Module, Package, Reader, is_in

_OURS: Final = "tonnage"
_BY_TEXT: Final = frozenset(
    {"importlib.import_module", "importlib.__import__", "runpy.run_module", "pkgutil.resolve_name"}
)
_FREE: Final = "tonnage.cli"
"""May import every room, so that it hides nothing; its table of commands names modules by texts."""


def hidden_imports(name: str, module: Module, package: Package) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of the module of that name."""
    if is_in(name, _FREE):
        return
    reader = Reader(name, Law(""), package)
    reader.learn(module.nodes)
    shown = {full for _, full in imports_of(module)}
    has_packages = any(full in package.folders for fulls in reader.known.values() for full in fulls)
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "imports by a relative name"
        if has_packages and isinstance(node, ast.Attribute | ast.Call):
            for full in _by_dots(node, reader):
                if full in package.paths and full not in shown:
                    yield node.lineno, f"reaches {full} by dots"
        if has_packages and _is_inside_of(node, reader) & package.folders:
            yield getattr(node, "lineno", 1), "looks into a package for what it holds"
        if _is_loaded(node, reader):
            yield getattr(node, "lineno", 1), "takes a module whose name is not written here"
        if isinstance(node, ast.Call) and _imports(node.func, reader) and _may_be_ours(node.args):
            yield node.lineno, "imports a module whose name is not written here"
    for line, written in texts_of(module):
        text = written.partition(":")[0]
        is_near = text.rpartition(".")[0] == name.rpartition(".")[0]
        if "." in text and text in package.paths and text not in shown and not is_near:
            yield line, f"names {text} in a text"


def imports_of(module: Module) -> Iterator[tuple[int, str]]:
    """(line, module or name) of every import; `import a.b` brings in `a` as well."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                yield from ((node.lineno, ".".join(parts[:end])) for end in range(1, len(parts) + 1))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, node.module or ""
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def texts_of(module: Module) -> Iterator[tuple[int, str]]:
    """(line, text) of every text in the module."""
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _by_dots(node: ast.Attribute | ast.Call, reader: Reader) -> set[str]:
    if isinstance(node, ast.Attribute):
        return reader.stands_for(node)
    if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
        of, word = node.args[:2]
        if isinstance(word, ast.Constant) and isinstance(word.value, str):
            return {f"{full}.{word.value}" for full in reader.stands_for(of)}
    return set()


def _is_inside_of(node: ast.AST, reader: Reader) -> set[str]:
    """Of what all names are taken: `vars(package)`, `package.__dict__`."""
    match node:
        case ast.Call(func=ast.Name(id="vars"), args=[of]) | ast.Attribute(value=of, attr="__dict__"):
            return reader.stands_for(of)
    return set()


def _is_loaded(node: ast.AST, reader: Reader) -> bool:
    """Whether it takes one of the modules that are loaded, by a name that is composed."""
    return (
        isinstance(node, ast.Subscript)
        and "sys.modules" in reader.stands_for(node.value)
        and _may_be_ours([node.slice])
    )


def _imports(function: ast.expr, reader: Reader) -> bool:
    is_built_in = isinstance(function, ast.Name) and function.id == "__import__"
    return is_built_in or bool(reader.stands_for(function) & _BY_TEXT)


def _may_be_ours(arguments: list[ast.expr]) -> bool:
    """Whether a name is composed, and its start, as far as that is written, may be of one of ours."""
    argument = arguments[0] if arguments else None
    if isinstance(argument, ast.JoinedStr) and argument.values:
        first = argument.values[0]
        start = str(first.value) if isinstance(first, ast.Constant) else ""
        return start.startswith(_OURS) or _OURS.startswith(start)
    return not isinstance(argument, ast.Constant)
