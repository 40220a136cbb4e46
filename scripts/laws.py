"""The laws of rooms that imports between them do not show: clock, files, network, processes.

`lint-imports` says which room may import which. This says what a room may take from Python and from
libraries, as a list of what is permitted: what is not on it is refused, under any alias.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts.banned_names import banned_names, too_many_in_tests, unused_contracts
from scripts.class_names import doubled_names
from scripts.hidden_imports import hidden_imports, imports_of, texts_of
from scripts.law_actions import done_by_themselves, missing_ports
from scripts.law_any import unexplained_any
from scripts.law_reader import Law, Module, Package, Reader, is_in
from scripts.law_wiring import hooked_in
from scripts.module_state import changes_of_state

_HERE: Final = Path(__file__).resolve()
ROOT: Final = _HERE.parents[1]

_CEL: Final = frozenset({"cel_expr_python.*", "google.protobuf.*", "re2"})
_NUMBERS: Final = frozenset({"numpy", "numpy.typing"})
_PYDANTIC: Final = frozenset({"pydantic", "pydantic.alias_generators", "pydantic_core"})

LAWS: Final = (
    Law("model", own_data="tonnage.model.catalog"),
    Law("wire", frozenset({"google.protobuf.message", "msgspec.*"}), own_data="tonnage.wire.schema"),
    Law("documents", _PYDANTIC | {"re2", "yaml"}),
    Law("ports", signatures_only=True),
    Law("reading", frozenset({"msgspec.*"})),
    Law("decide.node"),
    Law("decide.cluster", _NUMBERS),
    Law("decide.kubernetes", _CEL | _NUMBERS | {"msgspec.*", "numpy.ma"}),
    Law("diagnose", _NUMBERS | {"pydantic"}),
    Law(
        "loop", frozenset({"asyncio", "logging", "msgspec", "uuid.NAMESPACE_OID", "uuid.uuid5"}), is_loop=True
    ),
    Law("agent", frozenset({"asyncio", "logging", "msgspec.*", "pathlib"}), is_loop=True),
    Law("controller", frozenset({"asyncio", "logging"}), is_loop=True),
)
_REACHING_OUT: Final = frozenset({"adapters", "twin", "cli"})
"""`adapters` and `twin` are the two worlds, `cli` is where people are."""
_OF_NO_ROOM: Final = frozenset({"tonnage", "tonnage.__main__"})
"""The package's version, and how it begins."""
_ROOMS_OF_ROOMS: Final = frozenset({"tonnage.decide"})
CONSTRUCTORS: Final = frozenset(
    {
        "tonnage.agent.main",
        "tonnage.agent.claims.main",
        "tonnage.agent.exporter.main",
        "tonnage.controller.main",
        "tonnage.controller.webhook.main",
    }
)
"""Each puts loops and the world together, so it may take what the world is made of."""

_VENDORS: Final = "tonnage.adapters.vendors"
_SHARED_BY_VENDORS: Final = frozenset({"driver", "platforms"})
"""First words of modules that know of no vendor's library."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One place where a law is broken."""

    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def breaches(source: Path) -> list[Breach]:
    """Of all modules below `source`, the folder that holds the package `tonnage`."""
    package = Package(source)
    found: set[Breach] = set()
    taken: set[str] = set()
    for name, module in package.modules():
        wrong = [*_without_room(name, module), *_of_room(name, module, package, taken)]
        wrong += [*hidden_imports(name, module, package)]
        wrong += [*done_by_themselves(name, module), *hooked_in(name, module)]
        wrong += unexplained_any(name, module)
        wrong += [] if _is_generated(name) else banned_names(name, module)
        if module.path.name == "__init__.py":
            wrong += _without_law(module)
        if is_in(name, _VENDORS) and name != _VENDORS:
            wrong += _of_another_vendor(name, module)
        found |= {Breach(module.path, at, what) for at, what in wrong}
    found |= {Breach(path, line, what) for path, line, what in doubled_names(package.modules())}
    of_data = {law.own_data for law in LAWS if law.own_data}
    found |= {
        Breach(_HERE, 1, f"there is no room {law.room}")
        for law in LAWS
        if f"tonnage.{law.room}" not in package.paths
    }
    found |= {Breach(_HERE, 1, f"{name} reads no data of its own any more") for name in of_data - taken}
    return sorted(found, key=lambda breach: (breach.path, breach.line, breach.what))


def _without_room(name: str, module: Module) -> Iterator[tuple[int, str]]:
    """A room without a law would be a way around all of them."""
    rooms = _REACHING_OUT | {law.room for law in LAWS}
    if name in _ROOMS_OF_ROOMS:
        if len(module.tree.body) > 1:
            yield 1, "has more than its law, and is in no room"
    elif name not in _OF_NO_ROOM and not any(is_in(name, f"tonnage.{room}") for room in rooms):
        yield 1, "is in no room that has a law"
    if not module.path.with_name("__init__.py").exists():
        yield 1, "lies in a folder without __init__.py, into which import-linter does not look"


def _of_room(name: str, module: Module, package: Package, taken: set[str]) -> Iterator[tuple[int, str]]:
    law = next((law for law in LAWS if is_in(name, f"tonnage.{law.room}")), None)
    if law is None or name in CONSTRUCTORS or _is_generated(name):
        return
    for line, what in Reader(name, law, package, taken=taken).breaches(module.nodes):
        yield line, f"{law.room} {what}"
    for line, what in changes_of_state(module):
        yield line, f"{law.room} {what}"


def _is_generated(name: str) -> bool:
    return is_in(name, "tonnage.wire") and name.endswith("_pb2")


def _without_law(module: Module) -> Iterator[tuple[int, str]]:
    """A package says in its first sentence what is in it, and what never."""
    text = ast.get_docstring(module.tree) or ""
    if len(text.split()) < 4 or not text.rstrip().endswith("."):
        yield 1, "the package does not say its law in a sentence"


def _of_another_vendor(name: str, module: Module) -> Iterator[tuple[int, str]]:
    """A vendor's modules begin with its name, and of the others they use what knows no vendor."""
    may = {_vendor_of(name), *_SHARED_BY_VENDORS}
    for line, full in (*imports_of(module), *texts_of(module)):
        if is_in(full, _VENDORS) and full != _VENDORS and _vendor_of(full) not in may:
            yield line, f"one vendor takes from another: {full}"


def _vendor_of(module: str) -> str:
    return module.removeprefix(f"{_VENDORS}.").partition(".")[0].partition("_")[0]


def unused_permissions(source: Path) -> list[str]:
    """What the laws permit below `source`, and nothing there uses any more: else it outlives its reason."""
    package = Package(source)
    modules = [*package.modules()]
    unused = [
        f"{law.room} imports no {library} any more"
        for law in LAWS
        for library in sorted(law.libraries - _libraries_used(law, modules))
    ]
    unused += [f"there is no constructor {name}" for name in sorted(CONSTRUCTORS - package.paths.keys())]
    return [*unused, *unused_contracts(modules), *missing_ports(modules)]


def _libraries_used(law: Law, modules: list[tuple[str, Module]]) -> set[str]:
    names = {
        full
        for name, module in modules
        if is_in(name, f"tonnage.{law.room}") and name not in CONSTRUCTORS
        for _, full in imports_of(module)
    }
    return {
        library for library in law.libraries if any(is_in(full, library.removesuffix(".*")) for full in names)
    }


def main() -> None:
    found = [*map(str, breaches(ROOT / "src")), *unused_permissions(ROOT / "src")]
    found += too_many_in_tests(ROOT / "tests")
    for breach in found:
        print(breach)
    if found:
        sys.exit(f"{len(found)} breaches of the laws of rooms (docs/explanation/architecture.md)")


if __name__ == "__main__":
    main()
