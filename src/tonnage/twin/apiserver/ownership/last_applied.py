"""kubectl's own record of what it applied on the client's side, and the way from there to the server's side.

Source: k8s.io/apimachinery (util/managedfields/internal: lastapplied.go, lastappliedmanager.go,
lastappliedupdater.go), v1.35.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.encoding.go_json import escaped
from tonnage.model.json import JsonObject
from tonnage.model.json_access import copied, mapping, text
from tonnage.twin.apiserver.ownership.comparison import BadElementError, compare
from tonnage.twin.apiserver.ownership.fieldsets import difference, has
from tonnage.twin.apiserver.ownership.merge import named_fields
from tonnage.twin.apiserver.ownership.type_checks import faults
from tonnage.twin.apiserver.ownership.updates import Conflict, KindVersion

KUBECTL: Final = "kubectl"
"""The one manager for whom the record counts."""
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_BYTES: Final = 256 << 10


def not_its_own(conflicts: list[Conflict], live: JsonObject, version: KindVersion) -> list[Conflict] | None:
    """The conflicts over fields that kubectl had not set itself; None where it has kept no usable record."""
    record = text(live, "metadata", "annotations", ANNOTATION)
    try:
        applied = msgspec.json.decode(record) if record else None
    except (msgspec.DecodeError, RecursionError):
        applied = None
    if not isinstance(applied, dict) or text(applied, "apiVersion") != version.name:
        return None
    if faults(version.shape, applied):
        return None
    try:
        since = compare(version.shape, applied, live)
        own = difference(named_fields(version.shape, applied), since.touched)
    except BadElementError:
        return None
    return [conflict for conflict in conflicts if not has(own, *conflict.path)]


def renewed(obj: JsonObject, config: JsonObject) -> JsonObject:
    """The object with its record, if it has one, as of this configuration."""
    if not text(obj, "metadata", "annotations", ANNOTATION):
        return obj
    recorded = copied(config)
    mapping(recorded, "metadata", "annotations").pop(ANNOTATION, None)
    # Go writes maps in the order of their keys, and ends with a line feed.
    record = escaped(msgspec.json.encode(recorded, order="sorted")).decode() + "\n"
    fresh = copied(obj)
    annotations = mapping(fresh, "metadata", "annotations")
    annotations[ANNOTATION] = record
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > _MOST_BYTES:
        del annotations[ANNOTATION]
    return fresh
