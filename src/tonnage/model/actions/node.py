"""Changes of the agent's Node by the Kubernetes API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tonnage.model.actions.retry import Retry
from tonnage.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class PatchNode:
    """Merge this into the Node: labels, annotations, whether it is cordoned."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    node: str
    patch: JsonObject = field(repr=False)


@dataclass(frozen=True, slots=True)
class PatchNodeStatus:
    """Have these conditions in the Node's status, beside those of others."""

    retry: ClassVar[Retry] = Retry.IDEMPOTENT

    node: str
    patch: JsonObject = field(repr=False)
