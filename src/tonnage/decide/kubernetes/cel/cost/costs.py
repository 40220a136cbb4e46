"""What an expression may cost at most, as the API server estimates it before it takes a rule.

Source: cel-go v0.26 checker/cost.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.cel.cost.call_costs import call_cost
from tonnage.decide.kubernetes.cel.cost.calls import Call, CelArgument
from tonnage.decide.kubernetes.cel.cost.ranges import MOST, UNKNOWN, Range, fixed
from tonnage.decide.kubernetes.cel.tree import type_words
from tonnage.decide.kubernetes.cel.types.kinds import CelKind, inside
from tonnage.decide.kubernetes.cel.types.untyped import TreeNode

_LIST_COST: Final = fixed(10)
_MAP_COST: Final = fixed(30)
_MESSAGE_COST: Final = fixed(40)
_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_ACCUMULATORS: Final = frozenset({"__result__", "@result"})


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a list or a map holds: its keys' and its values' sizes."""

    is_list: bool
    key: Range
    value: Range


@dataclass(frozen=True, slots=True)
class _Local:
    """A variable of a macro."""

    path: tuple[str, ...]
    size: Range | None
    entry: _Entry | None


def estimated_cost(tree: TreeNode, root: CelKind) -> Range:
    """What evaluating it costs, for any value of a type."""
    return _Coster(tree, root).cost(tree.expr)


class _Coster:
    def __init__(self, tree: TreeNode, root: CelKind) -> None:
        self._root = root
        self._types = {entry.key: type_words(entry.value) for entry in tree.type_map}
        self._references = {entry.key: entry.value for entry in tree.reference_map}
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entry] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, expr: TreeNode) -> Range:
        """Of an expression and all in it."""
        match _kind(expr):
            case "ident_expr":
                return self._ident(expr)
            case "select_expr":
                return self._select(expr)
            case "call_expr":
                return self._call(expr)
            case "list_expr":
                return self._list(expr)
            case "struct_expr":
                return self._struct(expr)
            case "comprehension_expr":
                return self._bind(expr) if _is_bind(expr.comprehension_expr) else self._comprehension(expr)
            case _:
                return fixed(0)

    def _ident(self, expr: TreeNode) -> Range:
        name = expr.ident_expr.name
        local = self._local(name)
        self._paths[expr.id] = local.path if local else (name,)
        return fixed(1)

    def _select(self, expr: TreeNode) -> Range:
        select = expr.select_expr
        cost = self.cost(select.operand)
        if select.test_only:
            return cost
        kind = self._type(select.operand)
        if kind.startswith("map(") or _is_message(kind):
            cost += fixed(1)
        self._paths[expr.id] = (*self._path(select.operand), select.field)
        return cost

    def _call(self, expr: TreeNode) -> Range:
        call = expr.call_expr
        if call.function == "dyn":
            cost = fixed(1) + self.cost(call.args[0])
            self._keep(expr, self._size(call.args[0]), self._entry(call.args[0]))
            return cost
        costs = [self.cost(argument) for argument in call.args]
        arguments = [self._node(argument) for argument in call.args]
        overloads = list(self._references[expr.id].overload_id) if expr.id in self._references else []
        if not overloads:
            return fixed(0)
        total, target = fixed(0), None
        if call.HasField("target"):
            total = self.cost(call.target)
            target = self._node(call.target)
        worst, size = Range(MOST, 0), None
        for overload in overloads:
            made = Call(call.function, overload, target, arguments, costs)
            cost, result_size = call_cost(made) or self._general(expr, made)
            worst = worst.union(cost)
            size = result_size if size is None else size if result_size is None else size.union(result_size)
            if overload in ("index_list", "index_map") and call.args:
                entry = self._entry(call.args[0])
                size = entry.value if entry else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[expr.id] = (*self._path(call.args[0]), step)
            if size is None:
                size = self._size(expr)
        self._keep(expr, size, None)
        return total + worst

    def _general(self, expr: TreeNode, made: Call) -> tuple[Range, Range | None]:
        """Calls of the language itself."""
        spent = made.spent
        match made.overload:
            case "logical_or" | "logical_and":
                both = made.costs[0] + made.costs[1]
                return Range(made.costs[0].least, both.most), None
            case "conditional":
                size = made.size(1).union(made.size(2))
                self._join(expr, expr.call_expr.args[1], expr.call_expr.args[2])
                return made.costs[0] + made.costs[1].union(made.costs[2]), size
            case "add_string" | "add_bytes" | "add_list":
                size = made.size(0) + made.size(1)
                self._join(expr, expr.call_expr.args[0], expr.call_expr.args[1])
                return spent + (fixed(1) if made.overload == "add_list" else size.times(0.1)), size
            case _:
                return fixed(1) + spent, None

    def _join(self, expr: TreeNode, branch: TreeNode, other: TreeNode) -> None:
        first, second = self._entry(branch), self._entry(other)
        if first and second:
            joined = _Entry(first.is_list, first.key.union(second.key), first.value.union(second.value))
            self._entries[expr.id] = joined

    def _list(self, expr: TreeNode) -> Range:
        elements = expr.list_expr.elements
        cost = self._all(elements)
        self._entries[expr.id] = _Entry(True, fixed(1), self._union(elements))
        return cost + _LIST_COST

    def _struct(self, expr: TreeNode) -> Range:
        struct = expr.struct_expr
        if struct.message_name:
            return self._all([entry.value for entry in struct.entries]) + _MESSAGE_COST
        keys, values = [part.map_key for part in struct.entries], [part.value for part in struct.entries]
        cost = self._all([part for pair in zip(keys, values, strict=True) for part in pair])
        self._entries[expr.id] = _Entry(False, self._union(keys), self._union(values))
        return cost + _MAP_COST

    def _all(self, parts: Sequence[TreeNode]) -> Range:
        total = fixed(0)
        for part in parts:
            total += self.cost(part)
        return total

    def _union(self, parts: Sequence[TreeNode]) -> Range:
        size = Range(MOST if parts else 0, 0)
        for part in parts:
            size = size.union(self._size(part) or UNKNOWN)
        return size

    def _comprehension(self, expr: TreeNode) -> Range:
        whole = expr.comprehension_expr
        ranged = whole.iter_range
        total = self.cost(ranged) + self.cost(whole.accu_init)
        accumulated = _Local(
            self._path(whole.accu_init), self._size(whole.accu_init), self._entry(whole.accu_init)
        )
        self._push(whole.accu_var, accumulated)
        names = [whole.iter_var, *([whole.iter_var2] if whole.iter_var2 else [])]
        for name, local in zip(names, self._iterated(ranged, len(names) == 2), strict=True):
            self._push(name, local)
        per_step = self.cost(whole.loop_condition) + self.cost(whole.loop_step)
        for name in names:
            self._locals[name].pop()
        total += self.cost(whole.result)
        self._locals[whole.accu_var].pop()
        count = self._size(ranged) or UNKNOWN
        total += count * per_step
        match _kind(whole.accu_init):
            case "const_expr":
                self._keep(expr, self._size(whole.accu_init), None)
            case "list_expr" | "struct_expr":
                self._keep(expr, count, self._entry(whole.loop_step))
        return total

    def _iterated(self, ranged: TreeNode, two: bool) -> list[_Local]:
        entry, path = self._entry(ranged), self._path(ranged)
        is_list = entry.is_list if entry else self._type(ranged).startswith("list(")
        key, value = (entry.key, entry.value) if entry else (None, None)
        keys = _Local((*path, "@indices" if is_list and two else "@keys"), key, None)
        values = _Local((*path, "@items" if is_list else "@values"), value, None)
        if two:
            return [keys, values]
        return [values if is_list else keys]

    def _bind(self, expr: TreeNode) -> Range:
        whole = expr.comprehension_expr
        total = self.cost(whole.iter_range) + self.cost(whole.accu_init)
        bound = whole.accu_init
        self._push(whole.accu_var, _Local(self._path(bound), self._size(bound), self._entry(bound)))
        total += self.cost(whole.result)
        self._locals[whole.accu_var].pop()
        self._keep(expr, self._size(whole.result), self._entry(whole.result))
        return total

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _local(self, name: str) -> _Local | None:
        held = self._locals.get(name)
        return held[-1] if held else None

    def _keep(self, expr: TreeNode, size: Range | None, entry: _Entry | None) -> None:
        if size is not None:
            self._sizes[expr.id] = size
        if entry is not None:
            self._entries[expr.id] = entry

    def _type(self, expr: TreeNode) -> str:
        return self._types.get(expr.id, "dyn")

    def _path(self, expr: TreeNode) -> tuple[str, ...]:
        if expr.HasField("ident_expr") and (local := self._local(expr.ident_expr.name)):
            return local.path
        return self._paths.get(expr.id, ())

    def _node(self, expr: TreeNode) -> CelArgument:
        path = self._path(expr)
        shown = () if path and path[0] in _ACCUMULATORS else path
        held = (*shown, "@items") if shown else ()
        return CelArgument(self._type(expr), self._size(expr), lambda: self._of_path(held), expr)

    def _size(self, expr: TreeNode) -> Range | None:
        if expr.id in self._sizes:
            return self._sizes[expr.id]
        size = _literal_size(expr)
        if size is not None:
            return size
        size = self._of_path(self._path(expr))
        if size is not None:
            self._sizes[expr.id] = size
            return size
        if _is_scalar(self._type(expr)):
            return fixed(1)
        local = self._local(expr.ident_expr.name) if expr.HasField("ident_expr") else None
        return local.size if local else None

    def _of_path(self, path: tuple[str, ...]) -> Range | None:
        if not path:
            return None
        kind = inside(self._root, iter(path[1:]))
        return None if kind is None else Range(0, kind.most)

    def _entry(self, expr: TreeNode) -> _Entry | None:
        if expr.id in self._entries:
            return self._entries[expr.id]
        local = self._local(expr.ident_expr.name) if expr.HasField("ident_expr") else None
        return local.entry if local else None


def _kind(expr: TreeNode) -> str:
    return next((name for name in _PARTS if expr.HasField(name)), "const_expr")


_PARTS: Final = ("ident_expr", "select_expr", "call_expr", "list_expr", "struct_expr", "comprehension_expr")


def _is_bind(whole: TreeNode) -> bool:
    ranged, condition = whole.iter_range, whole.loop_condition
    empty = ranged.HasField("list_expr") and not ranged.list_expr.elements
    never = condition.HasField("const_expr") and condition.const_expr.bool_value is False
    return bool(empty and never and whole.accu_var not in _ACCUMULATORS)


def _is_message(kind: str) -> bool:
    return "(" not in kind and "." in kind


def _is_scalar(kind: str) -> bool:
    return kind in _SCALARS or (kind.startswith("optional_type(") and kind[14:-1] in _SCALARS)


def _literal_size(expr: TreeNode) -> Range | None:
    match _kind(expr):
        case "const_expr":
            constant = expr.const_expr
            if constant.HasField("string_value"):
                return fixed(len(constant.string_value))
            return fixed(len(constant.bytes_value)) if constant.HasField("bytes_value") else fixed(1)
        case "list_expr":
            return fixed(len(expr.list_expr.elements))
        case "struct_expr" if not expr.struct_expr.message_name:
            return fixed(len(expr.struct_expr.entries))
        case _:
            return None
