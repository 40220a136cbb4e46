"""What the API server says to a ClusterPolicy: sections that it lacks, and fields that are dropped."""

from __future__ import annotations

from dataclasses import dataclass

from tonnage.model.catalog.cluster_policy import Fields, policy_fields
from tonnage.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class PolicyAdmission:
    """`missing` are sections without which it is refused, `unknown` paths of fields that are dropped.

    `pruned` is the spec without those fields, as the cluster would have it.
    """

    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    pruned: JsonObject

    def to_json(self) -> JsonObject:
        """As `operator plan -o json` prints it."""
        return {"missing": list(self.missing), "unknown": list(self.unknown)}


def policy_admission(spec: JsonObject) -> PolicyAdmission:
    """By the definition of NVIDIA's latest release that is known."""
    definition = policy_fields()
    unknown: list[str] = []
    pruned = _pruned(spec, definition.fields, "spec", unknown)
    missing = tuple(name for name in definition.required if name not in spec)
    return PolicyAdmission(missing, tuple(unknown), pruned)


def _pruned(value: JsonObject, fields: Fields, path: str, unknown: list[str]) -> JsonObject:
    pruned: JsonObject = {}
    for key, child in value.items():
        below = fields.get(key)
        if below is None:
            unknown.append(f"{path}.{key}")
        elif isinstance(child, dict) and not isinstance(below, str):
            pruned[key] = _pruned(child, below, f"{path}.{key}", unknown)
        else:
            pruned[key] = child
    return pruned
