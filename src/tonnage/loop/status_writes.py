"""How controllers write what they know of objects, and what they want of them."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tonnage.loop.refusals import passing_over
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping, mappings, text
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.wire.kinds import POD, Kind
from tonnage.wire.objects import Object, Pod

T = TypeVar("T", bound=Object)


async def patch_as_seen(
    api: KubernetesApi, kind: Kind[T], obj: T, patch: JsonObject, subresource: str = ""
) -> T:
    """The object after a merge patch. Raises ApiError 409 where it is not as it was seen any more."""
    metadata: JsonObject = {**mapping(patch, "metadata"), "resourceVersion": obj.metadata.resource_version}
    name, namespace = obj.metadata.name, obj.metadata.namespace or None
    whole: JsonObject = {**patch, "metadata": metadata}
    return await api.patch(kind, name, whole, namespace=namespace, subresource=subresource)


async def merge_status(api: KubernetesApi, kind: Kind[T], obj: Object, status: JsonObject) -> None:
    """Merge fields into an object's status, unless it is gone."""
    name, namespace = obj.metadata.name, obj.metadata.namespace or None
    with passing_over(404):
        await api.patch(kind, name, {"status": status}, namespace=namespace, subresource="status")


async def replace_status(api: KubernetesApi, kind: Kind[T], obj: Object, status: JsonObject) -> T:
    """The object with another status. Raises ApiError 404, and 409 where it is not as it was read."""
    body: JsonObject = {
        "metadata": msgspec.to_builtins(obj.metadata),  # who leaves labels out gives them up
        "status": status,
    }
    return await api.replace(kind, body, namespace=obj.metadata.namespace or None, subresource="status")


async def tell_of_pod(api: KubernetesApi, pod: Pod, status: JsonObject) -> None:
    """Merge fields and conditions into a pod's status, unless the pod is gone or another has its name."""
    with passing_over(404, 409, 422):
        await api.patch(
            POD,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": {**status, **_order(pod, status)}},
            namespace=pod.metadata.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )


def _order(pod: Pod, status: JsonObject) -> JsonObject:
    """What keeps new conditions behind those that are there; a patch that says nothing puts them in front."""
    types = [condition.type for condition in pod.status.conditions]
    types += [
        name for condition in mappings(status, "conditions") if (name := text(condition, "type")) not in types
    ]
    return (
        {"$setElementOrder/conditions": [{"type": name} for name in types]} if "conditions" in status else {}
    )
