"""What a judge of objects says about one that is to be stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tonnage.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class FieldRefusal:
    """Why an object must not be stored as it is: the path of a field, and what is wrong there."""

    field: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(frozen=True, slots=True)
class AdmissionJudgement:
    """Everything that is wrong with an object. `warnings` are for whoever stores it, and stop nobody."""

    refusals: tuple[FieldRefusal, ...] = ()
    warnings: tuple[str, ...] = ()


ObjectJudge: TypeAlias = Callable[[JsonObject], AdmissionJudgement]
