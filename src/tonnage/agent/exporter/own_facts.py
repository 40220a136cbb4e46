"""Facts of the node as the exporter shows them, made anew only where something changed."""

from __future__ import annotations

from collections.abc import Mapping

from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.decide.node.exporter.facts import NodeAmounts, PageCounts, exporter_facts, node_facts
from tonnage.decide.node.exporter.metric_text import metrics_text, series_in
from tonnage.decide.node.offer import NodeOffer
from tonnage.model.kubernetes.quantity import integer_value
from tonnage.wire.objects import Node


class OwnFacts:
    """The text of `tonnage_*` on the exporter's page."""

    def __init__(self, board: NodeBoard, sampler: DeviceSampler) -> None:
        self._board = board
        self._sampler = sampler
        self._made_of: tuple[NodeOffer, Node | None, Mapping[str, int] | None] | None = None
        self._text = ""

    def text(self, page: str, errors: int) -> str:
        """The families now, for the end of this page; `errors` are the scrapes that failed."""
        inventory = self._board.inventory.value
        ages = self._sampler.ages(inventory) if inventory is not None else ()
        of_node = self._node_text()
        counts = PageCounts(series_in(page) + series_in(of_node), errors, ages)
        return of_node + metrics_text(exporter_facts(counts))

    def _node_text(self) -> str:
        offer, node, requested = (
            *(self._board.offer.value, self._board.node.value),
            self._board.requested.value,
        )
        if offer is None:
            return ""
        made_of = offer, node, requested
        if self._made_of is None or any(
            new is not old for new, old in zip(made_of, self._made_of, strict=True)
        ):
            capacity, allocatable = (None, None) if node is None else _amounts(node)
            self._text = metrics_text(node_facts(offer, NodeAmounts(capacity, allocatable, requested)))
            self._made_of = made_of
        return self._text


def _amounts(node: Node) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Capacity and what can be allocated of devices, as the Node says."""
    capacity, allocatable = (
        {name: integer_value(str(text)) for name, text in amounts.items() if "/" in name}
        for amounts in (node.status.capacity, node.status.allocatable)
    )
    return capacity, allocatable
