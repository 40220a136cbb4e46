"""Dataclasses whose methods are shared behave as those of which Python compiles each method."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tonnage.cli.up.quick_dataclasses import shared_dataclass_methods


@dataclass(frozen=True, slots=True)
class Classes:
    """The same classes, made in one way or the other."""

    empty: Any
    single: Any
    several: Any
    ordered: Any
    derived: Any


def _classes() -> Classes:
    @dataclass(frozen=True, slots=True)
    class Empty:
        """No field."""

    @dataclass(frozen=True)
    class Single:
        """One field, whose value may be a tuple."""

        a: Any

    @dataclass(frozen=True, slots=True)
    class Several:
        """A default, and fields that are not compared, not shown or not hashed."""

        a: Any
        b: int = 2
        unlike: int = field(default=0, compare=False)
        hidden: int = field(default=0, repr=False)
        no_hash: list[int] = field(default_factory=list, hash=False)

    @dataclass(order=True)
    class Ordered:
        """Not frozen."""

        a: int
        b: str = ""

    @dataclass(frozen=True, slots=True)
    class Derived(Several):
        """A field more."""

        c: int = 3

    return Classes(Empty, Single, Several, Ordered, Derived)


def _set(value: Any, name: str) -> None:
    setattr(value, name, 1)


def _loop(made: Classes) -> str:
    value = made.single([])
    value.a.append(value)
    return repr(value)


QUESTIONS: dict[str, Callable[[Classes], Any]] = {
    "objects without fields are equal": lambda c: (c.empty() == c.empty(), hash(c.empty()), repr(c.empty())),
    "a single field is compared as a tuple": lambda c: (
        c.single((1, 2)) == c.single((1, 2)),
        hash(c.single((1, 2))),
        c.single(1) == c.single(2),
    ),
    "what is no number differs from another": lambda c: c.several(float("nan")) == c.several(float("nan")),
    "the same object in a field is equal": lambda c: c.several(math.nan) == c.several(math.nan),
    "the only field is compared as a tuple": lambda c: c.single(math.nan) == c.single(math.nan),
    "fields that are not compared do not count": lambda c: (
        c.several(1, unlike=1) == c.several(1, unlike=2),
        hash(c.several(1, no_hash=[1])) == hash(c.several(1, no_hash=[2])),
        c.several(1, no_hash=[1]) == c.several(1, no_hash=[2]),
    ),
    "fields that are not shown are not": lambda c: repr(c.several("x", hidden=9)),
    "an object in itself is three dots": _loop,
    "another class is never equal": lambda c: (c.several(1) == c.derived(1), c.several(1) == 1),
    "an order is that of the tuples": lambda c: (
        c.ordered(1) < c.ordered(1, "b"),
        c.ordered(2) <= c.ordered(1, "b"),
        c.ordered(2) > c.ordered(1, "b"),
        c.ordered(1) >= c.ordered(1),
    ),
    "another class has no order": lambda c: c.ordered(1) < 1,
    "what can be changed has no hash": lambda c: hash(c.ordered(1)),
    "a field cannot be assigned": lambda c: _set(c.several(1), "b"),
    "a field of the base cannot be assigned": lambda c: _set(c.derived(1), "b"),
    "what is no field cannot be assigned": lambda c: _set(c.single(1), "b"),
    "a field cannot be deleted": lambda c: delattr(c.single(1), "a"),
    "a copy differs in what was given": lambda c: repr(replace(c.derived(1), c=4)),
    "methods have the names of their class": lambda c: [
        getattr(c.derived, name).__qualname__ for name in ("__eq__", "__hash__", "__repr__", "__setattr__")
    ],
}


def _written(made: Classes) -> int:
    """Of how many methods Python has written the text."""
    methods = (vars(made.several)[name] for name in ("__eq__", "__hash__", "__setattr__", "__delattr__"))
    return sum(method.__code__.co_filename == "<string>" for method in methods)


def _answer(question: Callable[[Classes], Any], made: Classes) -> Any:
    try:
        return question(made)
    except (TypeError, dataclasses.FrozenInstanceError) as error:
        return type(error), str(error)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python itself makes them quickly")
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_class_answers_as_one_of_which_each_method_is_compiled(
    question: Callable[[Classes], Any],
) -> None:
    with shared_dataclass_methods():
        made = _classes()
    compiled = _classes()
    assert _written(made) == 0 < _written(compiled)
    assert _answer(question, made) == _answer(question, compiled)
