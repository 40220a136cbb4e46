"""What the server writes into volumes and claims: since when they are as they are, where data comes from.

Source: pkg/registry/core/{persistentvolume,persistentvolumeclaim}, pkg/api/persistentvolumeclaim (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, put, text

_SINCE: Final = "lastPhaseTransitionTime"
_READABLE: Final = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def date_phase(volume: JsonObject, old: JsonObject, now: str) -> None:
    """Say of a volume's status since when its phase is what it is, unless its writer has said so."""
    status, before = mapping(volume, "status"), mapping(old, "status")
    if status.get("phase") == before.get("phase"):
        if status.get(_SINCE) is None and before.get(_SINCE) is not None:
            status[_SINCE] = before[_SINCE]
    elif status.get(_SINCE) in (None, before.get(_SINCE)):
        put(volume, now, "status", _SINCE)


def pair_sources(claim: JsonObject, old: JsonObject) -> None:
    """Drop a source of data that old servers did not know; tell the rest in both ways that there are."""
    spec = mapping(claim, "spec")
    had_source = any(at(old, "spec", key) is not None for key in ("dataSource", "dataSourceRef"))
    if text(spec, "dataSourceRef", "namespace") and at(old, "spec", "dataSourceRef") is None:
        spec.pop("dataSourceRef")
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if isinstance(source, dict) and reference is None:
        if not had_source and (text(source, "apiGroup"), text(source, "kind")) not in _READABLE:
            spec.pop("dataSource")
        else:
            spec["dataSourceRef"] = {**source}
    elif isinstance(reference, dict) and source is None and not text(reference, "namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}
