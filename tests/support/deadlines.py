"""How long tests wait for what should come at once: so long that a busy machine is no defect."""

from __future__ import annotations

import threading
from multiprocessing.process import BaseProcess
from typing import Final

LIMIT_S: Final = 60.0


def join(worker: threading.Thread | BaseProcess) -> None:
    """Wait for the end of a thread or a process; fail where it does not come."""
    worker.join(LIMIT_S)
    assert not worker.is_alive(), f"{worker.name} has not ended within {LIMIT_S:.0f} s"
