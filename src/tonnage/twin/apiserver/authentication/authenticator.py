"""Who a request's token or certificate says that it is.

Source: staging/src/k8s.io/apiserver/pkg/authentication/request and pkg/serviceaccount/claims.go (v1.35).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, number, text
from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.authentication.account_tokens import (
    ISSUER,
    TokenKey,
    audiences_of,
    unsigned_claims,
)
from tonnage.twin.apiserver.authentication.users import AUTHENTICATED, account_user, extra_of
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.rbac.rules import listed
from tonnage.twin.apiserver.requests import User
from tonnage.twin.apiserver.resource_names import SERVICE_ACCOUNT
from tonnage.twin.apiserver.statuses import not_found

_LEEWAY_S: Final = 60
_MOST_REMEMBERED: Final = 1024
_EXTRA: Final = "authentication.kubernetes.io"
_BOUND: Final = (("secret", "Secret"), ("pod", "Pod"), ("node", "Node"))


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """Whose token it is, and which of the audiences that were asked for it is for."""

    user: User
    audiences: tuple[str, ...] = (ISSUER,)


class TokenError(Exception):
    """A token that lets nobody in; the text says why, empty when nobody knows it."""


class Authenticator:
    """Knows the tokens of `users` and those that `key` has signed for service accounts in the store."""

    def __init__(self, store: ObjectStore, clock: Clock, key: TokenKey) -> None:
        self._store = store
        self._clock = clock
        self._key = key
        self._users: dict[bytes, User] = {}
        self._claims: dict[bytes, JsonObject] = {}

    def let_in(self, users: Mapping[str, User]) -> None:
        """Know these tokens from now on, and no others by heart."""
        self._users = {_digest(token): user for token, user in users.items()}

    def owner_of(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> TokenOwner:
        """Whose token it is. Raises TokenError."""
        digest = _digest(token)
        for by_heart, user in self._users.items():
            if hmac.compare_digest(by_heart, digest):
                if ISSUER not in audiences:
                    raise TokenError("")
                return TokenOwner(user, (ISSUER,))
        claims = self._signed(token, digest)
        own = audiences_of(claims)
        meant = tuple(audience for audience in own if audience in audiences)
        if not meant:
            targets = listed(audiences)
            raise TokenError(f"token audiences {listed(own)} is invalid for the target audiences {targets}")
        self._check_times(claims)
        return TokenOwner(self._account(claims), meant)

    def _signed(self, token: str, digest: bytes) -> JsonObject:
        """Claims of ours; those that were checked once are remembered."""
        remembered = self._claims.get(digest)
        if remembered is not None:
            return remembered
        claims = self._key.claims(token)
        if claims is None:
            ours = text(unsigned_claims(token), "iss") == ISSUER
            raise TokenError("invalid signature, no keys found" if ours else "")
        if len(self._claims) >= _MOST_REMEMBERED:
            self._claims.clear()
        self._claims[digest] = claims
        return claims

    def _check_times(self, claims: JsonObject) -> None:
        now = int(self._clock.now().timestamp())
        if now > number(claims, "exp") + _LEEWAY_S:
            raise TokenError("service account token has expired")
        if now < number(claims, "nbf") - _LEEWAY_S:
            raise TokenError("service account token is not valid yet")

    def _account(self, claims: JsonObject) -> User:
        private = mapping(claims, "kubernetes.io")
        namespace, name = text(private, "namespace"), text(private, "serviceaccount", "name")
        claimed = text(private, "serviceaccount", "uid")
        account = self._store.get(SERVICE_ACCOUNT, (namespace, name))
        if account is None:
            raise TokenError(not_found(SERVICE_ACCOUNT, name).message)
        uid = text(account.object, "metadata", "uid")
        if uid != claimed:
            raise TokenError(f"service account UID ({uid}) does not match claim ({claimed})")
        if self._ended(account.object):
            raise TokenError(f"service account {namespace}/{name} has been deleted")
        for key, kind in _BOUND:
            if at(private, key) is not None and not (key == "node" and at(private, "pod") is not None):
                self._check_bound(kind, namespace, mapping(private, key))
        return account_user(namespace, name, uid, extra_of(_known_of(claims, private)))

    def _check_bound(self, kind: str, namespace: str, reference: JsonObject) -> None:
        """A token goes with the object that it is bound to."""
        plural = f"{kind.lower()}s"
        key = ("" if kind == "Node" else namespace, text(reference, "name"))
        stored = self._store.get(("", plural), key)
        if stored is None or self._ended(stored.object):
            raise TokenError("service account token has been invalidated")
        uid, claimed = text(stored.object, "metadata", "uid"), text(reference, "uid")
        if uid != claimed:
            shown = kind.lower() if kind == "Node" else kind
            claim = f"service account {kind.lower()} ref claim"
            raise TokenError(f"{shown} UID ({uid}) does not match {claim} ({claimed})")

    def _ended(self, obj: JsonObject) -> bool:
        """Whether an object's deletion is over for longer than clocks may differ."""
        since = text(obj, "metadata", "deletionTimestamp")
        return bool(since) and _seconds(self._clock.now(), since) > _LEEWAY_S


def presented(header: str) -> str:
    """The token that an Authorization header presents; empty when it presents none.

    >>> presented("Bearer abc")
    'abc'
    """
    parts = header.strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def certified(certificate: Mapping[str, object] | None) -> User | None:
    """The user of a client certificate, as `ssl` describes one: its common name, in its organizations."""
    subject = (certificate or {}).get("subject")
    if not isinstance(subject, tuple):
        return None
    parts = [part for relative_name in subject for part in relative_name]
    names = [value for key, value in parts if key == "commonName"]
    groups = [value for key, value in parts if key == "organizationName"]
    return User(names[0], (*groups, AUTHENTICATED)) if names and names[0] else None


def _known_of(claims: JsonObject, private: JsonObject) -> dict[str, list[str]]:
    """What the token says besides, by the names that users see."""
    extra: dict[str, list[str]] = {}
    if text(claims, "jti"):
        extra[f"{_EXTRA}/credential-id"] = [f"JTI={text(claims, 'jti')}"]
    for key in ("pod", "node"):
        for field in ("name", "uid"):
            if value := text(private, key, field):
                extra[f"{_EXTRA}/{key}-{field}"] = [value]
    return extra


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _seconds(now: datetime, since: str) -> float:
    return (now - moment_of(since)).total_seconds()
