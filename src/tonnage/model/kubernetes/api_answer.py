"""What an API server answers to an object that somebody wants to create, in its own words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tonnage.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class ApiFault:
    """A field that is refused; `field` as `spec.containers[0].name`, empty for the object as a whole."""

    field: str
    text: str

    @property
    def words(self) -> str:
        """As the server lists it."""
        return f"{self.field}: {self.text}" if self.field else self.text


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """Without a `message` the object is created. A body that cannot be decoded has a message and no faults.

    `message` is the Status' whole, `warnings` are the texts of its Warning headers. `namespace`: where the
    object would be, empty for kinds without. `later`: what the server will refuse once the unknown fields of
    such a body are gone.
    """

    message: str = ""
    faults: tuple[ApiFault, ...] = ()
    warnings: tuple[str, ...] = ()
    namespace: str = ""
    later: tuple[ApiFault, ...] = ()


ApiServer = Callable[[JsonObject, str], ApiAnswer | None]
"""The answer to an object, in a namespace if it names none; None for kinds whose rules are not at hand."""
