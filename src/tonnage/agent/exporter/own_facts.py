"""Facts of the node as the exporter shows them, made anew only where something changed."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.derived import Derived
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.decide.node.exporter.facts import (
    NodeAmounts,
    NodeKnowledge,
    PageCounts,
    exporter_facts,
    node_facts,
)
from tonnage.decide.node.exporter.metric_text import NOTHING, PageText, metrics_page, metrics_text
from tonnage.model.kubernetes.quantity import integer_value
from tonnage.wire.objects import Node


class OwnFacts:
    """The text of `tonnage_*` on the exporter's page."""

    def __init__(self, board: NodeBoard, sampler: DeviceSampler) -> None:
        self._board = board
        self._sampler = sampler
        self._node_facts = Derived[PageText]()

    def text(self, series: int, errors: int) -> str:
        """The families now, for a page with so many series; `errors` are the scrapes that failed."""
        inventory = self._board.inventory.value
        ages = self._sampler.ages(inventory) if inventory is not None else ()
        of_node = self._of_node()
        counts = PageCounts(series + of_node.series, errors, ages)
        return of_node.text + metrics_text(exporter_facts(counts))

    def _of_node(self) -> PageText:
        board = self._board
        inventory = board.inventory.value
        if inventory is None:
            return NOTHING
        offer, holds, node, requested = (
            board.offer.value,
            board.holds.value,
            board.node.value,
            board.requested.value,
        )

        def made() -> PageText:
            capacity, allocatable = (None, None) if node is None else _amounts(node)
            amounts = NodeAmounts(capacity, allocatable, requested)
            return metrics_page(node_facts(NodeKnowledge(inventory, holds.holds, offer, amounts)))

        return self._node_facts.of((inventory, holds, offer, node, requested), made)


def _amounts(node: Node) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Capacity and what can be allocated of devices, as the Node says."""
    capacity, allocatable = (
        {name: integer_value(str(text)) for name, text in amounts.items() if "/" in name}
        for amounts in (node.status.capacity, node.status.allocatable)
    )
    return capacity, allocatable
