"""Tolerations that the API server refuses.

Source: k8s.io/kubernetes pkg/apis/core/validation (ValidateTolerations), 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.lint.finding import Draft, LintCode, Severity
from tonnage.diagnose.lint.items import PodSite, mappings
from tonnage.diagnose.lint.world import World
from tonnage.documents.source import Path, nearest
from tonnage.model.json import JsonObject
from tonnage.model.names import is_label_key

_WITHOUT: Final = 35
"""The last minor version of which it is known that Gt and Lt are refused."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS: Final = ("Equal", "Exists", "Gt", "Lt")


def of_pod(site: PodSite, world: World) -> Iterator[Draft]:
    """Findings on each toleration."""
    for index, toleration in mappings(site.spec.get("tolerations")):
        yield from _of(toleration, (*site.path, "tolerations", index), world.minor)


def _of(toleration: JsonObject, at: Path, minor: int) -> Iterator[Draft]:
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect") or ""
    if isinstance(operator, str) and operator not in _OPERATORS:
        told = f"no operator {operator[:60]}"
        yield Draft(
            LintCode.TOLERATION_INVALID, (*at, "operator"), told, nearest(operator, [*_OPERATORS[:2]])
        )
    elif operator in ("Gt", "Lt"):
        told, why = f"{operator} is behind a gate that is off", "the API server refuses it"
        remedy, late = "use Equal", Severity.WARNING if minor > _WITHOUT else Severity.ERROR
        yield Draft(LintCode.TOLERATION_INVALID, (*at, "operator"), told, remedy, why, severity=late)
    key = toleration.get("key")
    if isinstance(key, str) and key and not is_label_key(key):
        told = f"{key[:100]!r} is no key of a taint"
        yield Draft(LintCode.TOLERATION_INVALID, (*at, "key"), told, "write domain/name")
    if isinstance(effect, str) and effect and effect not in _EFFECTS:
        told = f"no effect {effect[:60]}"
        yield Draft(LintCode.TOLERATION_INVALID, (*at, "effect"), told, nearest(effect, [*_EFFECTS]))
    if operator == "Exists" and toleration.get("value"):
        told = "Exists asks for no value, and one is given"
        yield Draft(LintCode.TOLERATION_INVALID, (*at, "value"), told, "remove it, or use operator: Equal")
    if operator != "Exists" and not toleration.get("key"):
        told = "a toleration without key needs operator: Exists"
        yield Draft(LintCode.TOLERATION_INVALID, at, told, "name the taint's key")
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        told = "tolerationSeconds goes with effect: NoExecute"
        yield Draft(
            LintCode.TOLERATION_INVALID, (*at, "tolerationSeconds"), told, "remove it, or set the effect"
        )
