"""The records, and what would stand in them now."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from golden.clusters import MATRIX, lab_clusters, session_of_the_matrix, session_on
from golden.files import file_sessions
from golden.live import live_session
from golden.served import served_clusters, served_session
from golden.sessions import Session, record_of
from golden.usage import usage_sessions

RECORDS: Final = Path(__file__).parent / "records"
_FIXED: Final[dict[str, Session]] = {
    session.name: session for session in (*file_sessions(), *usage_sessions())
}
NAMES: Final = (
    "live",
    *(f"labs/{name}" for name in lab_clusters()),
    *(f"served/{name}" for name in served_clusters(lab_clusters())),
    *_FIXED,
    *(f"matrix/{name}" for name in MATRIX),
)
"""Of all records: their paths below `RECORDS`, without the ending."""


def current(name: str) -> str:
    """What the record would be if it were written now."""
    if name in _FIXED:
        return record_of(_FIXED[name])
    if name == "live":
        with live_session() as session:
            return record_of(session)
    folder, _, below = name.partition("/")
    if folder == "served":
        with served_session(below) as session:
            return record_of(session)
    if folder == "labs":
        return record_of(session_on(below))
    with session_of_the_matrix(below) as session:
        return record_of(session)


@contextmanager
def recorder() -> Iterator[Callable[[str], str]]:
    """`current` in another process, where no test has changed what click remembers of its commands."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield lambda name: pool.apply(current, (name,))


def path_of(name: str) -> Path:
    """Where the record lies."""
    return RECORDS / f"{name}.txt"
