"""Nodes that refuse nothing of a pod that as a whole is not decided, or fails: none of them is promised."""

from __future__ import annotations

from dataclasses import replace

from tonnage.model.json import JsonValue
from tonnage.model.verdict import NodeClass, NodeList, NodeVerdict, Verdict


class Unpromised(NodeList):
    """The same answers node by node, with UNKNOWN for FITS."""

    def __init__(self, nodes: NodeList) -> None:
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def at(self, place: int) -> NodeVerdict:
        """The answer of one node, by its place among them."""
        return _unpromised(self._nodes.at(place))

    def to_json(self) -> list[JsonValue]:
        """An entry a node, made as the others are: large clusters by classes."""
        entries = self._nodes.to_json()
        for entry in entries:
            if isinstance(entry, dict) and entry["verdict"] == Verdict.FITS.value:
                entry["verdict"] = Verdict.UNKNOWN.value
        return entries


def unpromised(classes: tuple[NodeClass, ...]) -> tuple[NodeClass, ...]:
    """The same of classes of nodes."""
    return tuple(replace(node_class, first=_unpromised(node_class.first)) for node_class in classes)


def _unpromised(verdict: NodeVerdict) -> NodeVerdict:
    return replace(verdict, verdict=Verdict.UNKNOWN) if verdict.verdict is Verdict.FITS else verdict
