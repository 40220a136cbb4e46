"""When an action may be performed once more."""

from __future__ import annotations

from enum import Enum


class Retry(Enum):
    """The class of retry of an action, whatever came of it before.

    IDEMPOTENT: at any time; what is so already stays. LOOK_FIRST: only after what it changes was read anew: a
    step that is said to have failed may have been done. NEVER: only after a note on disk that it is about to
    be performed, and once for each note.
    """

    IDEMPOTENT = "idempotent"
    LOOK_FIRST = "look first"
    NEVER = "never"
