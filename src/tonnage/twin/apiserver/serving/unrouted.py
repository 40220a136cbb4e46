"""Proxies and forwarded ports. Nothing routes on the twin."""

from __future__ import annotations

from typing import Final

from tonnage.model.errors import ApiError
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.requests import ResourcePath
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.statuses import StatusError, not_found

UNROUTED: Final = frozenset({"proxy", "portforward"})
_NOTHING_ROUTES: Final = "error trying to reach service: on this twin nothing routes"
_WITH_SCHEME: Final = 3
"""Parts of `scheme:name:port`, as which proxies call an object; it may be `name:port` and `name`, too."""


def unrouted(store: ObjectStore, served: ServedResource, address: ResourcePath) -> ApiError:
    """Why a request to a `proxy` or `portforward` leads nowhere."""
    parts = address.name.split(":")
    name = parts[1] if len(parts) == _WITH_SCHEME else parts[0]
    if store.get(served.key, (address.namespace, name)) is None:
        return not_found(served.key, name)
    return StatusError(503, "ServiceUnavailable", _NOTHING_ROUTES)
