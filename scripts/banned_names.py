"""Names that say nothing: participles, pronouns and empty nouns that stand for a thing of the field.

`told`, `found` and `one` fit every value, so a reader has to look up each. A name is the field's noun for
what it holds (docs/reference/glossary.md).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from scripts.law_reader import Module

BANNED: Final = frozenset(
    {
        *("asked", "found", "given", "kept", "known", "said", "seen", "taken", "told", "wanted"),
        *("aside", "happened", "happenings", "heard", "ills", "spoken", "untold"),
        *("each", "mine", "one", "shy", "this", "those", "what", "who", "world"),
        *("data", "info", "item", "result"),
    }
)
"""Of variables, parameters, fields, functions and classes, whatever their case and leading underscores."""
_BANNED_IN_PART: Final = frozenset({"told", "retold", "untold", "heard", "said", "spoken"})
"""Of `src`, as a word of a longer name too, which still lacks its noun (`told_by`, `link_told`)."""
_BANNED_ALONE: Final = frozenset({"Request"})
"""As they are written: it does not say whose request it is. A variable `request` has its type beside it."""
_OF_DEFINITIONS: Final = frozenset({"named"})
"""Of functions and classes too: as a flag it says whether there is a name."""
_CONTRACT: Final = {
    ("tonnage.model.errors", "what"): "errors say what, where, why and the remedy, to people and in JSON",
    ("tonnage.model.metric_families", "INFO"): "Prometheus' type of metric",
    ("tonnage.cli.lab.checks", "seen"): "a key of a lab's report in JSON",
    ("tonnage.diagnose.lint.rule_inputs", "item"): "a word of the schema tables",
    ("tonnage.agent.dump", "known"): "a key of the agent's dump",
    ("tonnage.agent.holds.ledger_file", "seen"): "a key of the ledger on disk",
    ("tonnage.decide.node.mig.change", "kept"): "a key of the journal of a MIG change",
    ("tonnage.twin.kubelet.devices.checkpoint", "data"): "a key of kubelet's checkpoint",
}
"""(module, name) that files and formats give, and which."""
_OTHERS: Final = frozenset({"data_received", "ignore_aliases"})
"""Functions whose parameters a library names."""
_ROOMS_OF_FACTS: Final = ("tonnage.model.reasons", "tonnage.wire")
"""Fields there are keys of JSON that others read."""
MOST_IN_TESTS: Final = 2530
"""How many such names tests may still bind: older ones are renamed as their modules are worked on."""
_LOWERED_BY: Final = 100
_TESTS: Final = "tests"


def banned_names(name: str, module: Module) -> Iterator[tuple[int, str]]:
    """(line, what is wrong) of each banned name that the module `name` binds."""
    yield from _walk(name, module.tree, ())


def too_many_in_tests(tests: Path, most: int = MOST_IN_TESTS) -> Iterator[str]:
    """What is wrong with the number of banned names that tests bind; it may only fall."""
    trees = (ast.parse(path.read_bytes()) for path in tests.rglob("*.py") if not path.stem.endswith("_pb2"))
    count = sum(1 for tree in trees for _ in _walk(_TESTS, tree, ()))
    if count > most:
        yield f"{tests} binds {count:,} names that say nothing of what they are, and had at most {most:,}"
    elif count < most - _LOWERED_BY:
        yield f"{tests} binds no more than {count:,} names that say nothing; lower MOST_IN_TESTS to that"


def unused_contracts(modules: Iterable[tuple[str, Module]]) -> Iterator[str]:
    """What is wrong with each name that is permitted to a module which does not bind it."""
    bound = {
        (name, word)
        for name, module in modules
        if any(name == owner for owner, _ in _CONTRACT)
        for node in module.nodes
        for _, word, _ in _bound(node)
    }
    for name, word in sorted(_CONTRACT.keys() - bound):
        yield f"{name} binds no {word} any more"


def _walk(name: str, node: ast.AST, inside: tuple[ast.AST, ...]) -> Iterator[tuple[int, str]]:
    for line, bound, is_definition in _bound(node):
        plain = bound.strip("_").lower()
        banned = (
            plain in BANNED
            or (name != _TESTS and not _BANNED_IN_PART.isdisjoint(plain.split("_")))
            or bound.strip("_") in _BANNED_ALONE
            or (is_definition and plain in _OF_DEFINITIONS)
        )
        if banned and not _is_permitted(name, bound, node, inside):
            yield line, f"binds {bound}, which says nothing of what it is"
    for child in ast.iter_child_nodes(node):
        yield from _walk(name, child, (*inside, node))


def _bound(node: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """(line, name, whether it is a function or a class) of what a node itself binds."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.lineno, node.name, True
        case ast.Name(ctx=ast.Store()):
            yield node.lineno, node.id, False
        case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self" | "cls")):
            yield node.lineno, node.attr, False
        case ast.arg():
            yield node.lineno, node.arg, False
        case ast.alias(asname=str()):
            yield node.lineno, str(node.asname), False
        case ast.ExceptHandler(name=str()) | ast.MatchAs(name=str()) | ast.MatchStar(name=str()):
            yield node.lineno, str(node.name), False
        case ast.MatchMapping(rest=str()):
            yield node.lineno, str(node.rest), False
        case _:
            pass


def _is_permitted(name: str, bound: str, node: ast.AST, inside: tuple[ast.AST, ...]) -> bool:
    if (name, bound) in _CONTRACT:
        return True
    if isinstance(node, ast.arg):
        return any(isinstance(outer, ast.FunctionDef) and outer.name in _OTHERS for outer in inside)
    is_field = (
        len(inside) > 1 and isinstance(inside[-1], ast.AnnAssign) and isinstance(inside[-2], ast.ClassDef)
    )
    return is_field and any(name == room or name.startswith(f"{room}.") for room in _ROOMS_OF_FACTS)
