"""Fields of a pod's spec that the API server refuses, whoever asks: a manifest, a file, a dump.

Source: k8s.io/kubernetes pkg/apis/core/validation, 1.35.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from tonnage.documents.nearest import nearest
from tonnage.documents.node_placement import node_affinity_faults, node_selector_faults
from tonnage.documents.pod_placement import (
    FieldPath,
    PodFault,
    mapping,
    mappings,
    placement_faults,
    text_of,
    unsupported,
)
from tonnage.model.json import JsonObject
from tonnage.model.names import is_label_key
from tonnage.model.verdict import Code

_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"
_TOLERATES: Final = ("Equal", "Exists")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def faults(spec: JsonObject) -> Iterator[PodFault]:
    """All of them, in the server's order."""
    yield from pod_level_faults(spec)
    yield from node_selector_faults(spec)
    yield from node_affinity_faults(spec)
    yield from placement_faults(spec)
    yield from toleration_faults(spec)


def pod_level_faults(spec: JsonObject) -> Iterator[PodFault]:
    """`spec.resources` is of what all containers share: a device belongs to a container."""
    for section in ("limits", "requests"):
        for name, amount in sorted(mapping(mapping(spec.get("resources")).get(section)).items()):
            if name in _POD_LEVEL or name.startswith(_HUGE_PAGES):
                continue
            told = f"{name[:100]} stands under the pod's {section}, where only cpu, memory and huge pages may"
            remedy = f"put {name[:100]}: {str(amount)[:60]} under the container's limits"
            yield PodFault(Code.POD_LEVEL, ("resources", section, name), "", told, remedy)


def toleration_faults(spec: JsonObject) -> Iterator[PodFault]:
    """Tolerations that no server takes. Gt and Lt are left out: some take them, by version and gate."""
    for index, toleration in mappings(spec.get("tolerations")):
        yield from _toleration(toleration, ("tolerations", index))


def _toleration(toleration: JsonObject, at: FieldPath) -> Iterator[PodFault]:
    key, operator, value, effect = (text_of(toleration, k) for k in ("key", "operator", "value", "effect"))

    def fault(field: str, text: str, told: str, remedy: str, mark: FieldPath) -> PodFault:
        return PodFault(Code.TOLERATION_INVALID, (*at, field), text, told, remedy, mark)

    if key and not is_label_key(key):
        told = f"{key[:100]!r} is no key of a taint"
        yield fault("key", "", told, "write domain/name", ())
    elif not key and operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        told = "a toleration without key needs operator: Exists"
        yield fault("operator", _invalid(operator, why), told, "name the taint's key", at)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        told, remedy = "tolerationSeconds goes with effect: NoExecute", "remove it, or set the effect"
        yield fault("effect", _invalid(effect, why), told, remedy, (*at, "tolerationSeconds"))
    if operator == "Exists" and value:
        why = _invalid(value, "value must be empty when `operator` is 'Exists'")
        told, remedy = "Exists asks for no value, and one is given", "remove it, or use operator: Equal"
        yield fault("operator", why, told, remedy, (*at, "value"))
    if operator not in ("", *_TOLERATES, "Gt", "Lt"):
        told, remedy = f"no operator {operator[:60]}", nearest(operator, [*_TOLERATES])
        yield fault("operator", unsupported(operator, _TOLERATES), told, remedy, ())
    if effect and effect not in _EFFECTS:
        told, remedy = f"no effect {effect[:60]}", nearest(effect, [*_EFFECTS])
        yield fault("effect", unsupported(effect, _EFFECTS), told, remedy, ())


def _invalid(value: str, why: str) -> str:
    return f"Invalid value: {json.dumps(value)}: {why}"


def written_path(path: FieldPath) -> str:
    """A path below the spec as the server writes it.

    >>> written_path(("resources", "limits", "nvidia.com/gpu")), written_path(("tolerations", 0, "value"))
    ('.resources.limits[nvidia.com/gpu]', '.tolerations[0].value')
    """
    amounts = path[:1] == ("resources",)
    return "".join(
        f"[{step}]" if isinstance(step, int) or (amounts and depth == 2) else f".{step}"
        for depth, step in enumerate(path)
    )
