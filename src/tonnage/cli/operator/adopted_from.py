"""Where NVIDIA's operator is, as the nodes that were adopted from it have noted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from tonnage.cli.operator.namespaces import OPERATOR_NAMESPACE
from tonnage.model.adoption import NOTE, note_from
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.name_lists import listed
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.wire.kinds import NODE
from tonnage.wire.objects import Node

_MOST_NAMED: Final = 4


async def recorded_operator_namespace(api: KubernetesReader, named: str | None) -> str | None:
    """The namespace from which nodes were adopted; None: no node says. `named` is what the command names.

    Raises ConfigError: nodes were adopted from elsewhere, or from several.
    """
    nodes_by_namespace = _adopted_nodes((await api.list(NODE)).items)
    if named in nodes_by_namespace:
        return named
    problems = [
        f"{listed(nodes, _MOST_NAMED)} from {namespace}" for namespace, nodes in nodes_by_namespace.items()
    ]
    adopted = f"adopted were {'; '.join(problems)}"
    if named is not None and nodes_by_namespace:
        remedy = f"leave {OPERATOR_NAMESPACE} out"
        problem = f"{named} is not where NVIDIA's operator was when nodes were adopted"
        raise ConfigError(Problem(problem, OPERATOR_NAMESPACE, adopted, remedy))
    if len(nodes_by_namespace) > 1:
        remedy = f"name one of the two with {OPERATOR_NAMESPACE}: its nodes come first"
        raise ConfigError(Problem("nodes were adopted from several namespaces", "", adopted, remedy))
    return next(iter(nodes_by_namespace), None)


def _adopted_nodes(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """Names of adopted nodes by the namespace that they note."""
    adopted: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        note = note_from(node.metadata.annotations.get(NOTE, ""))
        if note is not None and note.namespace:
            adopted[note.namespace].append(node.metadata.name)
    return dict(sorted(adopted.items()))
