"""What the server itself writes of a new object: who it is, and which status it begins with.

Source: apiserver's rest.BeforeCreate and names.SimpleNameGenerator (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping

CREATED_WITH_STATUS: Final = frozenset({("", "nodes"), ("networking.k8s.io", "servicecidrs")})
"""Kinds that are created with the status that was sent: a kubelet registers its node with conditions."""
_LONGEST_GENERATED: Final = 63


def drop_identity(obj: JsonObject) -> None:
    """Take from a new object what only the server writes; it is written once admission has completed it."""
    metadata = mapping(obj, "metadata")
    for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(key, None)


def generated_name(prefix: str, suffix: str) -> str:
    """The prefix, cut so that both fit a name, with the suffix.

    >>> generated_name("train-", "x7k2p")
    'train-x7k2p'
    """
    return prefix[: _LONGEST_GENERATED - len(suffix)] + suffix
