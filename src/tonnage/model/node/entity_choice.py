"""Which devices have rows of metrics, in dcgm-exporter's words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_CHOICE: Final = re.compile(
    r"(?P<kind>[fgi])(?P<gpus>:[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*)?"
)
_LONGEST: Final = 1000


class EntityKind(StrEnum):
    """AS_DIVIDED: GPUs, and instead of a divided one its GPU instances."""

    AS_DIVIDED = "f"
    GPUS = "g"
    INSTANCES = "i"


@dataclass(frozen=True, slots=True)
class EntityChoice:
    """`gpus` are the indices of those chosen; None: all."""

    kind: EntityKind = EntityKind.AS_DIVIDED
    gpus: frozenset[int] | None = None

    def has(self, index: int) -> bool:
        """Whether the GPU of that index is among them."""
        return self.gpus is None or index in self.gpus


def entity_choice(text: str) -> EntityChoice | None:
    """What `--devices` of dcgm-exporter says; None: nothing. Numbers of instances are DCGM's own.

    >>> entity_choice("g:0,2-3")
    EntityChoice(kind=<EntityKind.GPUS: 'g'>, gpus=frozenset({0, 2, 3}))
    >>> entity_choice("i:4") is None
    True
    """
    match = _CHOICE.fullmatch(text[:_LONGEST])
    if match is None:
        return None
    kind = EntityKind(match["kind"])
    if match["gpus"] is None:
        return EntityChoice(kind)
    if kind is not EntityKind.GPUS:
        return None
    ranges = (part.partition("-") for part in match["gpus"][1:].split(","))
    gpus = frozenset(n for first, _, last in ranges for n in range(int(first), int(last or first) + 1))
    return EntityChoice(kind, gpus)
