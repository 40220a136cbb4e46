"""Labels and objects that are to change, in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tonnage.model.json import JsonValue

if TYPE_CHECKING:
    from tonnage.decide.cluster.operate.operand_sets import ObjectChanges


def label_words(changes: Iterable[tuple[str, JsonValue]]) -> str:
    """The changes of labels in a line; None takes one away.

    >>> label_words([("a/b", "true"), ("a/c", None)])
    'a/b=true, remove a/c'
    """
    return ", ".join(f"remove {key}" if value is None else f"{key}={value}" for key, value in changes)


def object_words(changes: ObjectChanges) -> str:
    """What becomes of objects of a kind, in a line."""
    words = (
        ("create", changes.create),
        ("delete", changes.delete),
        ("leave to somebody else", changes.others),
    )
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in words if names)
