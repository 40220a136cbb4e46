"""What a registry says of an image."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TagState(Enum):
    """Whether an image exists."""

    EXISTS = "exists"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ImageAnswer:
    """`why` is why nothing is known."""

    state: TagState
    why: str = ""


@dataclass(frozen=True, slots=True)
class RegistryRoute:
    """How a registry is reached, as a policy says it for its drivers' images.

    `proxy` counts for hosts that `no_proxy` does not name; where it is empty, that of this process does.
    `authorities` are certificates in PEM that are trusted beside those of the system.
    """

    proxy: str = ""
    no_proxy: str = ""
    authorities: str = ""
