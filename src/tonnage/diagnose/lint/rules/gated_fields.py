"""DRA-3: what a server drops of claims and classes, or refuses, unless a feature gate is on.

Source: PrepareForCreate of pkg/registry/resource/*/strategy.go, 1.34 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.claims.supply import Gates
from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, mapping, mappings
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.feature_gates import EXTENDED, ON_SINCE, SHARES
from tonnage.model.reasons.pod.claims import FeatureGateNeeded

_GROUP: Final = "resource.k8s.io"
_SHAREABLE: Final = "device.allowMultipleAllocations"


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on a claim, a template or a class, where the server's gates are known."""
    if manifest.group != _GROUP or inputs.gates is None:
        return
    gates, spec = inputs.gates, mapping(manifest.value.get("spec"))
    at: Path = (*manifest.path, "spec")
    if manifest.kind == "DeviceClass":
        if "extendedResourceName" in spec and not gates.extended:
            effect = "the class gives no devices to pods that count it"
            yield _dropped((*at, "extendedResourceName"), EXTENDED, gates, effect)
        yield from _selectors(spec, at, gates)
        return
    if manifest.kind == "ResourceClaimTemplate":
        spec, at = mapping(spec.get("spec")), (*at, "spec")
    if manifest.kind in ("ResourceClaim", "ResourceClaimTemplate"):
        yield from _devices(mapping(spec.get("devices")), (*at, "devices"), gates)


def _devices(devices: JsonObject, at: Path, gates: Gates) -> Iterator[Draft]:
    for index, request in mappings(devices.get("requests")):
        place: Path = (*at, "requests", index)
        parts = [(place, request), ((*place, "exactly"), mapping(request.get("exactly")))]
        alternatives = mappings(request.get("firstAvailable"))
        parts += [((*place, "firstAvailable", number), part) for number, part in alternatives]
        for where, part in parts:
            if "capacity" in part and not gates.sharing:
                yield _dropped((*where, "capacity"), SHARES, gates, "each claim takes whole devices")
            yield from _selectors(part, where, gates)
    for index, constraint in mappings(devices.get("constraints")):
        if "distinctAttribute" in constraint and not gates.sharing:
            effect = "a constraint without matchAttribute is refused"
            yield _dropped((*at, "constraints", index, "distinctAttribute"), SHARES, gates, effect)


def _selectors(owner: JsonObject, at: Path, gates: Gates) -> Iterator[Draft]:
    for index, selector in mappings(owner.get("selectors")):
        if not gates.sharing and _SHAREABLE in str(mapping(selector.get("cel")).get("expression")):
            message = f"{_server(gates)} refuses {_SHAREABLE} unless {SHARES} is on"
            yield _needed(message, (*at, "selectors", index, "cel", "expression"), SHARES, "")


def _dropped(place: Path, gate: str, gates: Gates, effect: str) -> Draft:
    return _needed(f"{_server(gates)} drops {place[-1]} unless {gate} is on", place, gate, f"then {effect}")


def _server(gates: Gates) -> str:
    return f"Kubernetes 1.{gates.minor}"


def _needed(message: str, place: Path, gate: str, why: str) -> Draft:
    remedy = f"turn the feature gate on, which is on by default since 1.{ON_SINCE}, or do without"
    return Draft(FeatureGateNeeded(subject="", message=message, remedy=remedy, gate=gate), place, why)
