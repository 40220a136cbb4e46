"""What single calls cost: of functions of the language that look at all of a value, and of Kubernetes' own.

Source: cel-go v0.26 checker/cost.go (functionCost), k8s.io/apiserver pkg/cel/library/cost.go (1.35.8).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from tonnage.decide.kubernetes.cel.cost.calls import Call, CelArgument, Cost
from tonnage.decide.kubernetes.cel.cost.list_costs import LIST_COSTS
from tonnage.decide.kubernetes.cel.cost.ranges import MOST, UNKNOWN, Range, fixed

_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25
_LONGEST_PATTERN: Final = 128
_LONGEST_FORMAT: Final = 64
_OF_A_SELECTOR: Final = 10
_OF_A_REQUIREMENT: Final = 50.0
_CHECK: Final = fixed(350000)


def call_cost(call: Call) -> Cost | None:
    """What a call costs with its arguments, and its result's size; None where no rule of its own is there."""
    rule = _BY_FUNCTION.get(call.function) or _BY_OVERLOAD.get(call.overload)
    cost = rule(call) if rule else None
    if cost is None and call.function in _BY_FUNCTION:
        rule = _BY_OVERLOAD.get(call.overload)
        cost = rule(call) if rule else None
    return None if cost is None else (cost[0] + call.spent, cost[1])


def _nominal(_: Call) -> Cost | None:
    return fixed(1), None


def _check(_: Call) -> Cost | None:
    return _CHECK, None


def _selector(call: Call) -> Cost | None:
    length = call.size(0)
    return fixed(_OF_A_SELECTOR) + length.times(_TRAVERSAL) + length.times(0.5).times(_OF_A_REQUIREMENT), None


def _held(node: CelArgument) -> tuple[str, Range] | None:
    """Type and size of a list's elements."""
    if not node.kind.startswith("list("):
        return None
    return node.kind[5:-1], node.held() or UNKNOWN


def _through_list(call: Call) -> Cost | None:
    """Each element is compared; texts are gone through for that."""
    if call.target is None:
        return None
    held = _held(call.target)
    if held is None:
        return call.on.times(_TRAVERSAL), None
    kind, size = held
    per_element = fixed(1) + size.times(_TRAVERSAL) if kind in ("string", "bytes") else fixed(1)
    return call.on * per_element, None


def _parsed(factor: float = 1) -> Callable[[Call], Cost | None]:
    def parsed(call: Call) -> Cost | None:
        return (call.size(0).times(factor * _TRAVERSAL), None) if call.arguments else None

    return parsed


def _url(call: Call) -> Cost | None:
    return call.size(0).times(_TRAVERSAL), call.size(0)


def _same_size(call: Call) -> Cost | None:
    return call.on.times(_TRAVERSAL), call.on


def _replace(call: Call) -> Cost | None:
    size, out, into = call.on, call.size(0), call.size(1)
    longest, kept_longest = 0, 0
    if out.least == 0:
        longest, kept_longest = min(size.most + 1, MOST), size.most
    elif into.most <= out.least:
        kept_longest = size.most
    else:
        longest = math.ceil(float(size.most) / float(out.least))
    shortest, kept_shortest = 0, 0
    if out.most == 0:
        shortest, kept_shortest = min(size.least + 1, MOST), size.least
    elif out.most <= into.least:
        kept_shortest = size.least
    else:
        shortest = math.ceil(float(size.least) / float(out.most))
    made = Range(shortest, longest) * into + Range(kept_shortest, kept_longest)
    return size.times(2 * _TRAVERSAL), made


def _split(call: Call) -> Cost | None:
    most = call.on.most
    if len(call.arguments) > 1 and call.arguments[1].expr.const_expr.HasField("int64_value"):
        most = call.arguments[1].expr.const_expr.int64_value % (MOST + 1)
    return call.on.times(2 * _TRAVERSAL), Range(0, most)


def _join(call: Call) -> Cost | None:
    if call.target is None:
        return None
    held, size = _held(call.target), fixed(0)
    if held is not None:
        size = call.on * held[1]
    if call.arguments:
        size += call.size(0) * Range(max(call.on.least - 1, 0), max(call.on.most - 1, 0))
    return size.times(_TRAVERSAL), size


def _find(call: Call) -> Cost | None:
    text = (call.on + fixed(1)).times(_TRAVERSAL)
    return text * call.size(0).times(_PATTERN), Range(0, call.on.most)


def _ip(call: Call) -> Cost | None:
    return (fixed(1), None) if call.overload == "cidr_ip" else _parsed()(call)


_ADDRESS: Final = Range(4, 16)


def _contains_ip(call: Call) -> Cost | None:
    cost = (_ADDRESS + _ADDRESS).times(_TRAVERSAL)
    return cost + (call.size(0).times(_TRAVERSAL) if call.overload.endswith("_string") else fixed(0)), None


def _contains_cidr(call: Call) -> Cost | None:
    cost = (_ADDRESS + _ADDRESS).times(_TRAVERSAL) + _ADDRESS.times(_TRAVERSAL) + fixed(1)
    return cost + (call.size(0).times(_TRAVERSAL) if call.overload.endswith("_string") else fixed(0)), None


def _validate(call: Call) -> Cost | None:
    return call.size(0).times(_TRAVERSAL).times(_LONGEST_PATTERN * _PATTERN), None


_CHEAP: Final = frozenset(
    {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}
    | {f"kubernetes.authorization.{class_name}" for class_name in ("Authorizer", "PathCheck", "GroupCheck")}
    | {f"kubernetes.authorization.{class_name}" for class_name in ("ResourceCheck", "Decision")}
)


def _equal(call: Call) -> Cost | None:
    left, right = call.arguments
    if left.kind != right.kind:
        return None
    if left.kind in _CHEAP:
        return fixed(1), None
    if left.kind == "kubernetes.NamedFormat":
        return Range(1, _LONGEST_FORMAT).times(_TRAVERSAL), None
    if left.kind == "kubernetes.URL":
        return Range(1, right.size.most if right.size else 1).times(_TRAVERSAL), None
    return None


def _compared(call: Call) -> Cost | None:
    most = min(call.size(0).most, call.size(1).most)
    return Range(1 if most else 0, most).times(_TRAVERSAL), None


def _string_to_bytes(call: Call) -> Cost | None:
    size = call.size(0)
    return size.times(_TRAVERSAL), Range(size.least, size.most * 4 % (MOST + 1))


def _bytes_to_string(call: Call) -> Cost | None:
    size = call.size(0)
    return size.times(_TRAVERSAL), Range(size.least // 4, size.most)


def _quote(call: Call) -> Cost | None:
    size = call.size(0)
    return size.times(_TRAVERSAL), Range(size.least + 2, (size.most * 2 + 2) % (MOST + 1))


def _matches(call: Call) -> Cost | None:
    if call.target is None:
        return None
    return (call.on + fixed(1)).times(_TRAVERSAL) * call.size(0).times(_PATTERN), None


def _contains(call: Call) -> Cost | None:
    return call.on.times(_TRAVERSAL) * call.size(0).times(_TRAVERSAL), None


_BY_FUNCTION: Final[Mapping[str, Callable[[Call], Cost | None]]] = {
    **LIST_COSTS,
    "check": _check,
    "fieldSelector": _selector,
    "labelSelector": _selector,
    "url": _url,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "ip": _ip,
    "ip.isCanonical": _parsed(2),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equal,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _through_list),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_size),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _parsed()),
    **dict.fromkeys(
        (
            *("serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed"),
            *(
                "reason",
                "error",
                "errored",
                "masked",
                "prefixLength",
                "family",
                "isUnspecified",
                "isLoopback",
            ),
            *("isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign"),
            *("asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo"),
            *("add", "sub", "major", "minor", "patch", "getScheme", "getHostname", "getHost", "getPort"),
            *("getEscapedPath", "getQuery"),
        ),
        _nominal,
    ),
}
_ORDERS: Final = ("less", "greater", "less_equals", "greater_equals")
_BY_OVERLOAD: Final[Mapping[str, Callable[[Call], Cost | None]]] = {
    "string_format": lambda call: (call.on.times(_TRAVERSAL), None),
    "string_to_bytes": _string_to_bytes,
    "bytes_to_string": _bytes_to_string,
    "strings_quote": _quote,
    "starts_with_string": lambda call: (call.size(0).times(_TRAVERSAL), None),
    "ends_with_string": lambda call: (call.size(0).times(_TRAVERSAL), None),
    "in_list": lambda call: (call.size(1), None),
    "matches_string": _matches,
    "contains_string": _contains,
    **dict.fromkeys((f"{order}_{kind}" for order in _ORDERS for kind in ("string", "bytes")), _compared),
    "equals": _compared,
    "not_equals": _compared,
}
