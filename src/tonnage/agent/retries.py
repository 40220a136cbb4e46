"""When a write that the cluster did not take is tried again."""

from __future__ import annotations

from typing import Final

from tonnage.model.errors import ApiError

_RETRY_S: Final = 5.0
_LONGEST_S: Final = 600.0


class Retries:
    """The pauses of one loop. What is forbidden is asked for ever more seldom, as nobody may ever grant it.

    The first refusals are followed up soon: roles and agents are installed together, in any order.

    >>> retries, forbidden = Retries(), ApiError(403, "Forbidden", "nodes is forbidden")
    >>> [retries.after(forbidden) for _ in range(3)], retries.after(OSError())
    ([5.0, 10.0, 20.0], 5.0)
    """

    def __init__(self) -> None:
        self._pause_s = _RETRY_S

    def after(self, error: Exception) -> float:
        """Seconds to wait after this failure."""
        if not (isinstance(error, ApiError) and error.code == 403):
            self._pause_s = _RETRY_S
            return _RETRY_S
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_S)
        return pause_s

    def succeeded(self) -> None:
        """Begin anew."""
        self._pause_s = _RETRY_S
