"""A pod that waits behind a scheduling gate may be asked for more of a node, not for something else.

Source: pkg/apis/core/validation (validateNodeSelectorMutation, validateNodeAffinityMutation), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.go_values import in_go
from tonnage.decide.kubernetes.api.problems import invalid
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.model.json import JsonObject
from tonnage.model.json_access import items, mapping, mappings
from tonnage.model.kubernetes.well_known import REQUIRED

_TERMS: Final = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")


def narrowed_selector(spec: JsonObject, before: JsonObject) -> FieldErrors:
    """A selector of nodes with nothing taken away."""
    selector = mapping(spec, "nodeSelector")
    if any(selector.get(key) != value for key, value in mapping(before, "nodeSelector").items()):
        words = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", selector or None, words)


def narrowed_affinity(spec: JsonObject, before: JsonObject) -> FieldErrors:
    """Terms of which each demands what it did; where there were none, there may be any."""
    path = ".".join(("spec", *_TERMS))
    terms, terms_before = mappings(spec, *_TERMS), mappings(before, *_TERMS)
    if terms_before and len(terms) != len(terms_before):
        words = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid(path, [in_go("NodeSelectorTerm", term) for term in terms] or None, words)
        return
    for index, (term, was) in enumerate(zip(terms, terms_before, strict=False)):
        if not _adds(term, was):
            words = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"{path}[{index}]", in_go("NodeSelectorTerm", term), words)


def _adds(term: JsonObject, was: JsonObject) -> bool:
    keys = ("matchExpressions", "matchFields")
    if not any(items(was, key) for key in keys):
        return not any(items(term, key) for key in keys)
    return all(items(term, key)[: len(items(was, key))] == items(was, key) for key in keys)
