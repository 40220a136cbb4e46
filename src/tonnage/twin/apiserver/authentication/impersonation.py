"""Users that act as another one: who they want to be, and what they need the right for.

Source: staging/src/k8s.io/apiserver/pkg/endpoints/filters/impersonation (v1.35).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from tonnage.twin.apiserver.authentication.users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    account_groups,
    account_of,
    extra_of,
)
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import User
from tonnage.twin.apiserver.statuses import bad_request

_VERB: Final = "impersonate"
_GROUP: Final = "authentication.k8s.io"
_PREFIX: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"


@dataclass(frozen=True, slots=True)
class Mask:
    """Whom a request wants to pass for; there is no user where the name is empty."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = field(default_factory=dict)

    def needs(self, user: User) -> Iterator[Attributes]:
        """What `user` must be allowed, in the order of asking."""
        account = account_of(self.name)
        if account is not None:
            yield Attributes(user, _VERB, "", "serviceaccounts", namespace=account[0], name=account[1])
        else:
            yield Attributes(user, _VERB, "", "users", name=self.name)
        for group in self.groups:
            yield Attributes(user, _VERB, "", "groups", name=group)
        for key, values in self.extra.items():
            for value in values:
                yield Attributes(user, _VERB, _GROUP, "userextras", key, name=value)
        if self.uid:
            yield Attributes(user, _VERB, _GROUP, "uids", name=self.uid)

    def worn(self) -> User:
        """The user that the request goes on as."""
        groups = self.groups
        account = account_of(self.name)
        if account is not None and not groups:
            groups = account_groups(account[0])
        if self.name == ANONYMOUS.name:
            added = () if UNAUTHENTICATED in groups else (UNAUTHENTICATED,)
        else:
            added = () if {AUTHENTICATED, UNAUTHENTICATED} & set(groups) else (AUTHENTICATED,)
        return User(self.name, (*groups, *added), self.uid, extra_of(self.extra))


def mask_of(headers: Sequence[tuple[bytes, bytes]]) -> Mask | None:
    """Whom a request's headers, their names in small letters, want to pass for.

    Raises:
        ApiError: 400 where groups and the like come without a user.
    """
    impersonation = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in headers]
    impersonation = [(key, value) for key, value in impersonation if key.startswith(_PREFIX)]
    if not impersonation:
        return None
    extra: dict[str, list[str]] = {}
    for key, value in impersonation:
        if key.startswith(_EXTRA):
            extra.setdefault(unquote(key.removeprefix(_EXTRA)), []).append(value)
    mask = Mask(
        next((value for key, value in impersonation if key == "impersonate-user"), ""),
        tuple(value for key, value in impersonation if key == "impersonate-group"),
        next((value for key, value in impersonation if key == "impersonate-uid"), ""),
        extra,
    )
    if mask.name:
        return mask
    if mask.groups or mask.uid or extra:
        raise bad_request(f"requested [{' '.join(_references(mask))}] without impersonating a user")
    return None


def _references(mask: Mask) -> Iterator[str]:
    """What is wanted, as Go prints object references."""
    for group in mask.groups:
        yield f"{{Group  {group}    }}"
    for key, values in mask.extra.items():
        for value in values:
            yield f"{{UserExtra  {value}  {_GROUP}/v1  {key}}}"
    if mask.uid:
        yield f"{{UID  {mask.uid}  {_GROUP}/v1  }}"
