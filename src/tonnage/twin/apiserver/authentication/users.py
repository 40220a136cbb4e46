"""Users as requests show them, and the names and groups that have a meaning.

Source: staging/src/k8s.io/apiserver/pkg/authentication/user and .../serviceaccount (v1.35).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.requests import Extra, User

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ACCOUNT: Final = "system:serviceaccount:"
NODE: Final = "system:node:"
NODES: Final = "system:nodes"
ACCOUNTS: Final = "system:serviceaccounts"
ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))
ADMIN: Final = User("admin", (MASTERS, AUTHENTICATED), "admin")
"""Who holds the kubeconfig of `tonnage up`, on either engine."""

API_SERVER: Final = User("system:apiserver", (MASTERS, AUTHENTICATED))
SCHEDULER: Final = User("system:kube-scheduler", (AUTHENTICATED,))


def account_user(namespace: str, name: str, uid: str = "", extra: Extra = ()) -> User:
    """A service account as user."""
    groups = (*account_groups(namespace), AUTHENTICATED)
    return User(f"{ACCOUNT}{namespace}:{name}", groups, uid, extra)


def account_groups(namespace: str) -> tuple[str, str]:
    """The groups of every service account of a namespace."""
    return ACCOUNTS, f"{ACCOUNTS}:{namespace}"


def node_user(name: str) -> User:
    """A node's kubelet as user."""
    return User(f"{NODE}{name}", (NODES, AUTHENTICATED))


def account_of(user_name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user's name means, or None.

    >>> account_of("system:serviceaccount:default:robot")
    ('default', 'robot')
    """
    parts = user_name.removeprefix(ACCOUNT).split(":")
    if not user_name.startswith(ACCOUNT) or len(parts) != 2 or not all(parts):
        return None
    return parts[0], parts[1]


def extra_of(values: Mapping[str, Sequence[str]]) -> Extra:
    """What is known of a user besides, in a fixed order."""
    return tuple((key, tuple(values[key])) for key in sorted(values))


def user_info(user: User) -> JsonObject:
    """A user as reviews and audit events show him."""
    fields: JsonObject = {"username": user.name}
    if user.uid:
        fields["uid"] = user.uid
    if user.groups:
        fields["groups"] = list(user.groups)
    if user.extra:
        fields["extra"] = {key: list(values) for key, values in user.extra}
    return fields
