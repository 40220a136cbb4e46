"""Reads one module for what its room may not do: its imports first, then every use of what they gave."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from scripts import effects
from scripts.law_names import bindings, module_of

_OURS: Final = "tonnage"
_RESOURCES: Final = "importlib.resources"
_PATHS: Final = frozenset({"pathlib.Path", "pathlib.PosixPath"})
_READING: Final = frozenset({"read_text", "read_bytes", "open"})
_REACHING: Final = re.compile(r"\{[^{}]*__\w+__")
"""`'{0.__globals__}'.format(f)` takes an attribute that the syntax tree does not show."""
_DEEPEST: Final = 8
_NUMPY_MOMENT: Final = re.compile(r"[<>=|]?(datetime64|M8)")


@dataclass(frozen=True, slots=True)
class Law:
    """What the modules of a room may take from Python and from libraries."""

    room: str
    libraries: frozenset[str] = frozenset()
    """Modules besides those of `effects.PLAIN`, single names, or `package.*` for all modules in it."""
    own_data: str = ""
    """Package whose modules read the data files beside them, at first use."""
    signatures_only: bool = False
    """Whether its functions have no body, so that they may be async."""
    is_loop: bool = False
    """Whether it may be async and log; clock, files and processes are asked for by ports all the same."""


class Module(NamedTuple):
    """A module's syntax, and its names wherever in its body."""

    path: Path
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    defined: frozenset[str]
    imported: frozenset[str]


class Package:
    """All modules of the package, each read when it is first asked for."""

    def __init__(self, source: Path) -> None:
        self.paths = {_module_name(path, source): path for path in sorted((source / _OURS).rglob("*.py"))}
        self.folders = {name.rpartition(".")[0] for name in self.paths}
        """Modules that have others in them."""
        self._read: dict[str, Module] = {}

    def modules(self) -> Iterator[tuple[str, Module]]:
        """Each with its name."""
        for name in self.paths:
            module = self.module(name)
            assert module is not None
            yield name, module

    def module(self, name: str) -> Module | None:
        """None for what is no module of ours."""
        if name in self.paths and name not in self._read:
            self._read[name] = _read(self.paths[name])
        return self._read.get(name)


def _module_name(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def _read(path: Path) -> Module:
    tree = ast.parse(path.read_bytes(), str(path))
    nodes = tuple(ast.walk(tree))
    defined: set[str] = set()
    imported: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                defined.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
    return Module(path, tree, nodes, frozenset(defined), frozenset(imported))


def is_in(module: str, room: str) -> bool:
    """Whether a module is a package or one of those in it."""
    return module == room or module.startswith(f"{room}.")


@dataclass(slots=True)
class Reader:
    """One module under its law."""

    name: str
    law: Law
    package: Package
    known: dict[str, set[str]] = field(default_factory=dict)
    """Names of the module -> what they stand for, dotted, wherever in it they do."""
    called: set[int] = field(default_factory=set)
    """Expressions (by identity) that are called where they stand."""
    bases: set[int] = field(default_factory=set)
    """Expressions of which only an attribute is taken."""
    taken: set[str] = field(default_factory=set)
    """Packages that read data of their own."""
    types: set[int] = field(default_factory=set)
    """Expressions (by identity) that only say of which class a value is."""

    def breaches(self, nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
        """(line, what is wrong), in no order."""
        self.learn(nodes)
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from self._imported(node, alias)
            elif isinstance(node, ast.ImportFrom):
                yield from self._imported_from(node)
            else:
                yield from self._used(node)

    def learn(self, nodes: Sequence[ast.AST]) -> None:
        """What the module's names stand for, wherever they are given."""
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._know(alias.asname or alias.name.partition(".")[0], alias)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    self._know(alias.asname or alias.name, alias, node.module or "")
            elif isinstance(node, ast.Call):
                self.called.add(id(node.func))
                if isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                    self.types |= {id(part) for word in node.args[1:] for part in ast.walk(word)}
            elif isinstance(node, ast.Attribute):
                self.bases.add(id(node.value))
            elif isinstance(node, ast.MatchClass):
                self.types.add(id(node.cls))
            for hint in (getattr(node, "annotation", None), getattr(node, "returns", None)):
                if hint is not None:
                    self.types |= {id(part) for part in ast.walk(hint)}
        self._follow(nodes)

    def _know(self, name: str, alias: ast.alias, module: str = "") -> None:
        full = alias.name if alias.asname else alias.name.partition(".")[0]
        self.known.setdefault(name, set()).add(f"{module}.{alias.name}" if module else full)

    def _imported(self, node: ast.stmt, alias: ast.alias) -> Iterator[tuple[int, str]]:
        if is_in(alias.name, _OURS):
            if alias.asname is None:
                yield node.lineno, f"imports {alias.name} by a name that leads to every room"
        elif not self._may_import(alias.name):
            yield node.lineno, f"imports {alias.name}"

    def _imported_from(self, node: ast.ImportFrom) -> Iterator[tuple[int, str]]:
        module = node.module or ""
        if node.level:
            return  # `hidden_imports` refuses it
        for alias in node.names:
            full = f"{module}.{alias.name}"
            if alias.name == "*":
                yield node.lineno, f"imports everything of {module}"
            elif is_in(module, _OURS):
                yield from self._handed_on(node, full)
            elif not self._may_use(full):
                yield node.lineno, f"imports {full}"

    def _handed_on(self, node: ast.stmt | ast.expr, full: str) -> Iterator[tuple[int, str]]:
        """A name of ours comes from where it is defined: else any module would be one of ours."""
        module, _, name = full.rpartition(".")
        there = self.package.module(module)
        if there is not None and name in there.imported - there.defined and full not in self.package.paths:
            yield node.lineno, f"takes {name} from {module}, which only imports it"

    def _may_import(self, module: str) -> bool:
        if module in effects.PLAIN or module in self.law.libraries or self._is_own_data(module):
            return True
        return any(is_in(module, one.removesuffix(".*")) for one in self.law.libraries if one.endswith(".*"))

    def _may_use(self, full: str) -> bool:
        """Whether a dotted name that comes from outside is a permitted module's, and permitted there."""
        if full in effects.PLAIN_NAMES or full in self.law.libraries or self._is_own_data(full):
            return True
        found = module_of(full)
        if full in effects.REFUSED:
            return False
        return found is None or (_is_of_few(full, found) and self._may_import(found))

    def _is_own_data(self, name: str) -> bool:
        if name != _RESOURCES or not self.law.own_data or not is_in(self.name, self.law.own_data):
            return False
        self.taken.add(self.law.own_data)
        return True

    def _follow(self, nodes: Sequence[ast.AST]) -> None:
        """`when = datetime` makes `when` another name of it, however often."""
        pairs = [pair for node in nodes for pair in bindings(node)]
        for node in nodes:
            if isinstance(node, ast.arg) and (paths := self._paths_of(node.annotation)):
                self.known.setdefault(node.arg, set()).update(paths)
        before = -1
        while before != (before := sum(map(len, self.known.values()))):
            for name, value in pairs:
                # `path = path.parent` would go on for ever
                found = {full for full in self.stands_for(value) if full.count(".") < _DEEPEST}
                self.known.setdefault(name, set()).update(found)

    def _paths_of(self, hint: ast.expr | None) -> set[str]:
        """The classes of paths of which a parameter's value is, as its annotation says."""
        return self.stands_for(hint) & _PATHS if hint is not None else set()

    def stands_for(self, node: ast.expr) -> set[str]:
        """What an expression of names and dots may be, as far as imports tell. A path is as its class is."""
        match node:
            case ast.Name():
                return self.known.get(node.id, set())
            case ast.Attribute():
                return {f"{base}.{node.attr}" for base in self.stands_for(node.value)}
            case ast.NamedExpr():
                return self.stands_for(node.value)
            case ast.IfExp():
                return self.stands_for(node.body) | self.stands_for(node.orelse)
            case ast.BoolOp():
                return {full for value in node.values for full in self.stands_for(value)}
            case ast.Call():
                return self.stands_for(node.func) & _PATHS
            case ast.BinOp(op=ast.Div()):
                return self.stands_for(node.left) & _PATHS
        return set()

    def _used(self, node: ast.AST) -> Iterator[tuple[int, str]]:
        match node:
            case ast.Name():
                yield from self._name(node)
            case ast.Attribute():
                yield from self._attribute(node)
            case ast.Call():
                yield from self._call(node)
            case ast.MatchClass():
                for word in node.kwd_attrs:
                    if not self._may_say(word, node.cls, is_called=False):
                        yield node.lineno, f"uses .{word}"
            case ast.Constant(value=str(text)):
                yield from _text(node, text)
            case ast.ClassDef() if any(self.stands_for(base) & effects.CLOCKS for base in node.bases):
                yield node.lineno, f"{node.name} has the clock of its base"
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if self.law.signatures_only:
                yield from _body(node)
            case _ if _is_async(node) and not self.law.is_loop:
                yield getattr(node, "lineno", 1), "is async"

    def _attribute(self, node: ast.Attribute) -> Iterator[tuple[int, str]]:
        if not self._may_name(node):
            yield node.lineno, f"uses .{node.attr}"
        if not isinstance(node.ctx, ast.Load) and self.stands_for(node.value) - _PATHS:
            yield node.lineno, f"changes .{node.attr} of what is not its own"
        yield from self._reached(node)

    def _name(self, node: ast.Name) -> Iterator[tuple[int, str]]:
        is_use = isinstance(node.ctx, ast.Load)
        if is_use and node.id in effects.BUILTINS and not self._is_ours(node):
            yield node.lineno, f"uses {node.id}"
        if node.id == "getattr" and id(node) not in self.called:
            yield node.lineno, "passes getattr on"
        yield from self._reached(node)

    def _is_ours(self, node: ast.Name) -> bool:
        found = self.known.get(node.id, set())
        return bool(found) and all(is_in(one, _OURS) for one in found)

    def _reached(self, node: ast.Name | ast.Attribute) -> Iterator[tuple[int, str]]:
        """What the expression stands for: a name that is refused, or a module that goes from hand to hand."""
        for full in sorted(self.stands_for(node)):
            if is_in(full, _OURS):
                yield from self._handed_on(node, full)
            elif not self._may_use(full):
                if isinstance(node, ast.Attribute) or "." not in full:
                    yield node.lineno, f"uses {full}"
            elif full in effects.CALLED_ALONE and id(node) not in self.called:
                yield node.lineno, f"passes {full} on"
            elif full in effects.CLOCKS and id(node) not in self.called | self.bases | self.types:
                yield node.lineno, f"passes {full} on, which has the clock"
            elif id(node) not in self.bases and module_of(full) == full and not full.endswith("_pb2"):
                yield node.lineno, f"passes the module {full} on"

    def _may_name(self, node: ast.Attribute) -> bool:
        return self._may_say(node.attr, node.value, is_called=id(node) in self.called)

    def _may_say(self, attribute: str, of: ast.expr, *, is_called: bool) -> bool:
        """Whether an attribute of that name may be taken of that value."""
        if self._is_defined_here(of, attribute):
            return True
        if attribute == "__setattr__":
            return is_called  # with what it changes in sight
        if attribute.startswith("__") and attribute.endswith("__"):
            return attribute in effects.DUNDERS
        if attribute == "now":
            holder = _last_name(of)
            if self.law.is_loop and is_called:
                return (
                    holder in effects.CLOCKS_OF_LOOPS and not self.stands_for(of) and holder not in self.known
                )
            return holder in effects.HOLDERS_OF_NOW and not is_called and not self.stands_for(of)
        if attribute == "astimezone":
            return is_called  # with the zone in sight
        if attribute in (effects.OF_EVENT_LOOPS if self.law.is_loop else effects.OF_GIVEN_CLOCKS):
            return False
        if attribute == "open" and not is_called and isinstance(of, ast.Name) and of.id == "self":
            return True  # a field of that name
        refused = effects.OF_FILES | effects.OF_CLOCKS | effects.OF_THE_MACHINE | effects.AROUND
        return attribute not in refused or (attribute in _READING and self._is_own_data(_RESOURCES))

    def _is_defined_here(self, of: ast.expr, attribute: str) -> bool:
        """Whether it is a function of one of our modules, such as `items.walk`."""
        modules = (self.package.module(full) for full in self.stands_for(of))
        return any(module is not None and attribute in module.defined for module in modules)

    def _call(self, node: ast.Call) -> Iterator[tuple[int, str]]:
        full = self.stands_for(node.func)
        given = [*node.args, *(word.value for word in node.keywords)]
        zones = [*node.args, *(word.value for word in node.keywords if word.arg == "tz")]
        has_zone = any(not isinstance(one, ast.Constant | ast.Starred) for one in zones)  # not None
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astimezone" and not has_zone:
            yield node.lineno, "asks for the machine's time zone by .astimezone()"
        is_changing = isinstance(node.func, ast.Attribute) and node.func.attr == "__setattr__"
        if is_changing and not (node.args and _last_name(node.args[0]) == "self"):
            yield node.lineno, "changes by __setattr__ what is not its own"
        is_zero = bool(given) and isinstance(given[0], ast.Constant) and given[0].value == 0
        if self.law.is_loop and "asyncio.sleep" in full and not is_zero:
            yield node.lineno, "sleeps by another clock than the one passed in"
        has_timeout = any(word.arg in ("timeout", None) for word in node.keywords)
        if self.law.is_loop and "asyncio.wait" in full and has_timeout:
            yield node.lineno, "waits by another clock than the one passed in"
        yield from self._by_name(node, full)

    def _by_name(self, node: ast.Call, full: set[str]) -> Iterator[tuple[int, str]]:
        """What takes an attribute by its name: as if the attribute were taken, and called, here."""
        if isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            of = node.args[0]
            words = node.args[:1] if isinstance(of, ast.Starred) else node.args[1:2]
        elif full & effects.BY_NAME:
            of, words = node.func, node.args
        else:
            return
        for word in words:
            text = word.value if isinstance(word, ast.Constant) else None
            if not isinstance(text, str):
                yield node.lineno, "takes an attribute whose name is not written here"
            elif "astimezone" in text or not all(
                self._may_say(part, of, is_called=True) for part in text.split(".")
            ):
                yield node.lineno, f"uses .{text}"


def _text(node: ast.Constant, text: str) -> Iterator[tuple[int, str]]:
    if _REACHING.search(text):
        yield node.lineno, "reaches out by a text that is filled in"
    elif _NUMPY_MOMENT.match(text):
        yield node.lineno, "has numpy read moments, of which one is now"


def _is_of_few(full: str, module: str) -> bool:
    """Whether a name is the module, or one of the few that are permitted of it."""
    name = full.removeprefix(f"{module}.").partition(".")[0]
    return full == module or name in effects.ONLY.get(module, (name,))


def _last_name(of: ast.expr) -> str:
    return of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[tuple[int, str]]:
    """What is more than a docstring and the dots that stand for a body."""
    if isinstance(function, ast.Lambda) or not all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        for statement in function.body
    ):
        yield function.lineno, "has a body"


def _is_async(node: ast.AST) -> bool:
    if isinstance(node, ast.comprehension):
        return bool(node.is_async)
    return isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
