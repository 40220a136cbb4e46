"""The devices of a pod that is placed: what its claims get on the node, and the writing down of it.

Source: kube-scheduler 1.35 plugin dynamicresources (Reserve, PreBind, Unreserve, PostFilter).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from tonnage.adapters.informer import Delta, Informers
from tonnage.adapters.ports import KubernetesApi, PatchType
from tonnage.decide.cluster import messages
from tonnage.decide.cluster.claims.waiting import claims_of
from tonnage.decide.cluster.scheduling import Decision
from tonnage.decide.cluster.view import View
from tonnage.model.cluster import Node, Pod
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.verdict import Code
from tonnage.twin.controllers.claim_reservations import PROTECTION, consumers_of
from tonnage.twin.controllers.writing import patch_as_seen
from tonnage.twin.device_grants import allocation_of
from tonnage.wire import kinds
from tonnage.wire import objects as w
from tonnage.wire.claims import ResourceClaim
from tonnage.wire.kinds import RESOURCE_CLAIM


@dataclass(frozen=True, slots=True)
class Grant:
    """A claim of a pod that is placed, and the devices that it gets; None: it has some already."""

    claim: ResourceClaim
    allocation: JsonObject | None


class ClaimBinder:
    """Gives claims their devices and reserves them. `changed` is told of every change of a claim.

    `offered` is told of classes and slices that come or change.
    """

    def __init__(
        self,
        api: KubernetesApi,
        informers: Informers,
        changed: Callable[[Delta[ResourceClaim]], None],
        offered: Callable[[], None],
    ) -> None:
        self._api = api
        self._claims = informers.of(kinds.RESOURCE_CLAIM)
        self._classes = informers.of(kinds.DEVICE_CLASS)
        self._slices = informers.of(kinds.RESOURCE_SLICE)
        self.copies = (self._claims, self._classes, self._slices)
        self._claims.subscribe(self._settle)
        self._claims.subscribe(changed)
        for copy in (self._classes, self._slices):
            copy.subscribe(lambda delta: offered() if delta.after is not None else None)
        self._given: dict[str, JsonObject] = {}
        """By the uid of a claim: what it was given and does not show yet."""

    def surroundings(self) -> Iterable[w.Object]:
        """What decisions about pods with claims stand on."""
        return (*map(self._as_decided, self._claims), *self._classes, *self._slices)

    def choose(self, pod: Pod, node: Node, view: View) -> tuple[Grant, ...]:
        """What the pod's claims get on a node that can meet them."""
        claims = claims_of(pod, view.supply.claims)
        picked = view.allocator.on(node, claims.waiting).devices or ()
        chosen = dict(zip((claim.key for claim in claims.waiting), picked, strict=True))
        classes = {one.metadata.name: one.spec for one in self._classes}
        grants: list[Grant] = []
        for known in claims.claims:
            claim = self._claims.get(known.name, known.namespace)
            if claim is None:
                continue
            allocation = None
            if known.key in chosen:
                slices = (one.spec for one in self._slices)
                allocation = allocation_of(claim.spec, chosen[known.key], classes, slices)
                self._given[claim.metadata.uid] = allocation
            grants.append(Grant(claim, allocation))
        return tuple(grants)

    async def bind(self, grants: tuple[Grant, ...], pod: Pod) -> None:
        """Write what was chosen, and that the pod uses it. Raises ClusterError."""
        for grant in grants:
            await self._reserve(grant, pod)

    async def release(self, grants: tuple[Grant, ...], pod: Pod) -> None:
        """The pod is not bound after all: nothing is reserved for it. What was written stays given."""
        heads = [grant.claim.metadata for grant in grants]
        for head in heads:
            self._given.pop(head.uid, None)
        for head in heads:
            gone: JsonObject = {"$patch": "delete", "uid": pod.uid}
            await self._api.patch(
                kinds.RESOURCE_CLAIM,
                head.name,
                {"metadata": {"uid": head.uid}, "status": {"reservedFor": [gone]}},
                namespace=head.namespace,
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )

    async def free(self, decision: Decision, pod: Pod) -> None:
        """Take a claim that nobody else uses its devices, where the decision says so. Raises ClusterError."""
        if messages.CLAIM_FREED not in decision.message:
            return
        refusals = (one for found in decision.refusals.values() for one in found)
        reasons = (reason for refusal in refusals for reason in refusal.reasons)
        names = sorted({str(one.facts["claim"]) for one in reasons if one.code is Code.CLAIM_ELSEWHERE})
        for namespace, _, name in (one.partition("/") for one in names):
            claim = self._claims.get(name, namespace)
            if claim is not None and all(one.get("uid") == pod.uid for one in consumers_of(claim)):
                nothing: JsonObject = {"allocation": None, "reservedFor": None, "devices": None}
                await patch_as_seen(self._api, RESOURCE_CLAIM, claim, {"status": nothing}, "status")
                return

    async def _reserve(self, grant: Grant, pod: Pod) -> None:
        head = grant.claim.metadata
        claim = await self._api.get(kinds.RESOURCE_CLAIM, head.name, head.namespace)
        users = consumers_of(claim)
        if any(one.get("uid") == pod.uid for one in users):
            return
        if claim.metadata.uid != head.uid or claim.metadata.deletion_timestamp is not None:
            raise ApiError(409, "Conflict", f"claim {head.name} got deleted in the meantime")
        user: JsonObject = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        change: JsonObject = {"reservedFor": [*users, user]}
        if grant.allocation is not None:
            if claim.status.get("allocation"):
                raise ApiError(409, "Conflict", f"claim {head.name} got allocated in the meantime")
            if PROTECTION not in claim.metadata.finalizers:
                finalizers = [*claim.metadata.finalizers, PROTECTION]
                claim = await patch_as_seen(
                    self._api, RESOURCE_CLAIM, claim, {"metadata": {"finalizers": [*finalizers]}}
                )
            change["allocation"] = grant.allocation
        await patch_as_seen(self._api, RESOURCE_CLAIM, claim, {"status": change}, "status")

    def _settle(self, delta: Delta[ResourceClaim]) -> None:
        """Forget what was given once the claim shows it, or is gone."""
        claim = delta.after or delta.before
        if claim is not None and (delta.after is None or claim.status.get("allocation")):
            self._given.pop(claim.metadata.uid, None)

    def _as_decided(self, claim: ResourceClaim) -> ResourceClaim:
        given = self._given.get(claim.metadata.uid)
        if given is None:
            return claim
        return msgspec.structs.replace(claim, status={**claim.status, "allocation": given})
