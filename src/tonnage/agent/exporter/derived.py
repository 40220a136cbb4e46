"""What a page keeps between scrapes: made anew only where what it follows from has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Derived(Generic[T]):
    """The last value, and what it was made of."""

    def __init__(self) -> None:
        self._sources: tuple[object, ...] | None = None
        self._value: T | None = None

    def of(self, sources: tuple[object, ...], make: Callable[[], T]) -> T:
        """What was made of these sources. Those that are the same objects as before are not looked into."""
        if self._value is None or sources != self._sources:
            self._value = make()
            self._sources = sources
        return self._value
