"""Which agents are silent: what they reported of their nodes is old, and may no longer be so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import SILENT_AFTER, GpuStatus
from tonnage.model.reasons.node.plugin import AgentSilent


@dataclass(frozen=True, slots=True)
class ReportAge:
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


UNKNOWN_AGE: Final = ReportAge()


def report_age(status: GpuStatus | None, now: datetime | None) -> ReportAge:
    """The age of a report at a moment."""
    return heartbeat_age(status.heartbeat if status is not None else None, now)


def heartbeat_age(heartbeat: datetime | None, now: datetime | None) -> ReportAge:
    """The age of a heartbeat at a moment. One that is ahead of it is of now."""
    if heartbeat is None or now is None:
        return ReportAge(heartbeat)
    return ReportAge(heartbeat, max(now - heartbeat, timedelta()))


def moment_of(snapshot: Snapshot) -> datetime | None:
    """When the snapshot was taken, by the API server's clock.

    A list of objects does not say: it is at least as new as the newest heartbeat in it.
    """
    if snapshot.now is not None:
        return snapshot.now
    return max((s.heartbeat for s in snapshot.gpu.values() if s.heartbeat is not None), default=None)


def silent_agents(snapshot: Snapshot, nodes: Iterable[str]) -> tuple[str, ...]:
    """Those nodes whose agents are silent."""
    now = moment_of(snapshot)
    return tuple(name for name in nodes if report_age(snapshot.gpu.get(name), now).silent)


def silence(snapshot: Snapshot, nodes: Sequence[str]) -> AgentSilent:
    """The reason that agents are silent, of nodes where they are."""
    now = moment_of(snapshot)
    reports = [report_age(snapshot.gpu.get(name), now) for name in nodes]
    ages = [report.age for report in reports if report.age is not None]
    named = [f"{name} ({duration(age)})" for name, age in zip(nodes, ages, strict=True)]
    subject = f"Node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    plural = "agents" if len(nodes) > 1 else "agent"
    return AgentSilent(
        subject=subject,
        message=f"no heartbeat of the {plural} of {listed(named, 4)}: health, holders, links and sharing of "
        "its devices are as of then",
        remedy="check the agent's pod: kubectl -n tonnage-system get pods -o wide "
        f"--field-selector spec.nodeName={nodes[0]}",
        source="NodeGPUStatus status.heartbeatAt",
        nodes=tuple(nodes),
        age_s=int(max(ages).total_seconds()),
    )


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
