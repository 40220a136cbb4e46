"""The quota controller: keeps in a ResourceQuota's status what the pods of its namespace use.

Source: k8s.io/kubernetes/pkg/controller/resourcequota (v1.35); of its evaluators only the one of pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from fractions import Fraction

from tonnage.adapters.informer import Delta, Informer, Key, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.reading import snapshot_from
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.decide.cluster.admission.charges import charged_to_pods, pod_charges
from tonnage.decide.cluster.admission.scopes import counts
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.quantity import write_quantity
from tonnage.wire.kinds import POD, RESOURCE_QUOTA
from tonnage.wire.objects import Pod, ResourceQuota


class ResourceQuotaController:
    """Counts anew whenever a pod or a quota changes."""

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._quotas = Informer(api, RESOURCE_QUOTA, clock, on_change=self._queue.add)
        self._quotas.add_index("namespace", lambda quota: [quota.metadata.namespace])
        self._pods = Informer(api, POD, clock)
        self._pods.add_index("namespace", lambda pod: [pod.metadata.namespace])
        self._pods.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Count until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._quotas.run())
            group.create_task(self._pods.run())
            await self._quotas.synced()
            await self._pods.synced()
            group.create_task(work(self._queue, self._reconcile))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.after or delta.before
        if pod is not None:
            for quota in self._quotas.by_index("namespace", pod.metadata.namespace):
                self._queue.add(key_of(quota))

    async def _reconcile(self, key: Key) -> None:
        namespace, name = key
        quota = self._quotas.get(name, namespace)
        if quota is None:
            return
        status = counted(quota, self._pods.by_index("namespace", namespace))
        if status == {"hard": {}, "used": {}, **quota.status}:
            return
        # A merge patch keeps what it does not name, so what is gone is named.
        rows = {part: dict.fromkeys(quota.status.get(part, {})) | status[part] for part in status}
        patch: JsonObject = {"status": {part: {**row} for part, row in rows.items()}}
        try:
            await self._api.patch(RESOURCE_QUOTA, name, patch, namespace=namespace, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise


def counted(quota: ResourceQuota, pods: Iterable[Pod]) -> dict[str, dict[str, str]]:
    """The status of a quota: its limits, and what these pods use of those that count pods."""
    hard = {key: str(amount) for key, amount in quota.spec.get("hard", {}).items()}
    found = snapshot_from([quota, *pods])
    [limits] = found.quotas
    charges = [pod_charges(pod) for pod in found.pods if counts(limits, pod)]
    used = {
        key: write_quantity(
            sum((charge.get(key, Fraction(0)) for charge in charges), Fraction(0)),
            "binary" if amount.endswith("i") else "decimal",
        )
        for key, amount in hard.items()
        if charged_to_pods(key)
    }
    return {"hard": hard, "used": used}
