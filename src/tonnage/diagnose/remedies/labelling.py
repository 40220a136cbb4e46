"""To give a node the labels that a pod selects by, where none is there and no program sets them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.matching import failing_requirements, node_is_selected
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.remedies.remedy_edit import RemedyEdit
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.selectors import Requirement

MAKERS: Final = {
    "nvidia.com/": "check that GPU feature discovery or Tonnage's agent, which set it, runs on the GPU nodes",
    "feature.node.kubernetes.io/": "check that node feature discovery, which sets it, runs",
    "cloud.google.com/": "GKE sets it",
    "eks.amazonaws.com/": "EKS sets it",
    "karpenter.sh/": "Karpenter sets it on nodes that it creates",
    "topology.kubernetes.io/": "the cloud's controller sets it",
}
"""Who sets labels of a domain."""
_OWN_DOMAIN: Final = "kubernetes.io/"
_COST: Final = 18


def label_node(pod: Pod, node: Node) -> RemedyEdit | None:
    """The labels with which the node is one that the pod selects; None where labels alone do not do it."""
    terms = [failing_requirements(term, node) for term in pod.affinity.node or ()]
    failing = min(terms, key=len) if terms and all(terms) else ()
    more = dict(_pairs(failing)) | {k: v for k, v in pod.node_selector.items() if node.labels.get(k) != v}
    if not more or any(key in node.labels or not _free(key) for key in more):
        return None

    def on_view(view: ClusterView) -> ClusterView:
        current = view.nodes[node.name]
        labelled = replace(current.node, labels={**current.node.labels, **more})
        return view.with_node(replace(current, node=labelled))

    if not node_is_selected(pod, replace(node, labels={**node.labels, **more})):
        return None
    pairs = " ".join(f"{key}={value}" for key, value in sorted(more.items()))
    action = f"label the nodes that are meant: kubectl label node {node.name} {pairs}"
    return RemedyEdit(f"label {pairs}", action, _COST, on_view=on_view)


def _free(key: str) -> bool:
    """Whether people choose the label, not a program."""
    domain = key.partition("/")[0] + "/" if "/" in key else ""
    return not key.startswith(tuple(MAKERS)) and not domain.endswith(_OWN_DOMAIN)


def _pairs(requirements: tuple[Requirement, ...]) -> Iterator[tuple[str, str]]:
    """A label for each requirement that one can answer."""
    for requirement in requirements:
        match requirement.operator:
            case "In" if requirement.values:
                yield requirement.key, requirement.values[0]
            case "Exists":
                yield requirement.key, "true"
            case "Gt" | "Lt" if (
                requirement.values and (number := compared_number(requirement.values[0])) is not None
            ):
                yield requirement.key, str(number + 1 if requirement.operator == "Gt" else number - 1)


def compared_number(text: str) -> int | None:
    """The number that Gt and Lt compare with, or None."""
    try:
        return int(text) if len(text) < 19 and text.isascii() else None
    except ValueError:
        return None
