"""When an action may be performed once more."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class Retry(Enum):
    """The class of retry of an action, whatever came of it before.

    IDEMPOTENT: at any time; what is so already stays. LOOK_FIRST: only after what it changes was read anew: a
    step that is said to have failed may have been done. NEVER: only after a note on disk that it is about to
    be performed, and once for each note.
    """

    IDEMPOTENT = "idempotent"
    LOOK_FIRST = "look first"
    NEVER = "never"


class LooksFirst:
    """Base of the actions that are performed only after a look at their subject."""

    __slots__ = ()

    retry: ClassVar[Retry] = Retry.LOOK_FIRST

    @property
    def subject(self) -> str:
        """What has to be read before, as `subjects` names it."""
        raise NotImplementedError
