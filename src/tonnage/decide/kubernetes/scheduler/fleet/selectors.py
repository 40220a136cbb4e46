"""Which nodes a pod selects or tolerates, as masks over all rows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tonnage.decide.kubernetes.matching import is_readable, requirement_holds, untolerated
from tonnage.decide.kubernetes.scheduler.fleet.columns import Columns, Mask
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement, Toleration


def selected(columns: Columns, pod: Pod) -> Mask:
    """Nodes that meet the pod's nodeSelector and its required node affinity."""
    mask = np.ones(len(columns), bool)
    for key, value in pod.node_selector.items():
        mask &= columns.label(key).among((value,))
    if pod.affinity.node is not None:
        met = np.zeros(len(columns), bool)
        for term in pod.affinity.node:
            met |= meets(columns, term)
        mask &= met
    return mask


def meets(columns: Columns, term: NodeSelectorTerm) -> Mask:
    """Nodes that meet every requirement of a term; none for an empty one, or one that cannot be read."""
    readable = all(map(is_readable, term.expressions))
    mask = np.full(len(columns), readable and bool(term.expressions or term.fields))
    for requirement in term.expressions:
        mask &= _labelled(columns, requirement)
    for requirement in term.fields:
        mask &= _with_field(columns, requirement)
    return mask


def blocked(columns: Columns, tolerations: Iterable[Toleration], effects: tuple[str, ...]) -> tuple[int, ...]:
    """By combination of taints (`Columns.taint_sets`): how many with one of the effects nothing tolerates."""
    all_tolerations = tuple(tolerations)
    return tuple(len(untolerated(taints, all_tolerations, effects)) for taints in columns.taint_sets)


def _labelled(columns: Columns, requirement: Requirement) -> Mask:
    column = columns.label(requirement.key)
    match requirement.operator:
        case "In":
            return column.among(requirement.values)
        case "NotIn":
            return ~column.among(requirement.values)
        case "Exists":
            return column.codes >= 0
        case "DoesNotExist":
            return column.codes < 0
        case _:
            key = requirement.key
            accepted = [requirement_holds(requirement, {key: value}) for value in column.values]
            return column.where(np.array(accepted, bool), absent=False)


def _with_field(columns: Columns, requirement: Requirement) -> Mask:
    mask = np.zeros(len(columns), bool)
    if len(requirement.values) != 1 or requirement.operator not in ("In", "NotIn"):
        return mask
    (value,) = requirement.values
    if requirement.key == "metadata.name":
        row = columns.row_of.get(value)
        if row is not None:
            mask[row] = True
    elif value == "":
        mask[:] = True
    return mask if requirement.operator == "In" else ~mask
