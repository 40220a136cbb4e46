"""RuntimeClass: a pod's class adds its overhead, node labels and tolerations, and must be there.

Source: plugin/pkg/admission/runtimeclass of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, copied, mapping, mappings, put
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.twin.apiserver.object_store import ObjectStore, Resource
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import POD
from tonnage.twin.apiserver.statuses import StatusError, forbidden, shown_name

RUNTIME_CLASS: Final[Resource] = ("node.k8s.io", "runtimeclasses")


_OTHER: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClasses:
    """An admission plugin that completes new pods."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Add what the class says. Raises ApiError 403 when the pod says otherwise."""
        if obj is None or old is not None or request.resource != POD or request.subresource:
            return
        runtime_class = _class_of(self._store, obj)
        if at(runtime_class, "overhead") is not None:
            own = mapping(obj, "spec", "overhead")
            fixed = mapping(runtime_class, "overhead", "podFixed")
            if own and _amounts(own) != _amounts(fixed):
                raise _refused(obj, _OTHER)
            put(obj, copied(fixed), "spec", "overhead")
        _set_scheduling(obj, runtime_class)


class RuntimeOverheads:
    """Asked of new pods that are good in themselves: their overhead is that of their class."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse an overhead of the pod's own. Raises ApiError 403."""
        if obj is None or old is not None or request.resource != POD or request.subresource:
            return
        runtime_class, own = _class_of(self._store, obj), at(obj, "spec", "overhead")
        if at(runtime_class, "overhead") is None:
            if own is not None:
                why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                raise _refused(obj, why)
        elif _amounts(mapping(own)) != _amounts(mapping(runtime_class, "overhead", "podFixed")):
            raise _refused(obj, _OTHER)


def _class_of(store: ObjectStore, pod: JsonObject) -> JsonObject:
    """The class that a pod names; empty when it names none. Raises ApiError 403, 500."""
    name = at(pod, "spec", "runtimeClassName")
    if name is None:
        return {}
    if not name:
        raise StatusError(500, "", "resource name may not be empty")
    name = str(name)
    stored = store.get(RUNTIME_CLASS, ("", name))
    if stored is None:
        raise _refused(pod, f'pod rejected: RuntimeClass "{name}" not found')
    return stored.object


def _set_scheduling(pod: JsonObject, runtime_class: JsonObject) -> None:
    own = mapping(pod, "spec", "nodeSelector")
    selector = mapping(runtime_class, "scheduling", "nodeSelector")
    for key, value in sorted(selector.items()):
        if own.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}"
            )
            raise _refused(pod, why)
    if selector:
        put(pod, {**own, **selector}, "spec", "nodeSelector")
    tolerations: list[JsonValue] = list(mappings(pod, "spec", "tolerations"))
    added = [
        toleration
        for toleration in mappings(runtime_class, "scheduling", "tolerations")
        if toleration not in tolerations
    ]
    if added:
        put(pod, [*tolerations, *map(copied, added)], "spec", "tolerations")


def _amounts(written: JsonObject) -> dict[str, object]:
    amounts: dict[str, object] = {}
    for name, amount in written.items():
        try:
            amounts[name] = parse_quantity(str(amount))
        except ValueError:
            amounts[name] = str(amount)
    return amounts


def _refused(pod: JsonObject, why: str) -> StatusError:
    return forbidden(POD, shown_name(pod), why)
