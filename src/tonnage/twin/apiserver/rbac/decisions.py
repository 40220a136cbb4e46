"""Decisions about requests: by privilege, for nodes, by roles and bindings; and the refusal in words.

Source: staging/src/k8s.io/apiserver/pkg/authorization/union and .../handlers/responsewriters (v1.35).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.authentication.users import MASTERS
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import User
from tonnage.twin.apiserver.statuses import StatusError, forbidden


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether something is allowed; `reason` says by what, or why not, where there is something to say."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """One way to be allowed something. What one does not allow another may."""

    def decide(self, attributes: Attributes) -> AccessDecision:
        """Whether it allows what is asked."""
        ...


class Authorizers:
    """All authorizers: whoever is privileged may everything, others what one of them allows."""

    def __init__(self, authorizers: Sequence[Authorizer]) -> None:
        self._authorizers = authorizers

    def decide(self, attributes: Attributes) -> AccessDecision:
        """The first that allows it; else the reasons of all."""
        if privileged(attributes.user):
            return AccessDecision(True)
        reasons = []
        for authorizer in self._authorizers:
            decision = authorizer.decide(attributes)
            if decision.allowed:
                return decision
            reasons += [decision.reason] if decision.reason else []
        return AccessDecision(False, "\n".join(reasons))

    def require(self, attributes: Attributes) -> None:
        """Raises ApiError 403 unless it is allowed."""
        decision = self.decide(attributes)
        if not decision.allowed:
            raise refusal(attributes, decision.reason)


def privileged(user: User) -> bool:
    """Whether nothing is refused to the user."""
    return MASTERS in user.groups


def refusal(attributes: Attributes, reason: str = "") -> StatusError:
    """403 of a request that nobody allows."""
    subject = f"User {quoted(attributes.user.name)} cannot {attributes.verb}"
    if not attributes.of_resource:
        message = _sanitized(f"{subject} path {quoted(attributes.path)}")
        details: JsonObject = {}
        return StatusError(403, "Forbidden", f"forbidden: {_with(message, reason)}", details=details)
    where = (
        f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    )
    resource = f"resource {quoted(attributes.whole)} in API group {quoted(attributes.group)}"
    message = _with(_sanitized(f"{subject} {resource} {where}"), reason)
    return forbidden((attributes.group, attributes.resource), attributes.name, message)


def _with(message: str, reason: str) -> str:
    return f"{message}: {reason}" if reason else message


def _sanitized(message: str) -> str:
    return message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
