"""How the scheduler words what breaks after it has chosen a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tonnage.model.errors import ApiError, ClusterError, Problem


def failing(action: str, error: ClusterError) -> ClusterError:
    """The error with what it kept from being done."""
    words = error.message if isinstance(error, ApiError) else str(error)
    return ClusterError(Problem(f"{action}: {words}"))


@contextmanager
def running(point: str, plugin: str) -> Iterator[None]:
    """Name the plugin in an error that it raises."""
    try:
        yield
    except ClusterError as error:
        raise failing(f'running {point} plugin "{plugin}"', error) from None
