"""Demands on nodes that the API server refuses: nodeSelector, and affinity to nodes.

Source: k8s.io/kubernetes pkg/apis/core/validation (ValidateNodeSelectorTerm), 1.34 to 1.37 alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from tonnage.documents.pods.placement import (
    FieldPath,
    PodFault,
    key_faults,
    label_faults,
    mapping,
    mappings,
    operator_faults,
    placement_fault,
    text_of,
    texts,
    value_faults,
    weight_faults,
)
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.name_words import wrong_in_subdomain
from tonnage.model.kubernetes.well_known import PREFERRED, REQUIRED

_IN_NODE_AFFINITY: Final[FieldPath] = ("affinity", "nodeAffinity")
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD: Final = "metadata.name"


def node_selector_faults(spec: JsonObject) -> Iterator[PodFault]:
    """`nodeSelector`, of which the server names no entry."""
    return label_faults(mapping(spec.get("nodeSelector")), ("nodeSelector",))


def node_affinity_faults(spec: JsonObject) -> Iterator[PodFault]:
    """Every fault of `affinity.nodeAffinity`, in the server's order."""
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = affinity.get(REQUIRED)
    if isinstance(required, dict):
        terms = required.get("nodeSelectorTerms")
        whole: FieldPath = (*_IN_NODE_AFFINITY, REQUIRED)
        path: FieldPath = (*whole, "nodeSelectorTerms")
        if not terms:
            why = "Required value: must have at least one node selector term"
            message, remedy = "must have at least one node selector term", "add one, or leave it out"
            yield placement_fault(path, why, message, remedy, whole)
        for index, term in mappings(terms):
            yield from _term(term, (*path, index), required=True)
    for index, weighted in mappings(affinity.get(PREFERRED)):
        at: FieldPath = (*_IN_NODE_AFFINITY, PREFERRED, index)
        yield from weight_faults(weighted, at)
        yield from _term(mapping(weighted.get("preference")), (*at, "preference"), required=False)


def _term(term: JsonObject, at: FieldPath, *, required: bool) -> Iterator[PodFault]:
    """Preferred values may be such as no label has: they only never match."""
    for index, expression in mappings(term.get("matchExpressions")):
        path: FieldPath = (*at, "matchExpressions", index)
        yield from operator_faults(expression, path, _OPERATORS)
        mark = (*path, "key") if "key" in expression else path
        yield from key_faults(text_of(expression, "key"), (*path, "key"), mark)
        for place, value in texts(expression.get("values")) if required else ():
            yield from value_faults(value, (*path, "values", place))
    for index, expression in mappings(term.get("matchFields")):
        yield from _field(expression, (*at, "matchFields", index))


def _field(expression: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    operator, key = text_of(expression, "operator"), text_of(expression, "key")
    values = [*texts(expression.get("values"))]
    if operator not in ("In", "NotIn"):
        why = f"Invalid value: {json.dumps(operator)}: not a valid selector operator"
        message = f"fields are compared by In and NotIn alone, not by {operator[:60] or 'nothing'}"
        mark = (*at, "operator") if "operator" in expression else at
        yield placement_fault((*at, "operator"), why, message, "write In", mark)
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        message, mark = f"of a field {operator} takes one value, not {len(values)}", (*at, "values")
        remedy = "write a term for each" if values else "give one"
        yield placement_fault(mark, f"Required value: {why}", message, remedy, mark if values else at)
    if key != _FIELD:
        why = f"Invalid value: {json.dumps(key)}: not a valid field selector key"
        message = f"nodes are chosen by no field but {_FIELD}, not by {key[:100] or 'nothing'}"
        mark = (*at, "key") if "key" in expression else at
        yield placement_fault((*at, "key"), why, message, f"write {_FIELD}, or use matchExpressions", mark)
        return
    for index, value in values:
        for why in wrong_in_subdomain(value):
            message, path = f"no node has the name {value[:100]!r}", (*at, "values", index)
            yield placement_fault(path, f"Invalid value: {json.dumps(value)}: {why}", message, "name a node")
