"""Proxies and forwarded ports: what a server says before it would dial. Nothing routes on the twin.

Source: pkg/registry/core/{node,pod,service} (ResourceLocation, PortForwardLocation), k8s.io/apimachinery
util/net/port_split.go (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.digits import whole_number
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mappings, number, text
from tonnage.twin.apiserver.requests import Address
from tonnage.twin.apiserver.resource_names import ENDPOINTS, NODE, SERVICE
from tonnage.twin.apiserver.resources import Served
from tonnage.twin.apiserver.statuses import StatusError, bad_request, method_not_allowed, not_found
from tonnage.twin.apiserver.storage.store import Store

UNROUTED: Final = frozenset({"proxy", "portforward"})
_NOTHING_ROUTES: Final = "error trying to reach service: on this twin nothing routes"
_VERBS: Final = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "DELETE": "delete"}
_MOST_PARTS: Final = 3


def unrouted(store: Store, served: Served, address: Address, method: str) -> ApiError:
    """Why a request to a `proxy` or `portforward` leads nowhere."""
    part = served.row.subresource(address.subresource)
    if part is not None and _VERBS.get(method, method.lower()) not in part.verbs:
        return method_not_allowed()
    if address.subresource == "portforward":
        return _without_route(store, served, address, address.name, "")
    scheme, name, port = _split(address.name)
    if not name or scheme not in ("", "http", "https"):
        return bad_request(f"invalid {served.row.singular} request {quoted(address.name)}")
    return _without_route(store, served, address, name, port)


def _without_route(store: Store, served: Served, address: Address, name: str, port: str) -> ApiError:
    """Why the object of that name is not reached."""
    stored = store.get(served.key, (address.namespace, name))
    if stored is None:
        return not_found(served.key, name)
    obj = stored.object
    if address.subresource == "portforward":
        if not text(obj, "spec", "nodeName"):
            return bad_request(f"pod {name} does not have a host assigned")
    elif served.key == SERVICE:
        return _without_endpoints(store, obj, address, port)
    elif served.key != NODE and not text(obj, "status", "podIP"):
        return bad_request("address not allowed")
    return _unavailable(_NOTHING_ROUTES)


def _without_endpoints(store: Store, service: JsonObject, address: Address, port: str) -> ApiError:
    name = text(service, "metadata", "name")
    numbers = [number(one, "port") for one in mappings(service, "spec", "ports")]
    wanted = whole_number(port)
    if wanted is not None and wanted not in numbers:
        return _unavailable(f"no service port {wanted} found for service {quoted(name)}")
    endpoints = store.get(ENDPOINTS, (address.namespace, name))
    if endpoints is None:
        return not_found(SERVICE, name)
    subsets = mappings(endpoints.object, "subsets")
    addresses = [one for subset in subsets for one in mappings(subset, "addresses")]
    if not any(text(one, "targetRef", "kind") == "Pod" for one in addresses):
        called = address.name if subsets else name
        return _unavailable(f"no endpoints available for service {quoted(called)}")
    return _unavailable(_NOTHING_ROUTES)


def _unavailable(why: str) -> StatusError:
    return StatusError(503, "ServiceUnavailable", why)


def _split(name: str) -> tuple[str, str, str]:
    """Scheme, name and port of `name`, `name:port` or `scheme:name:port`; of others no name.

    >>> _split("web"), _split("web:80"), _split("https:web:"), _split("a:b:c:d")
    (('', 'web', ''), ('', 'web', '80'), ('https', 'web', ''), ('', '', ''))
    """
    parts = name.split(":")
    if len(parts) > _MOST_PARTS:
        return "", "", ""
    scheme, name, port = ("", *parts, "")[:3] if len(parts) < _MOST_PARTS else parts
    return scheme, name, port
