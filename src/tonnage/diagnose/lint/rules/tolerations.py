"""Tolerations that the API server refuses.

Source: k8s.io/kubernetes pkg/apis/core/validation (ValidateTolerations), 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.lint.finding import Draft, LintCode
from tonnage.diagnose.lint.items import PodSite, mappings
from tonnage.diagnose.lint.world import World
from tonnage.documents.source import Path, nearest
from tonnage.model.json import JsonObject

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS: Final = ("Equal", "Exists", "Gt", "Lt")


def of_pod(site: PodSite, world: World) -> Iterator[Draft]:
    """Findings on each toleration."""
    for index, toleration in mappings(site.spec.get("tolerations")):
        yield from _of(toleration, (*site.path, "tolerations", index))


def _of(toleration: JsonObject, at: Path) -> Iterator[Draft]:
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect") or ""
    if isinstance(operator, str) and operator not in _OPERATORS:
        told = f"no operator {operator[:60]}"
        yield Draft(
            LintCode.TOLERATION_INVALID, (*at, "operator"), told, nearest(operator, [*_OPERATORS[:2]])
        )
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
