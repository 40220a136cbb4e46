"""What the server writes into new objects of who makes them, and of itself, beside what every server does.

Source: PrepareForCreate of pkg/registry/*/*/strategy.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.api.strategies.by_kind import ON_CREATE
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping
from tonnage.twin.apiserver.object_store import Resource
from tonnage.twin.apiserver.requests import User


def _signing_request(signing_request: JsonObject, user: User) -> None:
    """Write into a request for a certificate who asks, whatever he says of himself."""
    spec = mapping(signing_request, "spec")
    extra: JsonObject = {key: list(values) for key, values in user.extra}
    identity: JsonObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": extra,
    }
    for key, value in identity.items():
        spec.pop(key, None)
        if value:
            spec[key] = value


ON_CREATE_BY: Final[dict[Resource, Callable[[JsonObject, User], None]]] = {
    **ON_CREATE,
    ("certificates.k8s.io", "certificatesigningrequests"): _signing_request,
}
