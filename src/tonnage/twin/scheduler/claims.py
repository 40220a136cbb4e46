"""DynamicResources (Reserve, PreBind): what a placed pod's claims get, and the writing down of it.

Source: kube-scheduler 1.35 plugin dynamicresources (Reserve, PreBind, Unreserve, PostFilter).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import msgspec

from tonnage.decide.kubernetes.claims.allocator import Allocator, Picked
from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes, claim_on
from tonnage.decide.kubernetes.claims.pod_claims import claims_of
from tonnage.decide.kubernetes.claims.supply import Gates, Supply, supply_of
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.loop.informer import Delta, Informers
from tonnage.loop.status_writes import patch_as_seen
from tonnage.model.errors import ApiError, ClusterError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping
from tonnage.model.kubernetes import resource_claims as model
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.well_known import DEVICE_PROTECTION
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.reading.claims import claim_from, consumers_of
from tonnage.reading.cluster import snapshot_from
from tonnage.twin.scheduler.device_grants import allocation_of
from tonnage.twin.scheduler.extended_claims import body_of, is_made_for, pod_status
from tonnage.twin.scheduler.failures import failing
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.claims import DeviceClass, ResourceClaim, ResourceSlice
from tonnage.wire.kinds import POD, RESOURCE_CLAIM

_TRIES: Final = 5
"""How often a claim is written that others write meanwhile."""
_UNMADE: Final = "<extended-resources>"
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClaimGrant:
    """A claim of a pod that is placed, and the devices that it gets; None: it has some already.

    `body` is the object that has to be made first, of a claim for extended resources.
    """

    claim: model.ResourceClaim
    allocation: JsonObject | None
    body: JsonObject | None = None


class ClaimBinder:
    """Gives claims their devices and reserves them. `changed` is told of every change of a claim.

    `offered` is told of classes and slices that come or change, and of devices that are not taken after all.
    """

    def __init__(
        self,
        api: KubernetesApi,
        informers: Informers,
        gates: Gates,
        changed: Callable[[Delta[ResourceClaim]], None],
        offered: Callable[[], None],
    ) -> None:
        self._api = api
        self._gates = gates
        self._offered = offered
        self._claims = informers.of(kinds.RESOURCE_CLAIM)
        self._classes = informers.of(kinds.DEVICE_CLASS)
        self._slices = informers.of(kinds.RESOURCE_SLICE)
        self.copies = (self._claims, self._classes, self._slices)
        self._in_flight: dict[str, JsonObject] = {}
        """By the uid of a claim: the allocation that was chosen for it and is not written yet."""
        self._written: dict[str, ResourceClaim] = {}
        """By uid: claims as they were written here, newer than their copies."""
        self._read: dict[str, model.ResourceClaim] = {}
        """By uid: what decisions stand on."""
        self._offer: Supply | None = None
        self._allocator: Allocator | None = None
        self._claims.subscribe(self._settle)
        self._claims.subscribe(changed)
        self._classes.subscribe(self._offer_changed)
        self._slices.subscribe(self._offer_changed)

    def allocator(self) -> Allocator:
        """What there is for claims now; the same one until a claim, class or slice changes."""
        if self._allocator is None:
            self._allocator = Allocator(self._offered_now().with_claims(self._read.values()))
        return self._allocator

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod has claims, or asks for extended resources that classes stand for."""
        if pod.claims or not self._gates.extended:
            return bool(pod.claims)
        return bool(backed_by_classes(pod, self._offered_now()))

    def choose(self, pod: Pod, node: Node, view: ClusterView) -> tuple[ClaimGrant, ...]:
        """What the pod's claims get on a node that can meet them."""
        claims = claims_of(pod, view.supply.claims)
        own = claim_on(pod, node, view.supply)
        waiting = (*claims.waiting, own) if own is not None else claims.waiting
        picked = view.allocator.devices_on(node, waiting)
        chosen = dict(zip((claim.key for claim in waiting), picked, strict=True))
        grants: list[ClaimGrant] = []
        for pod_claim in claims.claims:
            claim, allocation = self._latest(pod_claim), None
            if claim is not None and pod_claim.key in chosen:
                allocation = self._take(claim, chosen[pod_claim.key])
            grants.append(ClaimGrant(pod_claim, allocation))
        if own is not None:
            body = body_of(pod, own)
            head = w.ObjectMeta(name=f"<{pod.uid}>", namespace=pod.namespace, uid=str(uuid4()))
            unmade = ResourceClaim(metadata=head, spec=mapping(body, "spec"))
            allocation = self._take(unmade, chosen[own.key])
            grants.append(ClaimGrant(self._read[head.uid], allocation, body))
        return tuple(grants)

    def _take(self, claim: ResourceClaim, picked: Sequence[Picked]) -> JsonObject:
        """The allocation of devices that are the claim's from now on."""
        classes = {obj.metadata.name: obj.spec for obj in self._classes}
        allocation = allocation_of(claim.spec, picked, classes, (obj.spec for obj in self._slices))
        self._in_flight[claim.metadata.uid] = allocation
        self._reread(claim)
        return allocation

    async def bind(self, grants: tuple[ClaimGrant, ...], pod: Pod) -> None:
        """Write what was chosen, and that the pod uses it. Raises ClusterError."""
        for grant in grants:
            if grant.body is None:
                await self._reserve(grant, pod)
            else:
                await self._bind_made(await self._make(grant, grant.body, pod), pod)

    async def release(self, grants: tuple[ClaimGrant, ...], pod: Pod) -> None:
        """The pod is not bound after all: nothing is reserved for it. What was written stays given.

        A claim that was made for what it asks by count goes.
        """
        every = {claim.metadata.uid: claim for claim in (*self._claims, *self._written.values())}
        made = [claim for claim in every.values() if is_made_for(pod, claim)]
        grants += tuple(ClaimGrant(claim_from(claim), {}) for claim in made)
        ended = [grant for grant in grants if self._end(grant)]
        if ended:
            self._offered()
        for grant in grants:
            claim = self._latest(grant.claim)
            if claim is None or not _uses(pod, claim):
                continue
            gone: JsonObject = {"$patch": "delete", "uid": pod.uid}
            try:
                written = await self._api.patch(
                    RESOURCE_CLAIM,
                    claim.metadata.name,
                    {"metadata": {"uid": claim.metadata.uid}, "status": {"reservedFor": [gone]}},
                    namespace=claim.metadata.namespace,
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )
            except ClusterError as error:
                _LOG.warning("claim still reserved: pod=%s/%s error=%s", *pod.key, error)
            else:
                self._note(written)
        for claim in made:
            head = claim.metadata
            with suppress(ClusterError):
                await self._api.delete(RESOURCE_CLAIM, head.name, namespace=head.namespace, uid=head.uid)

    async def free(self, pod_claim: model.ResourceClaim) -> None:
        """Take the claim its devices. Raises ClusterError."""
        claim = self._latest(pod_claim)
        if claim is not None:
            nothing: JsonObject = {"allocation": None, "reservedFor": None, "devices": None}
            self._note(await patch_as_seen(self._api, RESOURCE_CLAIM, claim, {"status": nothing}, "status"))

    async def _make(self, grant: ClaimGrant, body: JsonObject, pod: Pod) -> ClaimGrant:
        """Make the claim for extended resources; what was chosen is in flight for it. Raises ClusterError."""
        try:
            made = await self._api.create(RESOURCE_CLAIM, body, namespace=pod.namespace)
        except ApiError as error:
            action = f"create claim for extended resources {pod.namespace}/{_UNMADE}"
            raise failing(action, error) from None
        assert grant.allocation is not None
        self._in_flight[made.metadata.uid] = grant.allocation
        if self._claims.get(made.metadata.name, pod.namespace) is None:
            self._written[made.metadata.uid] = made
        self._reread(made)
        self._end(grant)
        return ClaimGrant(claim_from(made), grant.allocation)

    async def _bind_made(self, grant: ClaimGrant, pod: Pod) -> None:
        """Write what a claim for extended resources gets, and tell the pod. Raises ClusterError."""
        await self._reserve(grant, pod)
        change: JsonObject = {"metadata": {"uid": pod.uid}, "status": pod_status(pod, grant.claim)}
        try:
            await self._api.patch(POD, pod.name, change, namespace=pod.namespace, subresource="status")
        except ApiError as error:
            raise failing(f"update pod {pod.namespace}/{pod.name} status", error) from None

    async def _reserve(self, grant: ClaimGrant, pod: Pod) -> None:
        """Write one claim, as it is by then when others write it, too."""
        claim = self._latest(grant.claim)
        for left in reversed(range(_TRIES)):
            if claim is not None and _uses(pod, claim):
                break
            try:
                self._note(await self._write(_open(claim, grant), grant, pod))
                break
            except ApiError as error:
                if error.code != 409 or not left:
                    action = "allocation and reservation" if grant.allocation is not None else "reservation"
                    raise failing(f"add {action} to claim {grant.claim}", error) from None
            try:
                claim = await self._api.get(RESOURCE_CLAIM, grant.claim.name, grant.claim.namespace)
            except ApiError as error:
                raise failing(f"get updated claim {grant.claim} after conflict", error) from None
        self._end(grant)

    async def _write(self, claim: ResourceClaim, grant: ClaimGrant, pod: Pod) -> ResourceClaim:
        user: JsonObject = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        change: JsonObject = {"reservedFor": [*consumers_of(claim), user]}
        if grant.allocation is not None:
            if DEVICE_PROTECTION not in claim.metadata.finalizers:
                finalizers = [*claim.metadata.finalizers, DEVICE_PROTECTION]
                claim = await patch_as_seen(
                    self._api, RESOURCE_CLAIM, claim, {"metadata": {"finalizers": [*finalizers]}}
                )
            change["allocation"] = grant.allocation
        return await patch_as_seen(self._api, RESOURCE_CLAIM, claim, {"status": change}, "status")

    # What is known of claims

    def _latest(self, pod_claim: model.ResourceClaim) -> ResourceClaim | None:
        """The claim as it was last seen or written here; None: it is gone."""
        copy = self._claims.get(pod_claim.name, pod_claim.namespace)
        claim = self._written.get(pod_claim.uid, copy)
        return claim if claim is not None and claim.metadata.uid == pod_claim.uid else None

    def _end(self, grant: ClaimGrant) -> bool:
        """Let what was chosen be in flight no more; False where it was not."""
        if grant.allocation is None or self._in_flight.pop(grant.claim.uid, None) is None:
            return False
        claim = self._latest(grant.claim)
        if claim is None:
            self._read.pop(grant.claim.uid, None)
        self._reread(claim)
        return True

    def _note(self, written: ResourceClaim) -> None:
        """Go by what was written until the copy shows it, or something newer."""
        head = written.metadata
        copy = self._claims.get(head.name, head.namespace)
        behind = copy is not None and copy.metadata.uid == head.uid and _version(copy) < _version(written)
        if behind or head.uid in self._written:
            self._written[head.uid] = written
            self._reread(written)

    def _settle(self, delta: Delta[ResourceClaim]) -> None:
        claim = delta.after or delta.before
        if claim is None:
            return
        uid = claim.metadata.uid
        written = self._written.get(uid)
        if written is not None and (delta.after is None or _version(written) <= _version(claim)):
            del self._written[uid]
        if delta.after is None:
            self._read.pop(uid, None)
            self._allocator = None
        else:
            self._reread(self._written.get(uid, claim))

    def _reread(self, claim: ResourceClaim | None) -> None:
        """Have decisions stand on the claim as it is now. Devices that are chosen for it are taken."""
        self._allocator = None
        if claim is None:
            return
        uid = claim.metadata.uid
        chosen = None if claim.status.get("allocation") else self._in_flight.get(uid)
        if chosen is not None:
            status = {**claim.status, "allocation": chosen}
            claim = msgspec.structs.replace(claim, status=status)
        [read] = snapshot_from([claim]).claims
        self._read[uid] = replace(read, in_flight=chosen is not None)

    def _offered_now(self) -> Supply:
        if self._offer is None:
            snapshot = snapshot_from([*self._classes, *self._slices])
            self._offer = supply_of(snapshot.slices, snapshot.device_classes, (), self._gates)
        return self._offer

    def _offer_changed(self, delta: Delta[ResourceSlice] | Delta[DeviceClass]) -> None:
        self._offer = self._allocator = None
        if delta.after is not None:
            self._offered()


def _uses(pod: Pod, claim: ResourceClaim) -> bool:
    return any(consumer.get("uid") == pod.uid for consumer in consumers_of(claim))


def _open(claim: ResourceClaim | None, grant: ClaimGrant) -> ResourceClaim:
    """The claim if it is still the one that the grant is for. Raises ClusterError."""
    if claim is None or claim.metadata.uid != grant.claim.uid or claim.metadata.deletion_timestamp:
        raise ClusterError(Problem(f"claim {grant.claim} got deleted in the meantime"))
    if grant.allocation is not None and claim.status.get("allocation"):
        raise ClusterError(Problem(f"claim {grant.claim} got allocated elsewhere in the meantime"))
    return claim


def _version(claim: ResourceClaim) -> int:
    return int(claim.metadata.resource_version)
