"""Fields that a server of this version takes only with a feature gate, and drops without.

Source: PrepareForCreate and PrepareForUpdate of pkg/registry/*/*/strategy.go (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.strategies.device_gates import DEVICE_GATES
from tonnage.decide.kubernetes.api.strategies.pods import TEMPLATES, drop_gated_of_pods
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, drop, mapping
from tonnage.model.kubernetes.feature_gates import DEFAULT_GATES, FeatureGates

_NODE: Final = ("", "nodes")
_POD: Final = ("", "pods")
_NEVER_OF_NODES: Final = (("spec", "configSource"), ("status", "config"), ("status", "declaredFeatures"))
"""Fields of nodes that were once, or are behind gates."""


def drop_gated(
    resource: tuple[str, str], obj: JsonObject, old: JsonObject, gates: FeatureGates = DEFAULT_GATES
) -> None:
    """Drop fields that a server of this version takes only with a feature gate, if they are new."""
    path = ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
    if resource == ("apps", "statefulsets") and at(old, *path) is None:
        drop(obj, *path)
    if resource == _NODE:
        for part, key in _NEVER_OF_NODES:
            drop(obj, part, key)
    if resource == _POD:
        drop_gated_of_pods(mapping(obj, "spec"))
    elif resource in TEMPLATES:
        drop_gated_of_pods(mapping(obj, *TEMPLATES[resource], "spec"))
    if rule := DEVICE_GATES.get(resource):
        rule(obj, gates)
