"""Makes the 750 dataclasses of an embedded cluster quickly, as Python itself does from 3.13 on.

Python 3.11 and 3.12 write and compile six functions for each frozen dataclass, which was a quarter of the
start of `tonnage up`. The methods here do the same and are compiled once. The agent on a node does without.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import Any, Final

_Values = Callable[[Any], tuple[Any, ...]]
_OPERATORS: Final = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@contextmanager
def shared_dataclass_methods() -> Iterator[None]:
    """Let the classes that are made meanwhile share their methods, where Python does not see to it."""
    if sys.version_info >= (3, 13):
        yield
        return
    methods: dict[str, Callable[..., Any]] = {
        "_frozen_get_del_attr": frozen_methods,
        "_repr_fn": repr_method,
        "_cmp_fn": comparison_method,
        "_hash_fn": hash_method,
    }
    before = {name: getattr(dataclasses, name) for name in methods}
    _replace_functions(methods)
    try:
        yield
    finally:
        _replace_functions(before)


def _replace_functions(functions: Mapping[str, Callable[..., Any]]) -> None:
    for name, function in functions.items():
        setattr(dataclasses, name, function)


def frozen_methods(
    cls: Any, fields: Sequence[Field[Any]], _globals: object
) -> tuple[Callable[..., None], Callable[..., None]]:
    """`__setattr__` and `__delattr__` of a frozen class, which refuse its fields."""
    names = frozenset(field.name for field in fields)

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def repr_method(fields: Sequence[Field[Any]], _globals: object) -> Callable[[Any], str]:
    """`__repr__`, which shows these fields."""
    names = [field.name for field in fields]

    def __repr__(self: Any) -> str:  # noqa: N807
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({shown})"

    return recursive_repr()(__repr__)


def hash_method(fields: Sequence[Field[Any]], _globals: object) -> Callable[[Any], int]:
    """`__hash__` over these fields."""
    values = _values_of([field.name for field in fields])

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __hash__


def comparison_method(
    name: str, sign: str, own: str, _others: str, **_globals: object
) -> Callable[[Any, Any], Any]:
    """`__eq__` or an order; `own` is the source of a tuple, `(self.a,self.b,)`."""
    values = _values_of([part.removeprefix("self.") for part in own.strip("()").split(",") if part])
    compared = _OPERATORS[sign]

    def method(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return compared(values(self), values(other))
        return NotImplemented

    method.__name__ = name
    return method


def _values_of(names: list[str]) -> _Values:
    """What reads these attributes of an object."""
    if len(names) > 1:
        several: _Values = operator.attrgetter(*names)
        return several
    return lambda owner: tuple([getattr(owner, name) for name in names])
