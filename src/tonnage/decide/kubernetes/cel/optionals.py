"""Optionals that come where their type is not known any more.

The library has no Python value for one: handed to a function of ours, alone or in a map, it ends the process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from tonnage.decide.kubernetes.cel.tree import type_words, walk
from tonnage.decide.kubernetes.cel.types.untyped import TreeNode

LOST: Final = "an optional among values of unknown type"
_KIND: Final = "optional_type"
_JOINING: Final = ("_?_:_", "_+_")
"""What they come to is of no type where what they are given is of several."""


def loses_optionals(tree: TreeNode, own: Collection[str]) -> bool:
    """Whether an optional may get lost in an expression; `own` are the overloads that run in Python."""
    types = {entry.key: type_words(entry.value) for entry in tree.type_map}
    overloads = {entry.key: entry.value.overload_id for entry in tree.reference_map}

    def optional(expr: TreeNode) -> bool:
        return _KIND in types.get(expr.id, "")

    def lost(expr: TreeNode) -> bool:
        if expr.HasField("call_expr"):
            call = expr.call_expr
            ours = call.function == "dyn" or any(node in own for node in overloads.get(expr.id, ()))
            if ours or (call.function in _JOINING and not optional(expr)):
                return any(map(optional, _operands(call)))
            return call.function == "orValue" and not optional(expr) and any(map(optional, call.args))
        if expr.HasField("list_expr"):
            unwrapped = set(expr.list_expr.optional_indices)
            plain = [node for place, node in enumerate(expr.list_expr.elements) if place not in unwrapped]
            return not optional(expr) and any(map(optional, plain))
        # Where a map of optionals goes, its types do not say.
        return any(optional(node.value) and not node.optional_entry for node in expr.struct_expr.entries)

    return any(map(lost, walk(tree.expr)))


def _operands(call: TreeNode) -> Iterator[TreeNode]:
    if call.HasField("target"):
        yield call.target
    yield from call.args
