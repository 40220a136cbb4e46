"""The roles and bindings that a cluster has from its first moment: recorded from a genuine Kubernetes 1.35.8.

`default_roles.json` is written by `scripts/record_access.py`, and so is `gated_roles.json`, which has what is
there, or is another, with a feature gate on.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import msgspec

from tonnage.model.json import JsonObject
from tonnage.model.json_access import text
from tonnage.model.kubernetes.feature_gates import DEFAULT_GATES, FeatureGates
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.rbac.bindings import GROUP


def default_roles(gates: FeatureGates = DEFAULT_GATES) -> Iterator[tuple[Resource, JsonObject]]:
    """Every object, which is the reader's own, with its resource."""
    folder = files(__name__.rpartition(".")[0])
    objects: dict[tuple[str, str, str], JsonObject] = {}
    by_gate: dict[str, dict[str, list[JsonObject]]] = msgspec.json.decode(
        folder.joinpath("gated_roles.json").read_bytes()
    )
    usual: dict[str, list[JsonObject]] = msgspec.json.decode(
        folder.joinpath("default_roles.json").read_bytes()
    )
    for by_plural in (usual, *(others for gate, others in by_gate.items() if gates.has(gate))):
        for plural, roles in by_plural.items():
            for role in roles:
                key = plural, text(role, "metadata", "namespace"), text(role, "metadata", "name")
                objects[key] = role
    for (plural, _, _), role in objects.items():
        yield (GROUP, plural), role
