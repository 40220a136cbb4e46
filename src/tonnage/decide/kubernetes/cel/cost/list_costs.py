"""What calls of the libraries of lists and sets cost.

Source: cel-go v0.26 ext/lists.go, ext/sets.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tonnage.decide.kubernetes.cel.cost.calls import Call, CelArgument, Cost
from tonnage.decide.kubernetes.cel.cost.ranges import MOST, Range, fixed

_MADE: Final = fixed(11)
"""The call and the new list."""


def _whole(node: CelArgument, otherwise: int) -> int:
    constant = node.expr.const_expr
    return constant.int64_value % (MOST + 1) if constant.HasField("int64_value") else otherwise


def _allocated(factor: float, size: Range) -> Cost:
    return size.times(factor) + _MADE, size


def _slice(call: Call) -> Cost:
    begin, end = _whole(call.arguments[0], 0), _whole(call.arguments[1], call.on.most)
    return _allocated(1, fixed((end - begin) % (MOST + 1)))


def _flatten(call: Call) -> Cost:
    depth = _whole(call.arguments[0], MOST) if call.arguments else 1
    return _allocated(depth, call.on)


def _sorted(size: Range, kind: str) -> Cost:
    texts = kind in ("list(string)", "list(bytes)")
    return _allocated(2.1 if texts else 2, size * size)


def _sort(call: Call) -> Cost:
    return _sorted(call.on, call.target.kind if call.target else "")


def _sort_by(call: Call) -> Cost:
    return _sorted(call.size(0), call.arguments[0].kind)


def _sets(factor: int) -> Callable[[Call], Cost]:
    return lambda call: ((call.size(0) * call.size(1)).times(factor) + fixed(1), None)


LIST_COSTS: Final[Mapping[str, Callable[[Call], Cost | None]]] = {
    "slice": _slice,
    "flatten": _flatten,
    "lists.range": lambda call: _allocated(1, fixed(_whole(call.arguments[0], MOST))),
    "reverse": lambda call: _allocated(1, call.on),
    "distinct": lambda call: _allocated(2, call.on * call.on),
    "sort": _sort,
    "@sortByAssociatedKeys": _sort_by,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
