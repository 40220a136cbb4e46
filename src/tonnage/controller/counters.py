"""What the controller counts, for its metrics."""

from __future__ import annotations

from collections import Counter

from tonnage.decide.cluster.operate.node_readiness import NodeReadiness


class ControllerCounters:
    """Turns of loops, requests, and the nodes as they were judged last."""

    def __init__(self) -> None:
        self.turns: Counter[str] = Counter()
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.nodes: Counter[str] = Counter()
        self.reviews: Counter[tuple[str, str]] = Counter()

    def turned(self, loop: str) -> None:
        """A loop looked once."""
        self.turns[loop] += 1

    def api_answered(self, verb: str, resource: str, code: str) -> None:
        """The API server answered a request."""
        self.requests[verb, resource, code] += 1

    def reviewed(self, kind: str, outcome: str) -> None:
        """The webhook answered about an object of this kind."""
        self.reviews[kind, outcome] += 1

    def judged(self, nodes: list[NodeReadiness]) -> None:
        """The GPU nodes, each by what it waits for."""
        self.nodes = Counter(node.waits_for.value if node.waits_for else "" for node in nodes)
