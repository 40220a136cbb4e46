"""How long lists of the past can be read: as etcd's, which a server tells every five minutes what to forget.

Source: k8s.io/apiserver, pkg/storage/etcd3/compact.go (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.object_store import ObjectStore

_INTERVAL_S: Final = 300.0


async def compact(store: ObjectStore, clock: Clock) -> None:
    """Every five minutes, forget lists as they were five minutes before and earlier; until cancelled."""
    revision = 0
    while True:
        await clock.sleep(_INTERVAL_S)
        store.compacted = revision
        revision = store.revision
