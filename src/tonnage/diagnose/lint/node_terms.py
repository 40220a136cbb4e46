"""The terms of node affinity in a pod's spec, each at its place."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.lint.manifest_objects import PodSite, mapping, mappings
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject


def terms(site: PodSite) -> Iterator[tuple[Path, JsonObject, bool]]:
    """Every node selector term with its path, and whether it is required."""
    affinity = mapping(mapping(site.spec.get("affinity")).get("nodeAffinity"))
    base: Path = (*site.path, "affinity", "nodeAffinity")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in mappings(mapping(affinity.get(required)).get("nodeSelectorTerms")):
        yield (*base, required, "nodeSelectorTerms", index), term, True
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in mappings(affinity.get(preferred)):
        yield (*base, preferred, index, "preference"), mapping(weighted.get("preference")), False


def requirements(site: PodSite) -> Iterator[tuple[Path, JsonObject]]:
    """Every expression on labels, with its path."""
    for path, term, _ in terms(site):
        for index, expression in mappings(term.get("matchExpressions")):
            yield (*path, "matchExpressions", index), expression
