"""A compiled expression as a tree, and the changes that give it the scheduler's meaning.

The library compiles and evaluates; what it lacks is put into the tree: a domain that a device does not know
is an empty map, functions of Kubernetes' own are called by their generic names, and `==` minds versions.

Source: cel.expr.CheckedExpr (field numbers), k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf import message

from tonnage.decide.kubernetes.cel.tree import children, packed, unpacked, walk
from tonnage.decide.kubernetes.cel.types.untyped import TreeNode

ATTRIBUTES: Final = "device.attributes"
CAPACITY: Final = "device.capacity"
PADDED: Final = "device.padded_"
"""Prefix of the variables in which every domain that an expression names is there."""
LARGEST_MAP: Final = 48
_LOOKUPS: Final = frozenset({"_[_]", "_[?_]", "_?._"})


@dataclass(frozen=True, slots=True)
class Tree:
    """What an expression looks at: domains by map, all names that could be an attribute's, other variables.

    `program` is for devices without versions among those names, `careful` for the others.
    """

    domains: Mapping[str, frozenset[str]]
    names: frozenset[str]
    whole_device: bool
    computed: bool
    """A domain is computed from other values than the driver's name."""
    steps: int
    """How often the innermost part runs at most, when no map has more than `LARGEST_MAP` entries."""
    replaces: int
    looks_at_all: bool
    """It does more with the maps than look up names that it spells out."""
    program: bytes
    careful: bytes


def read_tree(serialized: bytes, functions: Mapping[str, str]) -> Tree:
    """The tree of a checked expression. `functions` gives the generic overload by the checked one's id."""
    checked = unpacked(serialized)
    references = {entry.key: entry.value for entry in checked.reference_map}
    for reference in references.values():
        generic = {functions[name] for name in reference.overload_id if name in functions}
        if generic:
            reference.overload_id[:] = sorted(generic)
    domains: dict[str, set[str]] = {ATTRIBUTES: set(), CAPACITY: set()}
    names: set[str] = set()
    whole = computed = False
    for expr in walk(checked.expr):
        computed = _pad(expr, references, domains) or computed
        names.update(_field_names(expr))
        whole = whole or (expr.ident_expr.name == "device")
    everything = _looks_at_all(checked.expr)
    program = packed(checked)
    for expr in list(walk(checked.expr)):
        _mind_versions(expr, references)
    return Tree(
        {name: frozenset(keys) for name, keys in domains.items()},
        frozenset(names),
        whole,
        computed,
        _steps(checked.expr),
        sum(expr.call_expr.function == "replace" for expr in walk(checked.expr)),
        everything,
        program,
        packed(checked),
    )


def _pad(expr: TreeNode, references: Mapping[int, TreeNode], domains: dict[str, set[str]]) -> bool:
    """Turn a lookup of a domain to the padded variable; True when the domain is not known yet."""
    operand, key = None, None
    is_literal = True
    if expr.HasField("select_expr"):
        operand, key = expr.select_expr.operand, expr.select_expr.field
    elif expr.HasField("call_expr") and expr.call_expr.function in _LOOKUPS and len(expr.call_expr.args) == 2:
        operand, index = expr.call_expr.args
        key = index.const_expr.string_value if index.const_expr.HasField("string_value") else None
        is_literal = key is not None or index.ident_expr.name == "device.driver"
    if operand is None or not operand.HasField("ident_expr"):
        return False
    name = references[operand.id].name if operand.id in references else operand.ident_expr.name
    if name not in domains:
        return False
    if key is not None:
        domains[name].add(key)
    operand.ident_expr.name = PADDED + name.rpartition(".")[2]
    if operand.id in references:
        references[operand.id].name = operand.ident_expr.name
    return not is_literal


def _steps(root: TreeNode) -> int:
    """The product of the lengths of what is gone through, along the deepest nesting."""
    most = 1
    stack = [(root, 1)]
    while stack:
        expr, times = stack.pop()
        if expr.HasField("comprehension_expr"):
            whole = expr.comprehension_expr
            stack.append((whole.iter_range, times))
            size = len(whole.iter_range.list_expr.elements) or LARGEST_MAP
            times *= size
            parts = (whole.accu_init, whole.loop_condition, whole.loop_step, whole.result)
            stack += [(part, times) for part in parts]
        else:
            for _, part in expr.ListFields():
                if isinstance(part, message.Message):
                    stack += [(child, times) for child in children(part)]
        most = max(most, times)
    return most


def _looks_at_all(root: TreeNode) -> bool:
    """Whether a map of attributes is used as a map, or looked up by what is not spelled out."""
    by_name: set[int] = set()
    maps: set[int] = set()
    for expr in walk(root):
        operand, spelled = _looked_up(expr)
        if operand is not None:
            if not spelled:
                return True
            by_name.add(operand.id)
        if _is_map(expr):
            maps.add(expr.id)
    return not maps <= by_name


def _looked_up(expr: TreeNode) -> tuple[TreeNode, bool]:
    """The operand of a lookup, and whether its key is spelled out or the driver's name."""
    if expr.HasField("select_expr"):
        return expr.select_expr.operand, True
    call = expr.call_expr
    if call.function in _LOOKUPS and len(call.args) == 2:
        index = call.args[1]
        spelled = index.const_expr.HasField("string_value") or index.ident_expr.name == "device.driver"
        return call.args[0], spelled
    return None, False


def _is_map(expr: TreeNode) -> bool:
    """Whether the expression is a whole map: of all domains, or of one domain."""
    if expr.ident_expr.name.startswith((ATTRIBUTES, CAPACITY, PADDED)):
        return True
    if expr.select_expr.test_only:
        return False
    operand, _ = _looked_up(expr)
    return operand is not None and operand.ident_expr.name.startswith(PADDED)


def _field_names(expr: TreeNode) -> Iterator[str]:
    if expr.HasField("select_expr"):
        yield expr.select_expr.field
    elif expr.const_expr.HasField("string_value"):
        yield expr.const_expr.string_value


_EQUALITY: Final = {"_==_": "@equal", "_!=_": "@unequal"}


def _mind_versions(expr: TreeNode, references: Mapping[int, TreeNode]) -> None:
    """Compare by cel-go's rules, in which a version left of another kind of value is an error."""
    name = _EQUALITY.get(expr.call_expr.function)
    if name is not None and expr.id in references:
        expr.call_expr.function = name
        references[expr.id].overload_id[:] = [f"{name}_2"]
