"""NodeAffinity: the weights of the preferred terms that a node meets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.cluster.matching import term_matches
from tonnage.decide.cluster.rating import Feasible, scaled
from tonnage.decide.cluster.view import View
from tonnage.model.cluster import Pod

NAME: Final = "NodeAffinity"
WEIGHT: Final = 2


def rate(pod: Pod, feasible: Feasible, view: View) -> Mapping[str, int] | None:
    """Sum the weights of the preferred terms that match; skipped without any."""
    preferred = [(own.weight, own.term) for own in pod.affinity.node_preferred]
    preferred += view.settings(pod).affinity.preferred
    if not preferred:
        return None
    return scaled(
        {
            name: sum(weight for weight, term in preferred if term_matches(term, node.node))
            for name, node in feasible.items()
        }
    )
