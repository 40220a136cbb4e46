"""NodeAffinity: the weights of the preferred terms that a node meets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.matching import NO_INTEGER, term_matches, wrong_values
from tonnage.decide.kubernetes.scheduler.scoring import Feasible, scaled
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.model.kubernetes.cluster import Pod

NAME: Final = "NodeAffinity"
WEIGHT: Final = 2


def unreadable(pod: Pod) -> str:
    """The error with which the plugin fails once it would compare nodes; empty: the terms can be read."""
    problems = dict.fromkeys(
        f"[{number}].matchExpressions[{index}].values[{place}]{_key_suffix(why, requirement.key)}: "
        f'Invalid value: "{requirement.values[place]}": {why}'
        for number, own in enumerate(pod.affinity.node_preferred)
        for index, requirement in enumerate(own.term.expressions)
        for place, why in wrong_values(requirement.operator, requirement.values)
    )
    joined = ", ".join(problems)
    return f"[{joined}]" if len(problems) > 1 else joined


def _key_suffix(why: str, key: str) -> str:
    return "" if why == NO_INTEGER else f"[{key}]"


def rate(pod: Pod, feasible: Feasible, view: ClusterView) -> Mapping[str, int] | None:
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
