"""How far an object of a custom kind is, by its own spec and status. Pure."""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.selectors import Labels

_ENDED: Final = frozenset({"Complete", "Completed", "Succeeded", "Failed"})
_RAY: Final = "ray.io/cluster"


def has_ended(obj: JsonObject) -> bool:
    """Whether its status says that it makes no more pods."""
    status = _mapping(obj.get("status"))
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else []:
        fields = _mapping(condition)
        if fields.get("type") in _ENDED and fields.get("status") == "True":
            return True
    phase = _mapping(status.get("state")).get("phase")
    return any(value in _ENDED for value in (phase, status.get("phase"), status.get("jobDeploymentStatus")))


def is_suspended(obj: JsonObject) -> bool:
    """Whether its spec says that it shall make no pods yet."""
    spec = _mapping(obj.get("spec"))
    return any(part.get("suspend") is True for part in (spec, _mapping(spec.get("runPolicy"))))


def ray_cluster_labels(obj: JsonObject) -> Labels:
    """The labels of pods that belong to the Ray cluster which a RayJob or RayService made."""
    status = _mapping(obj.get("status"))
    active = _mapping(status.get("activeServiceStatus"))
    name = status.get("rayClusterName") or active.get("rayClusterName")
    return {_RAY: name} if isinstance(name, str) else {}


def _mapping(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
