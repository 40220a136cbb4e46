"""What kubelets may: their own node, pods that are bound to it, and what these name.

Source: plugin/pkg/auth/authorizer/node/node_authorizer.go (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

from tonnage.model.json_access import mapping, mappings, text
from tonnage.model.kubernetes.well_known import LEASE_NAMESPACE
from tonnage.twin.apiserver.authentication.users import NODE, NODES
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.rbac.bindings import CLUSTER_ROLE
from tonnage.twin.apiserver.rbac.decisions import AccessDecision
from tonnage.twin.apiserver.rbac.defaults import default_roles
from tonnage.twin.apiserver.rbac.pod_references import names_object
from tonnage.twin.apiserver.rbac.rules import Attributes, RoleRule, rule_of
from tonnage.twin.apiserver.requests import User
from tonnage.twin.apiserver.resource_names import POD

_ROLE: Final = "system:node"
_RESOURCE: Final = "resource.k8s.io"
_ALLOWED: Final = AccessDecision(True)
_REFUSED: Final = AccessDecision(False)
_OWN: Final = ("get", "create", "update", "patch", "delete")


def node_of(user: User) -> str | None:
    """The node whose kubelet the user is, empty if it does not say which; None for everybody else."""
    if not user.name.startswith(NODE) or NODES not in user.groups:
        return None
    return user.name.removeprefix(NODE)


class Nodes:
    """Decides what kubelets ask for."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._special: dict[tuple[str, str], Callable[[str, Attributes], AccessDecision]] = {
            ("", "secrets"): self._read,
            ("", "configmaps"): self._read,
            ("", "persistentvolumeclaims"): self._volume_claim,
            ("", "persistentvolumes"): self._get,
            (_RESOURCE, "resourceclaims"): self._get,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("", "serviceaccounts"): self._account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            (_RESOURCE, "resourceslices"): self._slice,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("certificates.k8s.io", "podcertificaterequests"): lambda _node, _attributes: _REFUSED,
        }

    def decide(self, attributes: Attributes) -> AccessDecision:
        """Whether the node that asks may."""
        node = node_of(attributes.user)
        if node is None:
            return _REFUSED
        if not node:
            return AccessDecision(False, f'unknown node for user "{attributes.user.name}"')
        special = (
            self._special.get((attributes.group, attributes.resource)) if attributes.of_resource else None
        )
        if special is not None:
            return special(node, attributes)
        return _ALLOWED if any(rule.allows(attributes) for rule in self._rules) else _REFUSED

    @cached_property
    def _rules(self) -> tuple[RoleRule, ...]:
        """What all nodes may alike; no edit of the role of that name changes it."""
        return tuple(
            rule_of(rule)
            for resource, role in default_roles()
            if resource == CLUSTER_ROLE and text(role, "metadata", "name") == _ROLE
            for rule in mappings(role, "rules")
        )

    def _get(self, node: str, attributes: Attributes) -> AccessDecision:
        if attributes.verb != "get":
            return AccessDecision(False, "can only get individual resources of this type")
        return (
            AccessDecision(False, "cannot get subresource")
            if attributes.subresource
            else self._related(node, attributes)
        )

    def _read(self, node: str, attributes: Attributes) -> AccessDecision:
        if attributes.verb not in ("get", "list", "watch"):
            return AccessDecision(False, "can only read resources of this type")
        if attributes.subresource:
            return AccessDecision(False, "cannot read subresource")
        if not attributes.namespace:
            return AccessDecision(False, "can only read namespaced object of this type")
        return self._related(node, attributes)

    def _volume_claim(self, node: str, attributes: Attributes) -> AccessDecision:
        if attributes.subresource != "status":
            return self._get(node, attributes)
        if attributes.verb not in ("update", "patch"):
            return AccessDecision(False, "can only get/update/patch this type")
        return self._related(node, attributes)

    def _account(self, node: str, attributes: Attributes) -> AccessDecision:
        if attributes.verb == "get" and not attributes.subresource:
            return self._read(node, attributes)
        if attributes.verb != "create" or not attributes.name:
            return AccessDecision(False, "can only create tokens for individual service accounts")
        if attributes.subresource != "token":
            return AccessDecision(False, "can only create token subresource of serviceaccount")
        return self._related(node, attributes)

    def _lease(self, node: str, attributes: Attributes) -> AccessDecision:
        if attributes.verb not in _OWN:
            return AccessDecision(False, "can only get, create, update, patch, or delete a node lease")
        if attributes.namespace != LEASE_NAMESPACE:
            return AccessDecision(
                False, f'can only access leases in the "{LEASE_NAMESPACE}" system namespace'
            )
        if attributes.verb != "create" and attributes.name != node:
            return AccessDecision(
                False, "can only access node lease with the same name as the requesting node"
            )
        return _ALLOWED

    def _csi_node(self, node: str, attributes: Attributes) -> AccessDecision:
        if attributes.verb not in _OWN:
            return AccessDecision(False, "can only get, create, update, patch, or delete a CSINode")
        if attributes.subresource:
            return AccessDecision(False, "cannot authorize CSINode subresources")
        if attributes.verb != "create" and attributes.name != node:
            return AccessDecision(False, "can only access CSINode with the same name as the requesting node")
        return _ALLOWED

    def _slice(self, node: str, attributes: Attributes) -> AccessDecision:
        if attributes.subresource:
            return AccessDecision(False, "cannot authorize ResourceSlice subresources")
        match attributes.verb:
            case "create":
                return _ALLOWED
            case "get" | "update" | "patch" | "delete":
                return self._related(node, attributes)
            case "watch" | "list" | "deletecollection" if _selects(attributes.fields, "spec.nodeName", node):
                return _ALLOWED
            case "watch" | "list" | "deletecollection":
                why = "can only list/watch/deletecollection resourceslices with nodeName field selector"
                return AccessDecision(False, why)
        verbs = "get, watch, list, create, update, patch, delete, deletecollection"
        return AccessDecision(False, f"only the following verbs are allowed for a ResourceSlice: {verbs}")

    def _node(self, node: str, attributes: Attributes) -> AccessDecision:
        match attributes.subresource, attributes.verb:
            case "", "create" | "update" | "patch":
                return _ALLOWED
            case "", "get" | "list" | "watch":
                if attributes.name == node:
                    return _ALLOWED
                subject = f"'{attributes.name}'" if attributes.name else "all nodes"
                return AccessDecision(False, f"node '{node}' cannot read {subject}, only its own Node object")
            case "status", "update" | "patch":
                return _ALLOWED
        return _REFUSED

    def _pod(self, node: str, attributes: Attributes) -> AccessDecision:
        match attributes.subresource, attributes.verb:
            case "", "get":
                return self._get(node, attributes)
            case "", "list" | "watch":
                if _selects(attributes.fields, "spec.nodeName", node):
                    return _ALLOWED
                if attributes.name:
                    return self._related(node, attributes)
                return AccessDecision(False, "can only list/watch pods with spec.nodeName field selector")
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return _ALLOWED
        return _REFUSED

    def _related(self, node: str, attributes: Attributes) -> AccessDecision:
        """Whether something that is bound to the node names the object."""
        if not attributes.name:
            return AccessDecision(False, "No Object name found")
        if self._is_related(node, attributes):
            return _ALLOWED
        return AccessDecision(False, f"no relationship found between node '{node}' and this object")

    def _is_related(self, node: str, attributes: Attributes) -> bool:
        resource = (attributes.group, attributes.resource)
        match resource:
            case ("", "pods"):
                stored = self._store.get(POD, (attributes.namespace, attributes.name))
                return stored is not None and text(stored.object, "spec", "nodeName") == node
            case (_, "resourceslices" | "volumeattachments"):
                stored = self._store.get(resource, ("", attributes.name))
                return stored is not None and text(stored.object, "spec", "nodeName") == node
            case ("", "persistentvolumes"):
                stored = self._store.get(resource, ("", attributes.name))
                if stored is None:
                    return False
                claim = mapping(stored.object, "spec", "claimRef")
                owner = text(claim, "namespace"), text(claim, "name")
                return self._has_pod_that_names(node, "persistentvolumeclaims", *owner)
        return self._has_pod_that_names(node, attributes.resource, attributes.namespace, attributes.name)

    def _has_pod_that_names(self, node: str, plural: str, namespace: str, name: str) -> bool:
        return any(
            text(stored.object, "spec", "nodeName") == node and names_object(stored.object, plural, name)
            for stored in self._store.list(POD, namespace=namespace)
        )


def _selects(fields: str, field: str, value: str) -> bool:
    """Whether a field selector demands this value."""
    return any(term in (f"{field}={value}", f"{field}=={value}") for term in fields.split(","))
