"""ResourceQuota: a new pod for which a quota of its namespace has no room is refused.

Only what pods are charged is counted: their number, cpu, memory, storage, devices; no objects of other kinds.

Source: plugin/pkg/admission/resourcequota of k8s.io/apiserver (v1.35).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec

from tonnage.adapters.reading import snapshot_from
from tonnage.decide.cluster.admission.quota import pod_refusals
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import text
from tonnage.twin.apiserver.requests import Request
from tonnage.twin.apiserver.statuses import forbidden
from tonnage.twin.apiserver.store import Resource, Store
from tonnage.twin.apiserver.strategies import POD
from tonnage.wire.objects import Pod, ResourceQuota

RESOURCE_QUOTA: Final[Resource] = ("", "resourcequotas")


class ResourceQuotas:
    """Counts what is there: the status of a quota is a little behind, as the controller that writes it is."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, request: Request, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse a new pod, dry runs too."""
        if request.resource != POD or request.subresource or obj is None or old is not None:
            return
        quotas = self._store.list(RESOURCE_QUOTA, namespace=request.namespace)
        if not quotas:
            return
        new = msgspec.convert(obj, Pod)
        pods = [
            msgspec.convert(one.object, Pod) for one in self._store.list(POD, namespace=request.namespace)
        ]
        found = snapshot_from([*(msgspec.convert(one.object, ResourceQuota) for one in quotas), *pods])
        limits = tuple(replace(quota, used={}, counted=False) for quota in found.quotas)
        [asked] = snapshot_from([new]).pods
        for refusal in pod_refusals(asked, replace(found, quotas=limits)):
            raise forbidden(POD, text(obj, "metadata", "name"), refusal.text)
