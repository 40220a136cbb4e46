"""What each GPU node waits for, judged again only once something has changed: fleets are large."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tonnage.decide.cluster.operate.node_readiness import NodeReadiness, gpu_nodes, readiness
from tonnage.loop.informer import Delta, Informers, key_of
from tonnage.model.node.gpu_status import SILENT_AFTER
from tonnage.reading.gpu_policy import operated_node_from
from tonnage.reading.gpu_status import heartbeat_of, is_news
from tonnage.wire.kinds import NODE, NODE_GPU_STATUS
from tonnage.wire.objects import Node, NodeGPUStatus

_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Judged:
    """`silent_from`: when the judgement does not hold any more, since no heartbeat came."""

    readiness: NodeReadiness | None
    silent_from: datetime


class ReadinessBook:
    """Follows the copies of Nodes and reports that the controller's loops share."""

    def __init__(self, copies: Informers) -> None:
        self._nodes = copies.of(NODE)
        self._reports = copies.of(NODE_GPU_STATUS)
        self._nodes.subscribe(self._node_changed)
        self._reports.subscribe(self._report_changed)
        self._judged: dict[str, _Judged] = {}

    def nodes(self, now: datetime) -> list[NodeReadiness]:
        """Every node with a GPU, by name, and what it waits for."""
        return sorted(self._ready(now), key=lambda judged: judged.node)

    def _ready(self, now: datetime) -> Iterator[NodeReadiness]:
        for node in self._nodes:
            name = node.metadata.name
            judged = self._judged.get(name)
            if judged is None or now > judged.silent_from:
                judged = self._judged[name] = self._judge(node, now)
                if now > judged.silent_from:
                    del self._judged[name]  # of a silent agent the next heartbeat changes it
            if judged.readiness is not None:
                yield judged.readiness

    def _judge(self, node: Node, now: datetime) -> _Judged:
        operated = operated_node_from(node, self._reports.get(node.metadata.name))
        with_gpu = gpu_nodes([operated])
        beat = None if operated.report is None else operated.report.heartbeat
        return _Judged(readiness(operated, now) if with_gpu else None, _silent_from(beat))

    def _node_changed(self, change: Delta[Node]) -> None:
        node = change.after or change.before
        if node is not None:
            self._judged.pop(node.metadata.name, None)

    def _report_changed(self, change: Delta[NodeGPUStatus]) -> None:
        report = change.after or change.before
        if report is None:
            return
        name = key_of(report)[1]
        if is_news(change.before, change.after):
            self._judged.pop(name, None)
        elif name in self._judged:
            self._judged[name].silent_from = _silent_from(heartbeat_of(report))


def _silent_from(beat: datetime | None) -> datetime:
    return _NEVER if beat is None else beat + SILENT_AFTER
