"""Facts of the node as the exporter shows them, made anew only where something changed."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_not

from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.decide.node.exporter.facts import (
    NodeAmounts,
    NodeKnowledge,
    PageCounts,
    exporter_facts,
    node_facts,
)
from tonnage.decide.node.exporter.metric_text import metrics_text, series_in
from tonnage.model.kubernetes.quantity import integer_value
from tonnage.wire.objects import Node


class OwnFacts:
    """The text of `tonnage_*` on the exporter's page."""

    def __init__(self, board: NodeBoard, sampler: DeviceSampler) -> None:
        self._board = board
        self._sampler = sampler
        self._sources: tuple[object, ...] = ()
        """What the text follows from."""
        self._text = ""

    def text(self, page: str, errors: int) -> str:
        """The families now, for the end of this page; `errors` are the scrapes that failed."""
        inventory = self._board.inventory.value
        ages = self._sampler.ages(inventory) if inventory is not None else ()
        of_node = self._node_text()
        counts = PageCounts(series_in(page) + series_in(of_node), errors, ages)
        return of_node + metrics_text(exporter_facts(counts))

    def _node_text(self) -> str:
        board = self._board
        inventory = board.inventory.value
        if inventory is None:
            return ""
        offer, holds, node = board.offer.value, board.holds.value, board.node.value
        sources = inventory, holds, offer, node, board.requested.value
        if len(sources) != len(self._sources) or any(map(is_not, sources, self._sources)):
            capacity, allocatable = (None, None) if node is None else _amounts(node)
            amounts = NodeAmounts(capacity, allocatable, board.requested.value)
            self._text = metrics_text(node_facts(NodeKnowledge(inventory, holds.holds, offer, amounts)))
            self._sources = sources
        return self._text


def _amounts(node: Node) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Capacity and what can be allocated of devices, as the Node says."""
    capacity, allocatable = (
        {name: integer_value(str(text)) for name, text in amounts.items() if "/" in name}
        for amounts in (node.status.capacity, node.status.allocatable)
    )
    return capacity, allocatable
