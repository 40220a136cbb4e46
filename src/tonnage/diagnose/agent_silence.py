"""Which agents are silent: what they reported of their nodes is old, and may no longer be so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.node.gpu_status import GpuStatus

SILENT_AFTER: Final = timedelta(minutes=3)
"""Three heartbeats that did not come."""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """How old what an agent reported is. `age` None: an older agent, which does not say."""

    heartbeat: datetime | None = None
    age: timedelta | None = None

    @property
    def silent(self) -> bool:
        """Whether the agent is gone, or cannot reach the API server."""
        return self.age is not None and self.age > SILENT_AFTER

    @property
    def words(self) -> str:
        """What a person reads of a silent agent; empty of one that lives."""
        if not self.silent or self.age is None or self.heartbeat is None:
            return ""
        return f"agent silent for {duration(self.age)} (since {timestamp(self.heartbeat)})"

    def to_json(self) -> JsonObject:
        """As commands print it; null where it is not known."""
        return {
            "heartbeat_at": timestamp(self.heartbeat) if self.heartbeat is not None else None,
            "age_s": int(self.age.total_seconds()) if self.age is not None else None,
            "silent": self.silent if self.age is not None else None,
        }


def agent_facts(status: GpuStatus | None, now: datetime | None) -> AgentFacts:
    """The age of a report at a moment. A heartbeat that is ahead of it is of now."""
    heartbeat = status.heartbeat if status is not None else None
    if heartbeat is None or now is None:
        return AgentFacts(heartbeat)
    return AgentFacts(heartbeat, max(now - heartbeat, timedelta()))


def moment_of(snapshot: Snapshot) -> datetime | None:
    """When the snapshot was taken, by the API server's clock.

    A list of objects does not say: it is at least as new as the newest heartbeat in it.
    """
    if snapshot.now is not None:
        return snapshot.now
    return max((s.heartbeat for s in snapshot.gpu.values() if s.heartbeat is not None), default=None)


def duration(span: timedelta) -> str:
    """A span in its largest unit.

    >>> [duration(timedelta(seconds=s)) for s in (59, 200, 7300, 200_000)]
    ['59s', '3m', '2h', '2d']
    """
    seconds = int(span.total_seconds())
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
