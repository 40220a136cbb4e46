"""The DaemonSets of drivers, as they stand in a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tonnage.model.json import JsonObject

IMAGE_NOTE: Final = "tonnage.dev/driver-image"
"""On a DaemonSet: the image fields of its policy, as JSON."""
PREVIOUS_NOTE: Final = "tonnage.dev/previous-driver-image"
"""On a DaemonSet: those before the last change."""


@dataclass(frozen=True, slots=True)
class StandingDaemonSet:
    """A DaemonSet that this controller has written."""

    name: str
    uid: str
    digest: str = ""
    image: str = ""
    previous: str = ""
    owner: str = ""
    """The kind and name that it refers to."""
    template: JsonObject = field(default_factory=dict, repr=False)
    """Its pods' template, as somebody has written it last; empty: not known."""
