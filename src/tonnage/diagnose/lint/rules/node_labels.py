"""SCH-6: what pods demand of nodes' labels, as far as it is wrong on any cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.decide.node.labels.syntax import LONGEST
from tonnage.diagnose.lint.finding import Draft, SetText, field_draft
from tonnage.diagnose.lint.gpu_labels import intended_key, is_count, label_name, label_values
from tonnage.diagnose.lint.manifest_objects import PodSite, at_path, is_variable, mapping, sequence
from tonnage.diagnose.lint.node_terms import requirements
from tonnage.diagnose.lint.product_names import is_label, nearest_label, product_meaning
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.nearest import nearest
from tonnage.documents.pods.node_placement import node_affinity_faults, node_selector_faults
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import NVIDIA, PRODUCT_LABEL
from tonnage.model.reasons.lint.manifests import NodeAffinityInvalid
from tonnage.model.reasons.lint.placements import (
    ComparisonNotInteger,
    GpuLabelUnknown,
    ProductNotTheLabel,
    ProductUnknown,
)

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_SUFFIX: Final = re.compile(r"((?:-MIG-[0-9a-z.+-]+)?(?:-SHARED)?)$")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_WAITS_FOREVER: Final = "no node ever has this label; a pod that requires it waits forever"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = ("requiredDuringSchedulingIgnoredDuringExecution",)


def of_pod(site: PodSite, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on nodeSelector and node affinity."""
    for key, value in mapping(site.spec.get("nodeSelector")).items():
        at: Path = (*site.path, "nodeSelector", key)
        yield from _key(key, at, inputs)
        yield from _value(key, value, at, inputs)
    for fault in (*node_selector_faults(site.spec), *node_affinity_faults(site.spec)):
        if not is_variable(at_path(site.spec, fault.place)):
            yield field_draft(NodeAffinityInvalid, fault, site, on_key=fault.place[-1:] == _TERMS)
    for path, requirement in requirements(site):
        yield from _requirement(requirement, path, inputs)


def _requirement(expression: JsonObject, path: Path, inputs: RuleInputs) -> Iterator[Draft]:
    operator, values = expression.get("operator"), sequence(expression.get("values"))
    at: Path = (*path, "values")
    if operator in ("Gt", "Lt") and len(values) == 1:
        text = values[0]
        if isinstance(text, str) and not _INTEGER.fullmatch(text) and _LABEL_VALUE.fullmatch(text):
            message = f"{operator} compares whole numbers, and {text[:60]!r} is not one"
            reason = ComparisonNotInteger(
                message=message, remedy=_as_number(text), operator=operator, value=text
            )
            yield Draft(reason, (*at, 0), "the API server accepts it, but no node ever matches")
    key = expression.get("key")
    if isinstance(key, str):
        yield from _key(key, (*path, "key"), inputs)
        for index, value in enumerate(values if operator in ("In", "NotIn") else []):
            yield from _value(key, value, (*at, index), inputs)


def _key(key: str, path: Path, inputs: RuleInputs) -> Iterator[Draft]:
    """A key of NVIDIA's that is misspelt."""
    intended = intended_key(label_name(key))
    if not intended or _judged_by_nodes(path, inputs):
        return
    reason = GpuLabelUnknown(
        message=f"{key[:100]} is not one of NVIDIA's labels", remedy=f"write {NVIDIA}/{intended}", key=key
    )
    yield Draft(reason, path, _WAITS_FOREVER)


def _value(key: str, value: JsonValue, path: Path, inputs: RuleInputs) -> Iterator[Draft]:
    """A value that a label of NVIDIA's never has."""
    if not isinstance(value, str) or len(value) > LONGEST or is_variable(value):
        return
    if value in _node_values(key, inputs):
        return
    name = label_name(key)
    if key == PRODUCT_LABEL:
        yield from _product(value, path)
        return
    if _judged_by_nodes(path, inputs):
        return
    values = label_values(name)
    if values and value not in values:
        message, remedy = f"{key} is never {value[:100]!r}", nearest(value, [*values])
    elif is_count(name) and not _INTEGER.fullmatch(value):
        message, remedy = (
            f"{key} is a whole number, never {value[:100]!r}",
            _as_number(value),
        )
    else:
        return
    yield Draft(GpuLabelUnknown(message=message, remedy=remedy, key=key, value=value), path, _WAITS_FOREVER)


def _as_number(text: str) -> str:
    match = re.fullmatch(r"([0-9]+)\s*(Gi?B?|Mi?B?)", text.strip())
    if match is None:
        return "write a whole number, without a unit"
    mib = int(match[1]) * (1024 if match[2].startswith("G") else 1)
    return f'write "{mib}": nvidia.com/gpu.memory is in MiB, without a unit'


def _product(value: str, path: Path) -> Iterator[Draft]:
    bare = _SUFFIX.sub("", value)
    ending = value[len(bare) :]
    if not bare or is_label(bare):
        return
    meaning = product_meaning(bare)
    if not meaning.labels:
        yield _unknown(value, bare, path)
        return
    labels = [f"{label}{ending}" for label in meaning.labels]
    reason = ProductNotTheLabel(
        message=f"{value[:100]} is not a value of the label {PRODUCT_LABEL} for any GPU that lint knows",
        remedy=f"write {' or '.join(labels)}",
        value=value,
        labels=tuple(labels),
    )
    yield Draft(
        reason,
        path,
        "the label is the product name of NVML, with - for spaces",
        SetText(path, labels[0]) if meaning.certain else None,
    )


def _unknown(value: str, bare: str, path: Path) -> Draft:
    near = nearest_label(bare)
    ask = f"compare it with the nodes: kubectl get nodes -L {PRODUCT_LABEL}"
    reason = ProductUnknown(
        message=f"lint does not know the GPU {value[:100]}",
        remedy=f"use {near} if you meant that, or {ask}" if near else ask,
        value=value,
    )
    return Draft(reason, path, "if no node has this product, the pod waits forever")


def _judged_by_nodes(path: Path, inputs: RuleInputs) -> bool:
    """Whether what is required is held against the nodes of a cluster, which says more."""
    return inputs.cluster is not None and bool(inputs.cluster.ground.view.nodes) and _PREFERRED not in path


def _node_values(key: str, inputs: RuleInputs) -> frozenset[str]:
    """What nodes of the given cluster have under a key."""
    if inputs.cluster is None:
        return frozenset()
    nodes = inputs.cluster.ground.view.nodes.values()
    return frozenset(node.node.labels[key] for node in nodes if key in node.node.labels)
