"""Who may do what, as expressions ask it of `authorizer`.

Source: k8s.io/apiserver pkg/cel/library (authz.go), v1.35.
"""

from __future__ import annotations

from tonnage.decide.kubernetes.api.custom.named_formats import FormatHost
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text
from tonnage.twin.apiserver.authentication.users import ACCOUNT
from tonnage.twin.apiserver.rbac.decisions import Authorizers
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import ApiRequest, User


class RightsHost(FormatHost):
    """Answers for the user of a request."""

    def __init__(self, authority: Authorizers, user: User) -> None:
        self._authority = authority
        self._user = user

    def allowed(self, check: JsonObject) -> tuple[bool, str]:
        """Whether the user, or the account that is asked about, may do something, and why."""
        namespace, _, account = text(check, "account").partition("/")
        user = _account(namespace, account) if account else self._user
        verb = text(check, "verb")
        if "path" in check:
            attributes = Attributes(user, verb, path=text(check, "path"), of_resource=False)
        else:
            attributes = Attributes(
                user,
                verb,
                text(check, "group"),
                text(check, "resource"),
                text(check, "subresource"),
                text(check, "namespace"),
                text(check, "name"),
                text(check, "fieldSelector"),
            )
        decision = self._authority.decide(attributes)
        return decision.allowed, decision.reason


def _account(namespace: str, name: str) -> User:
    return User(
        f"{ACCOUNT}{namespace}:{name}", ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    )


def resource_asked(request: ApiRequest) -> JsonObject:
    """What `authorizer.requestResource` begins with."""
    group, resource = request.resource
    return {
        "group": group,
        "resource": resource,
        "subresource": request.subresource,
        "namespace": request.namespace,
        "name": request.name,
    }
