"""All that decides who may do what on one server, put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tonnage.model.json import JsonObject
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.audit import AuditLog, Trail, origin_of
from tonnage.twin.apiserver.authentication.account_tokens import TokenKey
from tonnage.twin.apiserver.authentication.authenticator import Authenticator
from tonnage.twin.apiserver.discovery.documents import VERSION
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.rbac.bindings import Bindings
from tonnage.twin.apiserver.rbac.decisions import AccessDecision, Authorizers
from tonnage.twin.apiserver.rbac.nodes import Nodes
from tonnage.twin.apiserver.rbac.reviews import Reviews
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.serving.exchange import Exchange
from tonnage.twin.apiserver.serving.request_access import Gate
from tonnage.twin.apiserver.writing.pipeline import WritePipeline


class Rights:
    """Who has which rights, by what the store holds."""

    def __init__(self, store: ObjectStore) -> None:
        self.bindings = Bindings(store)
        self.authority = Authorizers((Nodes(store), self.bindings))


@dataclass(frozen=True, slots=True)
class Security:
    """What the HTTP face asks about access."""

    authenticator: Authenticator
    gate: Gate
    reviews: Reviews
    clock: Clock
    audit: AuditLog | None
    authority: Authorizers
    key: TokenKey
    connect: Callable[[ApiRequest, JsonObject], Awaitable[None]]
    """Asks admission about a stream."""

    def follow(self, exchange: Exchange) -> None:
        """Tell the audit log of a request, if there is one."""
        if self.audit is not None:
            origin = origin_of(exchange.scope, exchange.headers)
            exchange.trail = Trail(
                self.audit.write, self.clock, origin, exchange.notes.audit, exchange.audit_id
            )

    def follow_local(self, request: ApiRequest, program: str) -> Trail:
        """Tell the audit log, which must be there, of a request by a program in this process.

        Nobody asks for its rights; the reason is that by which a genuine one has them.
        """
        assert self.audit is not None
        row, name = request.served.row, request.name
        base = f"/apis/{row.group}/{row.version}" if row.group else f"/api/{row.version}"
        space = ("namespaces", request.namespace) if request.namespace else ()
        parts = (base, *space, row.plural, name, request.subresource)
        origin: JsonObject = {
            "requestURI": "/".join(part for part in parts if part),
            "sourceIPs": ["127.0.0.1"],
            "userAgent": f"{program}/{VERSION['gitVersion']} (linux/amd64)",
        }
        attributes = Attributes(
            request.user, request.verb, row.group, row.plural, request.subresource, request.namespace, name
        )
        trail = Trail(self.audit.write, self.clock, origin, request.notes.audit)
        trail.came_from(request.user)
        trail.asks(attributes, row.version)
        reason = self.authority.decide(attributes).reason
        trail.decided(AccessDecision(True, reason if reason.startswith("RBAC: allowed") else ""))
        return trail


def security(
    pipeline: WritePipeline, clock: Clock, rights: Rights, key: TokenKey, audit: AuditLog | None
) -> Security:
    """The parts for one server, whose service accounts' tokens `key` signs."""
    store = pipeline.store
    authenticator = Authenticator(store, clock, key)
    reviews = Reviews(
        pipeline.codec, pipeline.ownership, clock, authenticator, rights.authority, rights.bindings
    )
    gate = Gate(authenticator, rights.authority)
    return Security(authenticator, gate, reviews, clock, audit, rights.authority, key, pipeline.connect)
