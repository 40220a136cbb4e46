"""How requests for custom kinds are read, whose paths are no routes of their own.

A method counts by what it would do: HEAD reads, whatever is sent to a path of watches watches, POST makes an
object whatever name the path has, and what follows a subresource is passed over.

Source: apiextensions-apiserver, pkg/apiserver/customresource_handler.go; k8s.io/apiserver,
pkg/endpoints/request (v1.35).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tonnage.twin.apiserver.requests import ResourcePath
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.statuses import bad_request, no_such_page
from tonnage.twin.apiserver.verbs import refused_method

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


def custom_route(served: ServedResource, address: ResourcePath, method: str) -> tuple[ResourcePath, str]:
    """The address and the method that a request for a custom kind comes to. Raises ApiError 400, 404, 405."""
    if address.watched or method == "HEAD":
        method = "GET"
    if served.row.namespaced and not address.namespace and (address.name or method != "GET"):
        raise no_such_page()
    if method not in _METHODS:
        raise refused_method(served, "")
    if method in ("PUT", "PATCH") and not address.name:
        raise bad_request("name must be provided")
    name = "" if method == "POST" and not address.subresource else address.name
    return replace(address, name=name, rest=()), method
