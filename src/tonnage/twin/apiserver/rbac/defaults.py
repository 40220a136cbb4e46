"""The roles and bindings that a cluster has from its first moment: recorded from a genuine Kubernetes 1.35.8.

`default_roles.json` is written by `scripts/record_access.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import msgspec

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.rbac.bindings import GROUP


def default_roles() -> Iterator[tuple[Resource, JsonObject]]:
    """Every object, which is the reader's own, with its resource."""
    content = files(__name__.rpartition(".")[0]).joinpath("default_roles.json").read_bytes()
    by_plural: dict[str, list[JsonObject]] = msgspec.json.decode(content)
    for plural, objects in by_plural.items():
        for obj in objects:
            yield (GROUP, plural), obj
