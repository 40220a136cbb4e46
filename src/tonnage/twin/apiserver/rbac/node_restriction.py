"""What kubelets may write: their own node, pods bound to it, leases and slices of their name.

Source: plugin/pkg/admission/noderestriction (v1.35). What changes of a claim's status is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, flag, mapping, mappings, text, texts
from tonnage.model.kubernetes.well_known import LEASE_NAMESPACE, MIRROR
from tonnage.twin.apiserver.object_store import ObjectStore, Resource
from tonnage.twin.apiserver.rbac.decisions import Authorizers
from tonnage.twin.apiserver.rbac.nodes import node_of
from tonnage.twin.apiserver.rbac.pod_references import first_reference
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import NODE, POD
from tonnage.twin.apiserver.statuses import forbidden, not_found

_RESTRICTED: Final = "node-restriction.kubernetes.io"
_OWN_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)
_OWN_PREFIXES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_AUDIENCE_VERB: Final = "request-serviceaccounts-token-audience"

Check = Callable[[ApiRequest, str, JsonObject | None, JsonObject | None], str]
"""Request, node, new and old object to the reason of a refusal; empty if there is none."""


class NodeRestriction:
    """Refuses what a kubelet writes about others."""

    def __init__(self, store: ObjectStore, authority: Authorizers) -> None:
        self._store = store
        self._authority = authority
        self._checks: dict[Resource, Check] = {
            POD: self._pod,
            NODE: _node,
            ("", "persistentvolumeclaims"): _volume_claim,
            ("", "serviceaccounts"): self._token,
            ("coordination.k8s.io", "leases"): _lease,
            ("storage.k8s.io", "csinodes"): _csi_node,
            ("resource.k8s.io", "resourceslices"): _slice,
        }

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Check what a kubelet writes. Raises ApiError 403, 404."""
        node = node_of(request.user)
        if node is None:
            return
        why = f"could not determine node from user {quoted(request.user.name)}"
        if node:
            check = self._checks.get(request.resource)
            why = check(request, node, obj, old) if check is not None else ""
        if why:
            raise forbidden(request.resource, request.name or text(obj, "metadata", "name"), why)

    def _pod(self, request: ApiRequest, node: str, obj: JsonObject | None, old: JsonObject | None) -> str:
        match request.subresource:
            case "eviction":
                pod_node = text(self._object(POD, request.namespace, request.name), "spec", "nodeName")
                return "" if pod_node == node else f"node {node} can only evict pods {_ITSELF}"
            case "status" if obj is not None and old is not None:
                return _pod_status(node, obj, old)
            case "" if obj is None:
                own = text(old, "spec", "nodeName") == node
                return "" if own else f"node {quoted(node)} can only delete pods {_ITSELF}"
            case "" if old is None and obj is not None:
                return self._mirror_pod(node, obj)
        if request.subresource:
            allowed = "only 'status' and 'eviction' are allowed"
            return f"unexpected pod subresource {quoted(request.subresource)}, {allowed}"
        return f'unexpected operation "UPDATE", node {quoted(node)} can only create and delete mirror pods'

    def _mirror_pod(self, node: str, pod: JsonObject) -> str:
        shown = quoted(node)
        if at(pod, "metadata", "annotations", MIRROR) is None:
            return f"pod does not have {quoted(MIRROR)} annotation, node {shown} can only create mirror pods"
        if text(pod, "spec", "nodeName") != node:
            return f"node {shown} can only create pods {_ITSELF}"
        why = self._owner(node, mappings(pod, "metadata", "ownerReferences"))
        if why:
            return why
        named = first_reference(pod)
        return f"node {shown} can not create pods that reference {named}" if named else ""

    def _owner(self, node: str, owners: list[JsonObject]) -> str:
        only = f"node {quoted(node)} can only create pods with"
        if len(owners) > 1:
            return f"{only} a single owner reference set to itself"
        owner = owners[0] if owners else {}
        identity = tuple(text(owner, key) for key in ("apiVersion", "kind", "name"))
        if identity != ("v1", "Node", node):
            return f"{only} an owner reference set to itself"
        if not flag(owner, "controller"):
            return f"{only} a controller owner reference set to itself"
        if flag(owner, "blockOwnerDeletion"):
            return f"node {quoted(node)} must not set blockOwnerDeletion on an owner reference"
        uid, claimed = text(self._object(NODE, "", node), "metadata", "uid"), text(owner, "uid")
        return "" if uid == claimed else f"node {node} UID mismatch: expected {claimed} got {uid}"

    def _token(self, request: ApiRequest, node: str, obj: JsonObject | None, old: JsonObject | None) -> str:
        if request.subresource != "token" or obj is None or old is not None:
            return ""
        bound = mapping(obj, "spec", "boundObjectRef")
        name, uid = text(bound, "name"), text(bound, "uid")
        if (text(bound, "apiVersion"), text(bound, "kind")) != ("v1", "Pod") or not name:
            return "node requested token not bound to a pod"
        if not uid:
            return "node requested token with a pod binding without a uid"
        pod = self._object(POD, request.namespace, name)
        if uid != text(pod, "metadata", "uid"):
            return (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if text(pod, "spec", "nodeName") != node:
            return "node requested token bound to a pod scheduled on a different node"
        return self._audience(request, obj, pod)

    def _audience(self, request: ApiRequest, obj: JsonObject, pod: JsonObject) -> str:
        audiences = texts(obj, "spec", "audiences")
        if len(audiences) > 1:
            return "node may only request 0 or 1 audiences"
        audience = audiences[0] if audiences else ""
        if audience in _projected_audiences(pod):
            return ""
        needed = Attributes(request.user, _AUDIENCE_VERB, "", audience, "", request.namespace, request.name)
        if self._authority.decide(needed).allowed:
            return ""
        return (
            f"audience {quoted(audience)} not found in pod spec volume, {request.user.name} is not "
            "authorized to request tokens for this audience"
        )

    def _object(self, resource: Resource, namespace: str, name: str) -> JsonObject:
        stored = self._store.get(resource, (namespace, name))
        if stored is None:
            raise not_found(resource, name)
        return stored.object


_ITSELF: Final = "with spec.nodeName set to itself"


def _projected_audiences(pod: JsonObject) -> Iterable[str]:
    for volume in mappings(pod, "spec", "volumes"):
        for source in mappings(volume, "projected", "sources"):
            if at(source, "serviceAccountToken") is not None:
                yield text(source, "serviceAccountToken", "audience")


def _pod_status(node: str, pod: JsonObject, old: JsonObject) -> str:
    if text(old, "spec", "nodeName") != node:
        return f"node {quoted(node)} can only update pod status for pods {_ITSELF}"
    if mapping(pod, "metadata", "labels") != mapping(old, "metadata", "labels"):
        return f"node {quoted(node)} cannot update labels through pod status"
    claims = [
        [(text(entry, "name"), at(entry, "resourceClaimName")) for entry in mappings(obj, "status", _CLAIMS)]
        for obj in (pod, old)
    ]
    if claims[0] != claims[1]:
        return f"node {quoted(node)} cannot update resource claim statues"
    if at(pod, "status", _EXTENDED) != at(old, "status", _EXTENDED):
        return f"node {quoted(node)} cannot update extended resource claim status"
    return ""


_CLAIMS: Final = "resourceClaimStatuses"
_EXTENDED: Final = "extendedResourceClaimStatus"


def _node(request: ApiRequest, node: str, obj: JsonObject | None, old: JsonObject | None) -> str:
    name, shown = request.name or text(obj, "metadata", "name"), quoted(node)
    if name != node:
        return f"node {shown} is not allowed to modify node {quoted(name)}"
    if obj is None:
        return ""
    source = at(obj, "spec", "configSource")
    if source is not None and (old is None or source != at(old, "spec", "configSource")):
        if old is None:
            return f"node {shown} is not allowed to create pods with a non-nil configSource"
        return f"node {shown} is not allowed to update configSource to a new non-nil configSource"
    if old is not None and mappings(obj, "spec", "taints") != mappings(old, "spec", "taints"):
        return f"node {shown} is not allowed to modify taints"
    owners = ("metadata", "ownerReferences")
    if old is not None and mappings(obj, *owners) != mappings(old, *owners):
        return f"node {shown} is not allowed to modify ownerReferences"
    listed = ", ".join(sorted(_forbidden_labels(obj, old)))
    if listed and old is None:
        return f"node {shown} is not allowed to set the following labels: {listed}"
    return f"is not allowed to modify labels: {listed}" if listed else ""


def may_label(labels: Mapping[str, str]) -> bool:
    """Whether a kubelet may give its node these labels."""
    return not any(_reserved(key) for key in labels)


def _forbidden_labels(obj: JsonObject, old: JsonObject | None) -> Iterable[str]:
    new, before = mapping(obj, "metadata", "labels"), mapping(old, "metadata", "labels")
    for key in new.keys() | before.keys():
        if new.get(key) != before.get(key) and _reserved(key):
            yield key


def _reserved(key: str) -> bool:
    prefix = key.partition("/")[0] if "/" in key else ""
    reserved = _within(prefix, ("kubernetes.io", "k8s.io")) and not _within(prefix, _OWN_PREFIXES)
    return _within(prefix, (_RESTRICTED,)) or (reserved and key not in _OWN_LABELS)


def _within(prefix: str, domains: Iterable[str]) -> bool:
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def _volume_claim(request: ApiRequest, _node: str, _obj: JsonObject | None, _old: JsonObject | None) -> str:
    return "" if request.subresource == "status" else "may only update PVC status"


def _lease(request: ApiRequest, node: str, obj: JsonObject | None, _old: JsonObject | None) -> str:
    if request.namespace != LEASE_NAMESPACE:
        return f"can only access leases in the {quoted(LEASE_NAMESPACE)} system namespace"
    own = (request.name or text(obj, "metadata", "name")) == node
    return "" if own else "can only access node lease with the same name as the requesting node"


def _csi_node(request: ApiRequest, node: str, obj: JsonObject | None, _old: JsonObject | None) -> str:
    own = (request.name or text(obj, "metadata", "name")) == node
    return "" if own else "can only access CSINode with the same name as the requesting node"


def _slice(_request: ApiRequest, node: str, obj: JsonObject | None, old: JsonObject | None) -> str:
    if old is None and text(obj, "spec", "nodeName") != node:
        return "can only create ResourceSlice with the same NodeName as the requesting node"
    if obj is None and text(old, "spec", "nodeName") != node:
        return "can only delete ResourceSlice with the same NodeName as the requesting node"
    return ""
