"""SCH-6: what pods demand of nodes' labels, as far as it is wrong on any cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.decide.node.labels.syntax import LONGEST, sanitised
from tonnage.diagnose.lint.finding import Draft, SetText, field_draft
from tonnage.diagnose.lint.manifest_objects import PodSite, at_path, is_variable, mapping, sequence
from tonnage.diagnose.lint.node_terms import requirements
from tonnage.diagnose.lint.rule_inputs import LintWorld
from tonnage.documents.pods.node_placement import node_affinity_faults, node_selector_faults
from tonnage.documents.yaml.reader import Path
from tonnage.model.catalog.gpus import GpuModel, gpu_models
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import PRODUCT_LABEL
from tonnage.model.reasons.lint.manifests import NodeAffinityInvalid
from tonnage.model.reasons.lint.placements import ComparisonNotInteger, ProductNotTheLabel

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_SUFFIX: Final = re.compile(r"((?:-MIG-[0-9a-z.+-]+)?(?:-SHARED)?)$")
_MEMORY: Final = re.compile(r"([0-9]{2,3})(GB|G)?")
_SOCKETS: Final = {"ampere": "SXM4", "hopper": "SXM5", "blackwell": "SXM6"}
_EMPTY_WORDS: Final = frozenset({"NVIDIA", "TESLA", "GPU", "SXM"})
_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_TERMS: Final = ("requiredDuringSchedulingIgnoredDuringExecution",)


def of_pod(site: PodSite, world: LintWorld) -> Iterator[Draft]:
    """Findings on nodeSelector and node affinity."""
    selector = mapping(site.spec.get("nodeSelector"))
    if PRODUCT_LABEL in selector:
        yield from _product(selector[PRODUCT_LABEL], (*site.path, "nodeSelector", PRODUCT_LABEL), world)
    for fault in (*node_selector_faults(site.spec), *node_affinity_faults(site.spec)):
        if not is_variable(at_path(site.spec, fault.place)):
            yield field_draft(NodeAffinityInvalid, fault, site, on_key=fault.place[-1:] == _TERMS)
    for path, requirement in requirements(site):
        yield from _requirement(requirement, path, world)


def _requirement(expression: JsonObject, path: Path, world: LintWorld) -> Iterator[Draft]:
    operator, values = expression.get("operator"), sequence(expression.get("values"))
    at: Path = (*path, "values")
    if operator in ("Gt", "Lt") and len(values) == 1:
        text = values[0]
        if isinstance(text, str) and not _INTEGER.fullmatch(text) and _VALUE.fullmatch(text):
            message = f"{operator} compares whole numbers, and {text[:60]!r} is none"
            reason = ComparisonNotInteger(
                message=message, remedy=_as_number(text), operator=operator, value=text
            )
            yield Draft(reason, (*at, 0), "the API server takes it, and no node ever matches")
    if expression.get("key") == PRODUCT_LABEL:
        for index, value in enumerate(values):
            yield from _product(value, (*at, index), world)


def _as_number(text: str) -> str:
    match = re.fullmatch(r"([0-9]+)\s*(Gi?B?|Mi?B?)", text.strip())
    if match is None:
        return "write a whole number, without unit"
    mib = int(match[1]) * (1024 if match[2].startswith("G") else 1)
    return f'write "{mib}": nvidia.com/gpu.memory is in MiB, without unit'


def _product(value: JsonValue, path: Path, world: LintWorld) -> Iterator[Draft]:
    if not isinstance(value, str) or len(value) > LONGEST or _is_on_a_node(value, world):
        return
    bare = _SUFFIX.sub("", value)
    ending = value[len(bare) :]
    meaning = meant(bare)
    if not meaning:
        return
    models, certain = meaning
    labels = [f"{sanitised(model.product)}{ending}" for model in models]
    reason = ProductNotTheLabel(
        message=f"{value[:100]} is not what the label {PRODUCT_LABEL} says of any GPU",
        remedy=f"write {' or '.join(labels)}",
        value=value,
        labels=tuple(labels),
    )
    yield Draft(
        reason,
        path,
        "the label is the product's name as NVML gives it, with - for blanks",
        SetText(path, labels[0]) if certain else None,
    )


def _is_on_a_node(value: str, world: LintWorld) -> bool:
    if world.cluster is None:
        return False
    return any(
        node.node.labels.get(PRODUCT_LABEL) == value for node in world.cluster.ground.view.nodes.values()
    )


def meant(value: str) -> tuple[list[GpuModel], bool] | None:
    """The models that a name of no product may mean, and whether that is certain; None for anything else.

    A name with a word that is not theirs (PCIe, NVL) is another product, which the catalogue may not have.

    >>> [model.product for model in meant("NVIDIA-H100-SXM5-80GB")[0]], meant("NVIDIA-H100-PCIe")
    (['NVIDIA H100 80GB HBM3'], None)
    """
    models = gpu_models().values()
    labels = {sanitised(model.product): model for model in models}
    if value in labels or f"NVIDIA-{value}" in labels:  # drivers before 470 leave the vendor out
        return None
    for label, model in labels.items():
        if label.lower() == sanitised(value).lower():
            return [model], True
    words = {word for word in value.upper().replace("_", "-").split("-") if word}
    candidates = [model for model in models if _may_mean(words, model)]
    if not candidates:
        return None
    sockets = any(word.startswith("SXM") for word in words)
    return candidates, len(candidates) == 1 and (sockets or candidates[0].nvswitch_links == 0)


def _may_mean(words: set[str], model: GpuModel) -> bool:
    family = model.key.split("-", maxsplit=1)[0].upper()
    if family not in words:
        return False
    own = set(sanitised(model.product).upper().split("-")) | {_SOCKETS.get(model.architecture, "")}
    for word in words - own - _EMPTY_WORDS - {family}:
        memory = _MEMORY.fullmatch(word)
        if memory is None or abs(int(memory[1]) - _marketed_gb(model)) > 1:
            return False
    return True


def _marketed_gb(model: GpuModel) -> int:
    named = _MEMORY.search(model.product.upper().replace(model.key.split("-", maxsplit=1)[0].upper(), ""))
    return int(named[1]) if named and named[2] else round(model.memory_mib / 1024)
