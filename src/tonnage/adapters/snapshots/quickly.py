"""Objects of frozen dataclasses, made in a fifth of the time that their own constructors take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quickly(cls: type[T]) -> Callable[..., T]:
    """What makes objects of a frozen dataclass with slots; it takes every field, in their order.

    An object is made of a class with the same slots that lets fields be set, and then becomes one of `cls`:
    the constructor of a frozen class sets each field by its name.

    >>> from tonnage.model.cluster import Owner
    >>> quickly(Owner)("Job", "train")
    Owner(kind='Job', name='train')
    """
    slots = {part.name: Any for part in fields(cls)}  # type: ignore[arg-type]
    draft: Any = dataclass(slots=True, eq=False, repr=False)(
        type(cls.__name__, (), {"__annotations__": slots, "__module__": __name__})
    )

    def made(*values: Any) -> T:
        found: Any = draft(*values)
        found.__class__ = cls
        whole: T = found
        return whole

    return made
