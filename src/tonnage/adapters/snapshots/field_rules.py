"""What may be kept of a field in a captured cluster. Whatever no rule names is never captured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias


class FieldMark(Enum):
    """How a field is kept. A list under a mark is a list of what the mark describes."""

    SCALAR = auto()
    """A number, a truth value or a word: no objects."""
    WHOLE = auto()
    """All that is there, of whatever shape."""
    AMOUNTS = auto()
    """Scalars by resource name."""
    RESOURCE = auto()
    """The name of a resource; it may have the name of a DeviceClass or StorageClass in it, or be a claim."""
    BY_POD = auto()
    """Scalars by the name of a pod."""
    TEXT = auto()
    """What some component says in its own words; it may quote what is left out elsewhere."""
    LAST_WORDS = auto()
    """What a program says of itself: what the catalogue of messages knows of it, and nothing else."""
    NOTES = auto()
    """Annotations: the few that decide an answer."""
    LABELS = auto()
    LABEL_KEY = auto()
    KEYED = auto()
    """An object with the `key` of a label and its `value` or `values`: a taint, toleration or requirement."""
    NODE_FIELDS = auto()
    """A requirement on a node's fields: its name."""
    CONFIG_SOURCE = auto()
    """Where a device-plugin configuration is from, such as `namespace/configmap[key]`."""
    IMAGE = auto()
    VARIABLE = auto()
    """The name of an environment variable."""
    OWNER = auto()
    """The `name` belongs to an object of the `kind` beside it."""
    VOLUME = auto()
    """Kept only when it has a say in where a pod may run."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The name of an object; `prefix` is what its pseudonym starts with."""

    prefix: str


Rules: TypeAlias = Mapping[str, "Rule"]
Rule: TypeAlias = FieldMark | ObjectName | Rules
