"""The way in: who asks, as whom, for what, and whether that is allowed.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/request/requestinfo.go and .../filters (v1.35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.twin.apiserver.authentication.authenticator import (
    Authenticator,
    TokenError,
    certified,
    presented,
)
from tonnage.twin.apiserver.authentication.impersonation import mask_of
from tonnage.twin.apiserver.authentication.users import ANONYMOUS
from tonnage.twin.apiserver.rbac.decisions import Authorizers, refusal
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import User
from tonnage.twin.apiserver.serving.exchange import Exchange
from tonnage.twin.apiserver.serving.parameters import flag_of
from tonnage.twin.apiserver.statuses import unauthorized

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_WITH_SELECTORS: Final = frozenset({"list", "watch", "deletecollection"})
_UPGRADES: Final = frozenset({"exec", "attach", "portforward"})


class Gate:
    """Lets requests pass, with the user that they are of, or refuses them."""

    def __init__(self, authenticator: Authenticator, authority: Authorizers) -> None:
        self._authenticator = authenticator
        self._authority = authority

    def let_in(self, exchange: Exchange) -> User:
        """As whom the client may ask what it asks. Raises ApiError 400, 401, 403."""
        trail = exchange.trail
        if trail is not None:
            trail.asks(asked_of(ANONYMOUS, exchange), version_of(exchange.segments))
        user = self._user(exchange)
        if trail is not None:
            trail.came_from(user)
        acting = self._acting(exchange, user)
        if trail is not None and acting is not user:
            trail.acts_as(acting)
        self._allow(exchange, acting)
        return acting

    def _user(self, exchange: Exchange) -> User:
        """Who asks. Raises ApiError 401."""
        user = certified(exchange.certificate)
        if user is not None:
            return user
        token = presented(exchange.headers.get("authorization", ""))
        if not token:
            return ANONYMOUS
        try:
            return self._authenticator.owner_of(token).user
        except TokenError:
            raise unauthorized() from None

    def _acting(self, exchange: Exchange, user: User) -> User:
        """As whom the user asks. Raises ApiError 400, 403."""
        mask = mask_of(exchange.scope["headers"])
        if mask is None:
            return user
        for needed in mask.needs(user):
            self._authority.require(needed)
        return mask.worn()

    def _allow(self, exchange: Exchange, user: User) -> None:
        """Raises ApiError 403 for what the user may not."""
        attributes = asked_of(user, exchange)
        decision = self._authority.decide(attributes)
        if exchange.trail is not None:
            exchange.trail.decided(decision)
        if not decision.allowed:
            raise refusal(attributes, decision.reason)
        websocket = exchange.scope["type"] == "websocket"
        if websocket and attributes.subresource in _UPGRADES:
            # A WebSocket begins with GET; who may read only must not get a shell by it.
            self._authority.require(_creating(attributes))

    def allow_creation(self, attributes: Attributes) -> None:
        """Raises ApiError 403 where a change would make the object and its writer may make none."""
        self._authority.require(_creating(attributes))


def _creating(attributes: Attributes) -> Attributes:
    return Attributes(
        attributes.user,
        "create",
        attributes.group,
        attributes.resource,
        attributes.subresource,
        attributes.namespace,
        attributes.name,
    )


def asked_of(user: User, exchange: Exchange) -> Attributes:
    """What a request asks for, whether that is served or not."""
    return asked_by(user, exchange.method, exchange.path, exchange.segments, exchange.query)


def asked_by(
    user: User, method: str, path: str, segments: Sequence[str], query: Mapping[str, str]
) -> Attributes:
    """What a method asks for of a path, by the same segments by which it is served.

    >>> path = "/api/v1/namespaces/ml/pods"
    >>> asked_by(User("bob"), "GET", path, path[1:].split("/"), {}).verb
    'list'
    """
    plain = Attributes(user, method.lower(), path=path, of_resource=False)
    if len(segments) < 3 or segments[0] not in ("api", "apis"):
        return plain
    group, rest = "", segments[2:]
    if segments[0] == "apis":
        if len(segments) < 4:
            return plain
        group, rest = segments[1], segments[3:]
    return _resource(user, _VERBS.get(method, ""), group, rest, query)


def version_of(segments: Sequence[str]) -> str:
    """The version of the API that the path of a resource names.

    >>> version_of(["apis", "apps", "v1", "deployments"])
    'v1'
    """
    at = 2 if segments[:1] == ["apis"] else 1
    return segments[at] if len(segments) > at else ""


def _resource(
    user: User, verb: str, group: str, parts: Sequence[str], query: Mapping[str, str]
) -> Attributes:
    namespace = ""
    if parts[0] == "watch" and len(parts) > 1:
        verb, parts = "watch", parts[1:]
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in ("status", "finalize"):
            parts = parts[2:]
    resource, name, subresource = (*parts[:3], "", "")[:3]
    if not name and verb == "get":
        verb = "watch" if flag_of(query, "watch") else "list"
        name = _selected_name(query.get("fieldSelector", ""))
    if not name and verb == "delete":
        verb = "deletecollection"
    fields = query.get("fieldSelector", "") if verb in _WITH_SELECTORS else ""
    return Attributes(user, verb, group, resource, subresource, namespace, name, fields)


def _selected_name(fields: str) -> str:
    """The one name that a field selector asks for."""
    for term in fields.split(","):
        key, _, value = term.partition("=")
        if key == "metadata.name" and value.lstrip("="):
            return "" if names.path_segment(value.lstrip("=")) else value.lstrip("=")
    return ""
