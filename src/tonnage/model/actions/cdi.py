"""Changes of the CDI specs that container runtimes read: what `CdiFiles` does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tonnage.model.actions.retry import Retry


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """Replace a file of the folder whole."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    file: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RemoveSpec:
    """The file is no more, if it was."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    file: str


CdiAction: TypeAlias = WriteSpec | RemoveSpec
