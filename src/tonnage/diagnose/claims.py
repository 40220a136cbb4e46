"""Resource claims, one row each: which devices a claim has, who uses it, or what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tonnage.diagnose.claim_waits import NOTHING, ClaimWait, wait_of
from tonnage.diagnose.cluster_view import Ground, ground_of
from tonnage.diagnose.explain.explain import explain, explain_waiting_pod
from tonnage.diagnose.fleet.claim_pools import pods_by_claim
from tonnage.diagnose.missing_kinds import has_read
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.quantity import write_device_quantity
from tonnage.model.kubernetes.resource_claims import AllocatedDevice, ResourceClaim
from tonnage.model.verdict import Explanation

_MOST_EXPLAINED: Final = 200
"""Pods whose waiting is explained: each takes a scheduling cycle."""


class ClaimState(StrEnum):
    """WAITING: without devices. ALLOCATED: it has some. HELD: and its node has prepared them.

    UNUSED: allocated, and reserved for nobody; its devices are nobody else's all the same.
    """

    WAITING = "waiting"
    ALLOCATED = "allocated"
    HELD = "held"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One claim. `devices` are `driver/pool/device`, `pods` those that name it; `wait` says what is amiss.

    `parts`: by device, what the claim takes of each capacity, where others may have parts of it, too.
    """

    namespace: str
    name: str
    state: ClaimState
    classes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    node: str = ""
    pods: tuple[str, ...] = ()
    wait: ClaimWait = NOTHING
    parts: tuple[Mapping[str, str], ...] = ()

    @property
    def in_order(self) -> bool:
        """Whether nothing is amiss."""
        return not self.wait.why

    def to_json(self) -> JsonObject:
        """Every key always present."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "state": self.state.value,
            "classes": [*self.classes],
            "devices": [*self.devices],
            "consumed": [dict(part) for part in self.parts],
            "node": self.node or None,
            "pods": [*self.pods],
            "why": self.wait.why or None,
            "remedy": self.wait.remedy or None,
            "details": [*self.wait.details],
        }


def claim_rows(snapshot: Snapshot, namespace: str | None = None) -> tuple[ClaimRow, ...]:
    """The claims, or those of a namespace, by namespace and name.

    Raises ValueError when the snapshot's version is no Kubernetes version.
    """
    claims = sorted(snapshot.claims, key=lambda claim: claim.key)
    chosen = [claim for claim in claims if namespace in (None, claim.namespace)]
    return tuple(_Claims(snapshot).rows(chosen))


class _Claims:
    """The claims of a snapshot with their pods; the cluster is made ready with the first pod that waits."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._pods = pods_by_claim(snapshot.pods, snapshot.claims)
        self._held = frozenset(
            holder.resource
            for report in snapshot.gpu.values()
            for device in report.devices
            for holder in device.holders
        )
        self._ground: Ground | None = None
        self._explained = 0

    def rows(self, claims: list[ResourceClaim]) -> Iterator[ClaimRow]:
        for claim in claims:
            pods = self._pods.get(claim.key, ())
            parts = [part for request in claim.requests for part in (request.alternatives or (request,))]
            devices = claim.allocation.devices if claim.allocation is not None else ()
            state = self._state(claim, pods)
            bound = next((pod.node_name for pod in pods if pod.node_name), "")
            yield ClaimRow(
                *(claim.namespace, claim.name, state),
                classes=tuple(dict.fromkeys(part.device_class for part in parts)),
                devices=tuple(str(device.id) for device in devices),
                node=bound or _node_of(claim),
                pods=tuple(pod.name for pod in pods),
                wait=self._wait(claim, state, pods),
                parts=tuple(_amounts(device) for device in devices),
            )

    def _state(self, claim: ResourceClaim, pods: tuple[Pod, ...]) -> ClaimState:
        """Kubelet starts no container before all claims of its pod are prepared. An agent reports who holds
        a device of its own: no claim with admin access, and none of another driver.
        """
        if claim.allocation is None:
            return ClaimState.WAITING
        if str(claim) in self._held or any(pod.status.phase == "Running" for pod in pods):
            return ClaimState.HELD
        return ClaimState.ALLOCATED if claim.reserved_for else ClaimState.UNUSED

    def _wait(self, claim: ResourceClaim, state: ClaimState, pods: tuple[Pod, ...]) -> ClaimWait:
        """What keeps the claim from its devices, or its pods from theirs; empty: nothing."""
        waiting = [pod for pod in pods if pod.status.phase == "Pending"]
        if state is ClaimState.UNUSED:
            return ClaimWait("no pod uses it, and its devices stay allocated until it is deleted")
        if not waiting:
            waits = state is ClaimState.WAITING
            if waits and not pods and not has_read("Pod", self._snapshot, claim.namespace):
                return ClaimWait("Pod objects were not read: Tonnage cannot tell who uses it")
            return ClaimWait("no pod uses it: devices are allocated with the first" if waits else "")
        if self._explained >= _MOST_EXPLAINED:
            why = f"not explained: {_MOST_EXPLAINED} other waiting claims were"
            return ClaimWait(why, "tonnage explain --all-pending")
        self._explained += 1
        pod, explanation = waiting[0], self._explained_pod(waiting[0])
        if pod.node_name and state is ClaimState.ALLOCATED and not explanation.reasons:
            why = f"{pod.node_name} has not prepared it yet for pod {pod.name}"
            return ClaimWait(why, f"tonnage explain pod {pod.name} -n {pod.namespace}")
        if pod.node_name and state is ClaimState.HELD and not explanation.reasons:
            return NOTHING  # what else the pod waits for is not the claim's
        return wait_of(claim, explanation)

    def _explained_pod(self, pod: Pod) -> Explanation:
        if pod.node_name:
            return explain(pod, self._snapshot)
        if self._ground is None:
            self._ground = ground_of(self._snapshot)
        return explain_waiting_pod(self._ground, pod, with_remedies=False)


def _amounts(device: AllocatedDevice) -> dict[str, str]:
    """What a share is of, by capacity; nothing of a device that is a claim's alone."""
    consumed = device.consumed.items() if device.share else ()
    return {name: write_device_quantity(amount) for name, amount in consumed if amount}


def _node_of(claim: ResourceClaim) -> str:
    """The node whose pool all its devices are of, where one is named after its pool."""
    pools = {device.id.pool for device in claim.allocation.devices} if claim.allocation is not None else set()
    return next(iter(pools)) if len(pools) == 1 else ""
