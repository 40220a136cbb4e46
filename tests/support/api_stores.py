"""Stores of API servers that already have what every cluster has from its first moment.

A server makes these 200 objects in 24 ms, which is most of a short test; restored from the first one's it
takes 3.
"""

from __future__ import annotations

from functools import cache

from tonnage.model.json_access import text
from tonnage.twin.apiserver.object_store import Name, Resource, Stored
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.storage.store import LOG_LENGTH, Store
from tonnage.twin.clock import VirtualClock


def new_store(log_length: int = LOG_LENGTH) -> Store:
    """A store of its own, as the first server of this process left it when it had begun."""
    objects, revision = _first_objects()
    return Store(restored=objects, revision=revision, log_length=log_length)


@cache
def _first_objects() -> tuple[tuple[tuple[Resource, Name, Stored], ...], int]:
    store = ApiServer(VirtualClock()).store
    objects = [
        (
            resource,
            (text(stored.object, "metadata", "namespace"), text(stored.object, "metadata", "name")),
            stored,
        )
        for resource in store.resources()
        for stored in store.list(resource)
    ]
    return tuple(objects), store.revision
