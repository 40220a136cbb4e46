"""What the API server says to a ClusterPolicy: sections that it lacks, and fields that are dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tonnage.model.catalog.cluster_policy import policy_fields
from tonnage.model.catalog.definition_fields import ANY_KEY, Fields, definition_fields
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.api_answer import ApiFault


@dataclass(frozen=True, slots=True)
class PolicyAdmission:
    """`missing` are sections without which it is refused, `unknown` paths of fields that are dropped.

    `refused` is what else it is refused for, in the server's words. `pruned` is the spec without the unknown
    fields, as the cluster would have it.
    """

    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    pruned: JsonObject
    refused: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        """Whether it cannot be applied."""
        return bool(self.missing or self.refused)

    def to_json(self) -> JsonObject:
        """As `operator plan -o json` prints it."""
        return {"missing": list(self.missing), "unknown": list(self.unknown), "refused": list(self.refused)}


def policy_admission(spec: JsonObject, faults: Iterable[ApiFault] = ()) -> PolicyAdmission:
    """By the definition of NVIDIA's latest release that is known; `faults` are the API server's own."""
    definition = policy_fields()
    unknown: list[str] = []
    pruned = _pruned(spec, definition.fields, "spec", unknown)
    missing = tuple(name for name in definition.required if name not in spec)
    sections = [f"spec.{name}" for name in missing]
    refused = tuple(fault.words for fault in faults if fault.field not in sections)
    return PolicyAdmission(missing, tuple(unknown), pruned, refused)


def driver_admission(spec: JsonObject, faults: Iterable[ApiFault] = ()) -> PolicyAdmission:
    """The same of an NVIDIADriver, which lacks nothing that a default does not fill in."""
    unknown: list[str] = []
    pruned = _pruned(spec, definition_fields("nvidiadrivers"), "spec", unknown)
    return PolicyAdmission((), tuple(unknown), pruned, tuple(fault.words for fault in faults))


def _pruned(value: JsonObject, fields: Fields, path: str, unknown: list[str]) -> JsonObject:
    pruned: JsonObject = {}
    for key, child in value.items():
        below = fields.get(key, fields.get(ANY_KEY))
        if below is None:
            unknown.append(f"{path}.{key}")
        elif isinstance(child, dict) and isinstance(below, Mapping):
            pruned[key] = _pruned(child, below, f"{path}.{key}", unknown)
        elif isinstance(child, list) and isinstance(below, tuple) and isinstance(below[0], Mapping):
            pruned[key] = [
                _pruned(entry, below[0], f"{path}.{key}[{index}]", unknown)
                if isinstance(entry, dict)
                else entry
                for index, entry in enumerate(child)
            ]
        else:
            pruned[key] = child
    return pruned
