"""When the loop of policies looks: other loops ask for a turn when what they say of a policy has changed."""

from __future__ import annotations

from typing import Final

from tonnage.loop.work_queue import WorkQueue
from tonnage.ports.clock import Clock

ALL_POLICIES: Final = "all"
"""The queue's only key: the policies are judged together, since one of them is in force."""
_SOON_S: Final = 0.25
"""Changes come in bursts, which one turn covers."""


class PolicyTurns:
    """The queue of `PolicyLoop`. It is made before the loops, so that each is given it when it is made."""

    def __init__(self, clock: Clock) -> None:
        self.queue: WorkQueue[str] = WorkQueue(clock)

    def soon(self) -> None:
        """Have all policies looked at."""
        self.queue.add_after(ALL_POLICIES, _SOON_S)
