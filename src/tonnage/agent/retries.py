"""When a write that the cluster did not take is tried again."""

from __future__ import annotations

from typing import Final

from tonnage.model.errors import ApiError, ClusterError, HardwareError

_RETRY_S: Final = 5.0
_LONGEST_S: Final = 600.0
_UNREACHABLE_S: Final = 20.0
"""A server that comes back is found within that time, as by the informers."""


class Retries:
    """The pauses of one loop. What is forbidden is asked for ever more seldom, as nobody may ever grant it.

    So is a server that cannot be reached, within bounds. The first refusals are followed up soon: roles and
    agents are installed together, in any order.

    >>> retries, forbidden = Retries(), ApiError(403, "Forbidden", "nodes is forbidden")
    >>> [retries.after(forbidden) for _ in range(4)], retries.after(ApiError(409, "Conflict", "stale"))
    ([5.0, 10.0, 20.0, 40.0], 5.0)
    >>> [retries.after(ClusterError()) for _ in range(4)]
    [5.0, 10.0, 20.0, 20.0]
    """

    def __init__(self) -> None:
        self._pause_s = _RETRY_S

    def after(self, error: ClusterError | HardwareError) -> float:
        """Seconds to wait after this failure."""
        longest_s = _RETRY_S
        if isinstance(error, ApiError):
            longest_s = _LONGEST_S if error.code == 403 else _RETRY_S
        elif isinstance(error, ClusterError):
            longest_s = _UNREACHABLE_S
        pause_s = min(self._pause_s, longest_s)
        self._pause_s = min(2 * pause_s, longest_s)
        return pause_s

    def succeeded(self) -> None:
        """Begin anew."""
        self._pause_s = _RETRY_S
