"""How long tests wait for what should come at once: so long that a busy machine is no defect."""

from __future__ import annotations

import threading
from typing import Final

LIMIT_S: Final = 60.0


def join(thread: threading.Thread) -> None:
    """Wait for the end of a thread; fail where it does not come."""
    thread.join(LIMIT_S)
    assert not thread.is_alive(), f"{thread.name} has not ended within {LIMIT_S:.0f} s"
