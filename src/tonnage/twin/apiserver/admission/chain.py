"""Admission: what the server completes in, or refuses of, an object that is well formed.

A plugin sees the object as it is about to be written and may change it in place; it refuses by raising. The
order of the tuple is the order of asking. Access rules and webhooks are further plugins; quotas
are asked after validation.

Source: plugin/pkg/admission of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, flag, mapping, mappings, number, put, text
from tonnage.model.kubernetes.well_known import MIRROR, NOT_READY
from tonnage.model.names import SYSTEM_PRIORITIES
from tonnage.twin.apiserver.admission.class_defaults import ClaimGrowth, ClassDefaults
from tonnage.twin.apiserver.admission.limits import LimitBounds, LimitDefaults
from tonnage.twin.apiserver.admission.pod_security import PodSecurityPlugin
from tonnage.twin.apiserver.admission.quotas import ResourceQuotas
from tonnage.twin.apiserver.admission.runtime_classes import RuntimeClasses, RuntimeOverheads
from tonnage.twin.apiserver.admission.service_accounts import ServiceAccounts
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.object_store import ObjectStore, Resource
from tonnage.twin.apiserver.ownership.field_manager import FieldOwnership
from tonnage.twin.apiserver.pods.topology_labels import TopologyLabels
from tonnage.twin.apiserver.policies.plugin import AdmissionPolicies
from tonnage.twin.apiserver.rbac.decisions import Authorizers
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import NAMESPACE, NODE, POD
from tonnage.twin.apiserver.resources import Registry
from tonnage.twin.apiserver.statuses import StatusCause, forbidden, not_found, shown_name
from tonnage.twin.apiserver.strategies.services import ServiceAddresses
from tonnage.twin.apiserver.webhooks.plugins import MutatingWebhookPlugin, ValidatingWebhookPlugin

PRIORITY_CLASS: Final[Resource] = ("scheduling.k8s.io", "priorityclasses")
IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
_TOLERATED_S: Final = 300
_EVICTING_TAINTS: Final = (NOT_READY, "node.kubernetes.io/unreachable")


class AdmissionPlugin(Protocol):
    """One admission plugin. `old` is None on create; `obj` is None on delete."""

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Return to let the request pass. Raises ApiError to refuse it."""
        ...


class NamespaceLifecycle:
    """Nothing is made in a namespace that is missing or ending, and nothing changed in one that is missing;
    three namespaces never end."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse a write outside a living namespace, and the deletion of a namespace that must live."""
        if request.verb == "delete" and request.resource == NAMESPACE and request.name in IMMORTAL:
            raise forbidden(NAMESPACE, request.name, "this namespace may not be deleted")
        if obj is None or not request.namespace:
            return
        namespace = self._store.get(NAMESPACE, ("", request.namespace))
        if namespace is None:
            raise not_found(NAMESPACE, request.namespace)
        if old is None and text(namespace.object, "metadata", "deletionTimestamp"):
            ending = f"namespace {request.namespace} is being terminated"
            raise forbidden(
                request.resource,
                request.name or shown_name(obj),
                f"unable to create new content in namespace {request.namespace} "
                "because it is being terminated",
                causes=[StatusCause("NamespaceTerminating", ending, "metadata.namespace")],
            )


class Priority:
    """A pod's class becomes its priority; only one class is the default."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Resolve a new pod's class; check that a class does not become a second default, nor goes."""
        if obj is None and request.resource == PRIORITY_CLASS and request.name in SYSTEM_PRIORITIES:
            why = "this is a system priority class and cannot be deleted"
            raise forbidden(PRIORITY_CLASS, request.name, why)
        if obj is None or request.subresource:
            return
        if request.resource == POD and old is None:
            self._resolve(request, obj)
        elif request.resource == POD:
            # What was resolved once stays, though a writer need not know it.
            for key in ("priority", "preemptionPolicy"):
                if at(obj, "spec", key) is None and at(old, "spec", key) is not None:
                    put(obj, at(old, "spec", key), "spec", key)
        if request.resource == PRIORITY_CLASS and flag(obj, "globalDefault"):
            default = self._default()
            if default is not None and text(default, "metadata", "name") != text(obj, "metadata", "name"):
                name = text(default, "metadata", "name")
                why = f"PriorityClass {name} is already marked as default. Only one default can exist"
                raise forbidden(PRIORITY_CLASS, text(obj, "metadata", "name"), why)

    def _default(self) -> JsonObject | None:
        defaults = [
            stored.object
            for stored in self._store.list(PRIORITY_CLASS)
            if flag(stored.object, "globalDefault")
        ]
        return min(defaults, key=lambda row: number(row, "value"), default=None)

    def _resolve(self, request: ApiRequest, pod: JsonObject) -> None:
        name = text(pod, "spec", "priorityClassName")
        if name:
            stored = self._store.get(PRIORITY_CLASS, ("", name))
            if stored is None:
                raise self._refused(request, pod, f"no PriorityClass with name {name} was found")
            priority_class: JsonObject | None = stored.object
        else:
            priority_class = self._default()
            if priority_class is not None:
                put(pod, at(priority_class, "metadata", "name"), "spec", "priorityClassName")
        value = number(priority_class, "value")
        policy = text(priority_class, "preemptionPolicy") or "PreemptLowerPriority"
        own, given_policy = at(pod, "spec", "priority"), text(pod, "spec", "preemptionPolicy")
        if own is not None and own != value:
            raise self._refused(
                request,
                pod,
                f"the integer value of priority ({own}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name",
            )
        if given_policy and given_policy != policy:
            raise self._refused(
                request,
                pod,
                f"the string value of PreemptionPolicy ({given_policy}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name",
            )
        put(pod, value, "spec", "priority")
        put(pod, policy, "spec", "preemptionPolicy")

    def _refused(self, request: ApiRequest, pod: JsonObject, why: str) -> Exception:
        return forbidden(request.resource, shown_name(pod), why)


class NodeTaint:
    """A new node takes no pods before the node controller has seen it ready."""

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Taint a new node. Source: plugin/pkg/admission/nodetaint."""
        if request.resource != NODE or obj is None or old is not None or request.subresource:
            return
        taints = mappings(obj, "spec", "taints")
        if not any(
            (text(taint, "key"), text(taint, "effect")) == (NOT_READY, "NoSchedule") for taint in taints
        ):
            put(obj, [*taints, {"key": NOT_READY, "effect": "NoSchedule"}], "spec", "taints")


class PodDefaults:
    """A new pod's service account, and how long it stays on a node that is lost."""

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Complete a new pod, and give one that is changed back what it must not lose."""
        if request.resource != POD or obj is None or request.subresource:
            return
        spec = mapping(obj, "spec")
        if old is None and MIRROR not in mapping(obj, "metadata", "annotations"):
            account = text(spec, "serviceAccountName") or text(spec, "serviceAccount") or "default"
            spec["serviceAccountName"] = spec["serviceAccount"] = account
        tolerations = mappings(spec, "tolerations")
        lacking = [key for key in _EVICTING_TAINTS if not any(_tolerates(own, key) for own in tolerations)]
        added: list[JsonValue] = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_S}
            for key in lacking
        ]
        if added:
            spec["tolerations"] = [*tolerations, *added]


def _tolerates(toleration: JsonObject, key: str) -> bool:
    return text(toleration, "key") in ("", key) and text(toleration, "effect") in ("", "NoExecute")


def default_plugins(
    store: ObjectStore, registry: Registry, codec: Codec, suffix: Callable[[], str], authority: Authorizers
) -> tuple[AdmissionPlugin, ...]:
    """The plugins that complete objects, in upstream's order. `suffix` makes ends of names."""
    own: tuple[AdmissionPlugin, ...] = (
        NamespaceLifecycle(store),
        LimitDefaults(store),
        PodDefaults(),
        ServiceAccounts(store, suffix),
        NodeTaint(),
        Priority(store),
        ClassDefaults(store),
        RuntimeClasses(store),
        TopologyLabels(store),
    )
    return (*own, MutatingWebhookPlugin(store, registry, codec, own, authority), ServiceAddresses(store))


def default_gates(
    store: ObjectStore, registry: Registry, codec: Codec, ownership: FieldOwnership, authority: Authorizers
) -> tuple[AdmissionPlugin, ...]:
    """The plugins that are asked of valid objects, in upstream's order."""
    return (
        LimitBounds(store),
        PodSecurityPlugin(store),
        ClaimGrowth(store),
        RuntimeOverheads(store),
        AdmissionPolicies(store, registry, codec, authority),
        ValidatingWebhookPlugin(store, registry, codec, authority),
        ResourceQuotas(store, ownership),
    )
