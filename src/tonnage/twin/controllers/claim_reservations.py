"""resourceclaim.Controller (reservedFor): which pods may use the devices of claims, and which no longer.

Source: pkg/controller/resourceclaim of k8s.io/kubernetes (syncClaim, reserveForPod, v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.loop.informer import Delta, Informers, Key, following, key_of
from tonnage.loop.ownership import controller_of
from tonnage.loop.refusals import or_none
from tonnage.loop.status_writes import patch_as_seen
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.well_known import DEVICE_PROTECTION
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.reading.claims import consumers_of
from tonnage.twin.controllers.pod_claims import claim_keys, index_by_claims, is_done, pods_with
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.kinds import POD, RESOURCE_CLAIM
from tonnage.wire.objects import Pod

_MOST_CONSUMERS: Final = 256


class ClaimReservationsController:
    """Takes ended pods from the claims that were reserved for them, and the devices with the last one.

    Claims with devices are reserved for pods that no scheduler has placed.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._pods = informers.of(POD)
        index_by_claims(self._pods)
        self._pods.subscribe(self._pod_changed)
        self._claims = informers.of(RESOURCE_CLAIM)
        self._claims.add_index(
            "pod", lambda claim: [str(consumer.get("uid")) for consumer in consumers_of(claim)]
        )
        self._claims.subscribe(self._claim_changed)

    async def run(self) -> None:
        """Free claims until cancelled."""
        async with following(self._pods, self._claims) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.after or delta.before
        if pod is not None and (delta.after is None or is_done(pod)):
            for claim in self._claims.by_index("pod", pod.metadata.uid):
                self._queue.add(key_of(claim))
        elif pod is not None and pod.spec.node_name:
            for key in claim_keys(pod):
                self._queue.add(key)

    def _claim_changed(self, delta: Delta[ResourceClaim]) -> None:
        claim = delta.after
        if claim is not None and (claim.status or DEVICE_PROTECTION in _finalizers(claim)):
            self._queue.add(key_of(claim))

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.get(key[1], key[0])
        if claim is None:
            return
        consumers = consumers_of(claim)
        reservations = [entry for entry in consumers if await self._needs(entry, key[0])]
        reservations += self._arrived(claim)[: _MOST_CONSUMERS - len(reservations)]
        ours = DEVICE_PROTECTION in _finalizers(claim)
        freed = ours and not reservations and bool(consumers or claim.metadata.deletion_timestamp)
        changes: JsonObject = {}
        if reservations != consumers:
            changes["reservedFor"] = [*reservations] or None
        if freed and "allocation" in claim.status:
            changes["allocation"] = None
        if changes:
            claim = await patch_as_seen(self._api, RESOURCE_CLAIM, claim, {"status": changes}, "status")
        if freed:
            finalizers = [entry for entry in _finalizers(claim) if entry != DEVICE_PROTECTION]
            await patch_as_seen(self._api, RESOURCE_CLAIM, claim, {"metadata": {"finalizers": [*finalizers]}})

    def _arrived(self, claim: ResourceClaim) -> list[JsonObject]:
        """Pods on nodes that name a claim with devices and have not reserved it."""
        if "allocation" not in claim.status or claim.metadata.deletion_timestamp is not None:
            return []
        reserved = {consumer.get("uid") for consumer in consumers_of(claim)}
        return [
            {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
            for pod in pods_with(self._pods, claim)
            if pod.spec.node_name
            and pod.metadata.deletion_timestamp is None
            and not is_done(pod)
            and pod.metadata.uid not in reserved
            and _is_for(pod, claim)
        ]

    async def _needs(self, consumer: JsonObject, namespace: str) -> bool:
        """Whether something that a claim is reserved for may still use it."""
        if consumer.get("apiGroup") or consumer.get("resource") != "pods":
            return True
        name = str(consumer.get("name"))
        pod = self._pods.get(name, namespace)
        if pod is None:
            # It may be so new that nobody has heard of it here.
            pod = await or_none(self._api.get(POD, name, namespace))
        return pod is not None and pod.metadata.uid == consumer.get("uid") and not is_done(pod)


def _finalizers(claim: ResourceClaim) -> list[str]:
    return list(claim.metadata.finalizers)


def _is_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the pod names the claim itself, or it was made for the pod."""
    named = any(entry.get("resourceClaimName") == claim.metadata.name for entry in pod.spec.resource_claims)
    owner = controller_of(claim)
    return named or (owner is not None and owner.uid == pod.metadata.uid)
