"""Amounts set right where a refusal of the API server leaves no doubt how, to be tried and to be sent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tonnage.decide.kubernetes.admission.limit_ranges import with_amounts
from tonnage.decide.kubernetes.requests import is_extended
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Manifest, WrittenAmounts
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.reasons.pod.admission import LimitMissing, RequestLimitUnequal
from tonnage.model.reasons.reason import Reason


def amended(manifest: Manifest, reasons: Iterable[Reason]) -> tuple[Manifest, JsonObject] | None:
    """The manifest with what the reasons name set right, and the strategic merge patch of its pod for it.

    None where what is meant cannot be known for one of them.
    """
    amounts = {written_amounts.where: written_amounts for written_amounts in manifest.amounts}
    changes: dict[str, dict[str, JsonObject]] = {}
    for reason in reasons:
        if not isinstance(reason, LimitMissing | RequestLimitUnequal):
            return None
        where, _, _ = reason.field.rpartition(".")
        change = _change(reason)
        if change is None or where not in amounts:
            return None
        section, value = change
        name = reason.resource
        amounts[where] = _with(amounts[where], section, name, value)
        changes.setdefault(where, {}).setdefault(section, {})[name] = value
    spec: dict[str, list[JsonValue]] = {}
    for where, resources in changes.items():
        kind = "initContainers" if ".initContainers[" in where else "containers"
        spec.setdefault(kind, []).append({"name": amounts[where].container, "resources": {**resources}})
    changed = with_amounts(
        manifest, tuple(amounts[written_amounts.where] for written_amounts in manifest.amounts)
    )
    return changed, {"spec": {**spec}}


def _change(reason: LimitMissing | RequestLimitUnequal) -> tuple[str, str | None] | None:
    """The section to change, and the amount that is to stand there; None as amount takes it out."""
    match reason:
        case LimitMissing(request=requested):
            value = parse_quantity(requested)
            return ("limits", requested) if value >= 0 and value.denominator == 1 else None
        case RequestLimitUnequal(resource=name) if is_extended(name):
            return "requests", None
        case RequestLimitUnequal():
            return "limits", reason.request


def _with(written: WrittenAmounts, section: str, name: str, value: str | None) -> WrittenAmounts:
    rows = dict(written.limits if section == "limits" else written.requests)
    rows.pop(name, None)
    if value is not None:
        rows[name] = value
    return replace(written, limits=rows) if section == "limits" else replace(written, requests=rows)
