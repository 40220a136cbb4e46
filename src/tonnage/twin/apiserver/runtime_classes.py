"""RuntimeClass: a pod's class adds its overhead, node labels and tolerations, and must be there.

Source: plugin/pkg/admission/runtimeclass of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.quantity import parse_quantity
from tonnage.twin.apiserver.access import at, copied, mapping, mappings, put, text
from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.statuses import StatusError, forbidden, shown_name
from tonnage.twin.apiserver.store import Resource, Store
from tonnage.twin.apiserver.strategies import POD

RUNTIME_CLASS: Final[Resource] = ("node.k8s.io", "runtimeclasses")


class RuntimeClasses:
    """An admission plugin that completes new pods."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, request: Request, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Add what the class says. Raises ApiError 403 when the pod says otherwise."""
        if request.resource != POD or request.subresource or obj is None or old is not None:
            return
        found: JsonObject = {}
        name = text(obj, "spec", "runtimeClassName")
        if name:
            stored = self._store.get(RUNTIME_CLASS, ("", name))
            if stored is None:
                raise _refused(obj, f'pod rejected: RuntimeClass "{name}" not found')
            found = stored.object
        _set_overhead(obj, found)
        _set_scheduling(obj, found)


def _set_overhead(pod: JsonObject, found: JsonObject) -> None:
    fixed, own = mapping(found, "overhead", "podFixed"), at(pod, "spec", "overhead")
    if at(found, "overhead") is None:
        if own is not None:
            why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            raise _refused(pod, why)
        return
    if own and _amounts(mapping(pod, "spec", "overhead")) != _amounts(fixed):
        why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise _refused(pod, why)
    put(pod, copied(fixed), "spec", "overhead")


def _set_scheduling(pod: JsonObject, found: JsonObject) -> None:
    own = mapping(pod, "spec", "nodeSelector")
    wanted = mapping(found, "scheduling", "nodeSelector")
    for key, value in sorted(wanted.items()):
        if own.get(key, value) != value:
            why = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {own[key]}"
            )
            raise _refused(pod, why)
    if wanted:
        put(pod, {**own, **wanted}, "spec", "nodeSelector")
    tolerations: list[JsonValue] = list(mappings(pod, "spec", "tolerations"))
    added = [one for one in mappings(found, "scheduling", "tolerations") if one not in tolerations]
    if added:
        put(pod, [*tolerations, *map(copied, added)], "spec", "tolerations")


def _amounts(written: JsonObject) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, amount in written.items():
        try:
            found[name] = parse_quantity(str(amount))
        except ValueError:
            found[name] = str(amount)
    return found


def _refused(pod: JsonObject, why: str) -> StatusError:
    return forbidden(POD, shown_name(pod), why)
