"""What the server makes of a status that somebody writes into a pod.

Source: pkg/registry/core/pod/strategy.go (podStatusStrategy), pkg/api/pod/util.go, v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, mappings, number, text
from tonnage.model.kubernetes.feature_gates import DEFAULT_GATES, EXTENDED, HEALTH, FeatureGates

_GATED: Final = ("resources", "allocatedResources")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_OBSERVED: Final = "observedGeneration"


def complete_status(pod: JsonObject, old: JsonObject, gates: FeatureGates = DEFAULT_GATES) -> None:
    """Keep the class of service and what generations were seen; drop what is behind gates that are off.

    InPlacePodLevelResourcesVerticalScaling always is.
    """
    status, before = mapping(pod, "status"), mapping(old, "status")
    if not text(status, "qosClass"):
        _keep(status, before, "qosClass")
    for key in _GATED:
        status.pop(key, None)
    if not gates.has(EXTENDED):
        status.pop("extendedResourceClaimStatus", None)
    for key in () if gates.has(HEALTH) else _STATUSES:
        for entry in mappings(status, key):
            entry.pop("allocatedResourcesStatus", None)
    if not number(status, _OBSERVED):
        _keep(status, before, _OBSERVED)
    generations = [
        (text(entry, "type"), number(entry, _OBSERVED)) for entry in mappings(before, "conditions")
    ]
    for condition in mappings(status, "conditions"):
        earlier = next((row for row in generations if row[0] == text(condition, "type")), None)
        if earlier is None:
            continue
        generations.remove(earlier)
        if not number(condition, _OBSERVED) and earlier[1]:
            condition[_OBSERVED] = earlier[1]


def _keep(status: JsonObject, before: JsonObject, key: str) -> None:
    status.pop(key, None)
    if at(before, key) is not None:
        status[key] = before[key]
