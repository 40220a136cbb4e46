"""What CEL expressions about devices compute with: quantities and versions as messages, and their functions.

A quantity is a message with its exact value as text, a version one with the parts that count in comparisons,
so that `==` between two of them is right by itself. Every function fails with the words of the scheduler.

Source: k8s.io/apiserver/pkg/cel/library (quantity, semver, lists), cel-go ext (sets).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias, cast

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    message,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from tonnage.decide.kubernetes.claims.cel_errors import CelError
from tonnage.decide.kubernetes.claims.semver_problems import semver_problem
from tonnage.model.kubernetes.quantity import parse_quantity

PACKAGE: Final = "kubernetes"
DEVICE: Final = f"{PACKAGE}.DRADevice"
QUANTITY: Final = f"{PACKAGE}.Quantity"
SEMVER: Final = f"{PACKAGE}.Semver"
_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (list, "list"),
    (dict, "map"),
    (type(None), "null_type"),
)

_Elements: TypeAlias = Sequence[Any]  # all of one kind with an order, which the compiler has seen to


class _Quantity(Protocol):
    """Its message."""

    value: str


class _Version(Protocol):
    """Its message."""

    text: str


@cache
def messages() -> descriptor_pool.DescriptorPool:
    """The types that expressions know: quantity, version, and the device as a whole."""
    file = descriptor_pb2.FileDescriptorProto(name="kubernetes.proto", package=PACKAGE, syntax="proto3")
    for name, fields in (("Quantity", ["value"]), ("Semver", ["text"]), ("DRADevice", [])):
        kind = file.message_type.add(name=name)
        for number, field in enumerate(fields, 1):
            kind.field.add(name=field, number=number, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    for module in (any_pb2, struct_pb2, wrappers_pb2, duration_pb2, timestamp_pb2, empty_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool


@cache
def _class(name: str) -> type[message.Message]:
    return message_factory.GetMessageClass(messages().FindMessageTypeByName(name))


def quantity_of(value: Fraction) -> message.Message:
    """An exact quantity as a CEL value."""
    return _class(QUANTITY)(value=str(value))


def semver_of(text: str) -> message.Message:
    """A version as a CEL value; what follows a plus sign does not count.

    Raises:
        CelError: the text is no version.
    """
    if wrong := semver_problem(text):
        raise CelError(wrong)
    return _class(SEMVER)(text=text.partition("+")[0])


def type_name(value: object) -> str:
    """The name of a value's type in the scheduler's errors.

    >>> type_name("x"), type_name(1), type_name(True)
    ('string', 'int', 'bool')
    """
    if isinstance(value, message.Message):
        return str(value.DESCRIPTOR.full_name)
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "dyn")


def _is(value: object, name: str) -> bool:
    return type_name(value) == name


def _amount(value: object) -> Fraction:
    return Fraction(cast("_Quantity", value).value)


def _no_overload(function: str, *values: object) -> CelError:
    return CelError(f"no such overload: {function}({', '.join(type_name(v) for v in values)})")


def _quantity(text: object) -> message.Message:
    if not isinstance(text, str):
        raise _no_overload("quantity", text)
    try:
        return quantity_of(parse_quantity(text))
    except ValueError as error:
        raise CelError(str(error)) from None


def _is_quantity(text: object) -> bool:
    try:
        _quantity(text)
    except CelError:
        return False
    return True


def _of_quantity(name: str, value: object) -> Fraction:
    if not _is(value, QUANTITY):
        raise _no_overload(name, value)
    return _amount(value)


def _as_integer(value: object) -> int:
    amount = _of_quantity("asInteger", value)
    if amount.denominator != 1 or abs(amount) >= 2**63:
        raise CelError("cannot convert value to integer")
    return amount.numerator


def _sum(name: str, sign: int) -> Callable[[object, object], message.Message]:
    def combined(left: object, right: object) -> message.Message:
        if _is(left, QUANTITY) and _is(right, QUANTITY):
            return quantity_of(_amount(left) + sign * _amount(right))
        if _is(left, QUANTITY) and _is(right, "int"):
            return quantity_of(_amount(left) + sign * cast("int", right))
        raise _no_overload(name, left, right)

    return combined


def _order(name: str, left: object, right: object) -> int:
    """-1, 0 or 1 for two quantities or two versions."""
    if _is(left, QUANTITY) and _is(right, QUANTITY):
        a, b = _amount(left), _amount(right)
        return (a > b) - (a < b)
    if _is(left, SEMVER) and _is(right, SEMVER):
        first, second = (_precedence(cast("_Version", v).text) for v in (left, right))
        return (first > second) - (first < second)
    raise _no_overload(name, left, right)


def _precedence(text: str) -> tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]:
    """A sort key of versions: a release is later than what leads to it, numbers before words."""
    core, _, pre = text.partition("-")
    parts = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in pre.split(".") if part
    )
    return tuple(int(number) for number in core.split(".")), not pre, parts


def _normalized(text: str) -> str:
    core, mark, rest = re.match(r"v?([^-+]*)([-+]?)(.*)", text.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    numbers = [part.lstrip("0") or "0" for part in core.split(".")]
    return ".".join([*numbers, "0", "0"][: max(3, len(numbers))]) + mark + rest


def _semver(text: object, normalize: object = False) -> message.Message:
    if not isinstance(text, str):
        raise _no_overload("semver", text)
    return semver_of(_normalized(text) if normalize else text)


def _is_semver(text: object, normalize: object = False) -> bool:
    try:
        _semver(text, normalize)
    except CelError:
        return False
    return True


def _part(name: str, index: int) -> Callable[[object], int]:
    def part(version: object) -> int:
        if not _is(version, SEMVER):
            raise _no_overload(name, version)
        return _precedence(cast("_Version", version).text)[0][index]

    return part


def equal(left: object, right: object) -> bool:
    """Equality by cel-go's rules, which fail when a version stands left of something else.

    Raises:
        CelError: as they do.
    """
    if left is None or right is None:
        return left is None and right is None
    if _is(left, SEMVER) or _is(left, QUANTITY):
        if type_name(left) != type_name(right):
            raise CelError("no such overload")
        return bool(left == right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    return bool(left == right)


def _unequal(left: object, right: object) -> bool:
    try:
        return not equal(left, right)
    except CelError:
        return True


def _holds(values: object, sought: object) -> bool:
    kind = type_name(sought)
    return any(equal(value, sought) for value in cast("list[object]", values) if type_name(value) == kind)


def _contains(values: object, sought: object) -> bool:
    _both_lists("sets.contains", values, sought)
    return all(_holds(values, element) for element in cast("list[object]", sought))


def _both_lists(name: str, left: object, right: object) -> None:
    if not (isinstance(left, list) and isinstance(right, list)):
        raise _no_overload(name, left, right)


def _equivalent(left: object, right: object) -> bool:
    _both_lists("sets.equivalent", left, right)
    return _contains(left, right) and _contains(right, left)


def _intersects(left: object, right: object) -> bool:
    _both_lists("sets.intersects", left, right)
    return any(_holds(left, element) for element in cast("list[object]", right))


def _of_list(name: str, compute: Callable[[_Elements], object]) -> Callable[[object], object]:
    def of_list(values: object) -> object:
        if not isinstance(values, list):
            raise _no_overload(name, values)
        return compute(values)

    return of_list


def _extreme(name: str, choose: Callable[[_Elements], object]) -> Callable[[_Elements], object]:
    def chosen(values: _Elements) -> object:
        if not values:
            raise CelError(f"{name} called on empty list")
        return choose(values)

    return chosen


def _sorted(values: _Elements) -> bool:
    return all(a <= b for a, b in pairwise(values))


FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "sign": lambda q: ((amount := _of_quantity("sign", q)) > 0) - (amount < 0),
    "isInteger": lambda q: _of_quantity("isInteger", q).denominator == 1,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda q: float(_of_quantity("asApproximateFloat", q)),
    "add": _sum("add", 1),
    "sub": _sum("sub", -1),
    "compareTo": lambda a, b: _order("compareTo", a, b),
    "isGreaterThan": lambda a, b: _order("isGreaterThan", a, b) > 0,
    "isLessThan": lambda a, b: _order("isLessThan", a, b) < 0,
    "semver": _semver,
    "isSemver": _is_semver,
    "major": _part("major", 0),
    "minor": _part("minor", 1),
    "patch": _part("patch", 2),
    "sets.contains": _contains,
    "sets.equivalent": _equivalent,
    "sets.intersects": _intersects,
    "sum": _of_list("sum", sum),
    "min": _of_list("min", _extreme("min", min)),
    "max": _of_list("max", _extreme("max", max)),
    "isSorted": _of_list("isSorted", _sorted),
    "includes": lambda v, sought: _holds(v, sought) if isinstance(v, list) else equal(v, sought),
    "@equal": equal,
    "@unequal": _unequal,
}
"""Implementations by name; one that takes several types tells them apart itself."""
