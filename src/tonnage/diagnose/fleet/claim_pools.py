"""What nodes offer to ResourceClaims (DRA), a row for each node, driver and type of device.

Slices say what is offered, claims who has it. Where slices were not read, the report of the node's agent
says what it offers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.decide.kubernetes.claims.counters import Left, suffices, take
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import (
    ClaimDeviceId,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)
from tonnage.model.node.gpu_status import ClaimReport

_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
_WHOLE: Final = frozenset({"", "gpu"})
"""Types of devices that go by the name of their driver alone."""


@dataclass(frozen=True, slots=True)
class ClaimPool:
    """Devices of one type that a driver offers on a node. `names` has their names by uuid, as far as known.

    `tainted` says with what, by the device's name. `holders` are pods by the number of devices that their
    claims have, or a claim where no pod uses it. `published` False: only the node's agent speaks of them.
    """

    node: str
    driver: str
    type: str = ""
    devices: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    tainted: Mapping[str, str] = field(default_factory=dict)
    allocated: int | None = None
    holders: tuple[tuple[str, int], ...] | None = None
    published: bool = True
    parents: frozenset[str] = frozenset()
    """Uuids of the GPUs whose MIG devices these are; those that are yet to be made have no uuid."""
    shared: bool = False
    """Whether claims may have parts of one device: then one that is allocated may have room."""
    overlapping: bool = False
    """Whether devices share counters: not all that are free can be had at once."""
    held_tainted: int = 0
    """Allocated devices that a taint keeps from other claims."""
    crowded_out: int = 0
    """Devices that nobody has and nobody can get: others have what they would share."""

    @property
    def resource(self) -> str:
        """The name of its row: the driver, and the type of devices if they are no whole GPUs.

        >>> ClaimPool("a", "gpu.nvidia.com", "gpu").resource, ClaimPool("a", "gpu.nvidia.com", "mig").resource
        ('gpu.nvidia.com', 'gpu.nvidia.com mig')
        """
        return self.driver if self.type in _WHOLE else f"{self.driver} {self.type}"

    @property
    def limit(self) -> str:
        """What the number of free devices does not say; empty: nothing.

        >>> ClaimPool("a", "gpu.nvidia.com", "mig", overlapping=True).limit
        'not all at once'
        """
        if self.overlapping:
            return "not all at once"
        return "allocated ones may have parts free" if self.shared and self.allocated else ""

    @property
    def free(self) -> int | None:
        """Devices that a claim could be given; None: not known."""
        return None if self.allocated is None else max(0, self.usable - self.allocated + self.held_tainted)

    @property
    def usable(self) -> int:
        """Devices that claims have or could be given: no taint keeps claims off them."""
        return len(self.devices) - len(self.tainted) - self.crowded_out if self.published else 0

    @property
    def count(self) -> int:
        """Devices that are published, and those that the agent offers and does not publish yet."""
        return len({*self.devices, *self.names.values()})


def claim_pools(snapshot: Snapshot) -> dict[str, tuple[ClaimPool, ...]]:
    """The pools of nodes by the node's name. Slices that several nodes reach belong to none of them."""
    unread = {"ResourceClaim", "Pod"} & snapshot.missing or _lacks_claims(snapshot)
    allocated = None if unread else _allocated(snapshot)
    by_node: defaultdict[str, list[ClaimPool]] = defaultdict(list)
    groups: defaultdict[tuple[str, str, str], list[tuple[ClaimDeviceId, SliceDevice]]] = defaultdict(list)
    for resource_slice in _newest(snapshot.slices):
        node = resource_slice.scope.name if resource_slice.scope is not None else ""
        for device in resource_slice.devices if node else ():
            key = (node, resource_slice.driver, _type_of(device, resource_slice.driver))
            groups[key].append((resource_slice.id_of(device), device))
    taken_by = allocated or {}
    left = _counters_left(snapshot.slices, taken_by)
    for (node, driver, kind), devices in sorted(groups.items()):
        pool = _pool(node, driver, kind, devices, allocated)
        waiting = [e for e in devices if e[0] not in taken_by and e[1].name not in pool.tainted]
        crowded = sum(_crowded_out(left, *entry) for entry in waiting)
        by_node[node].append(replace(pool, crowded_out=crowded))
    for node, report in sorted(snapshot.gpu.items()):
        if report.claims is not None:
            _add_reported(by_node[node], node, report.claims)
    return {node: tuple(pools) for node, pools in by_node.items() if pools}


def _counters_left(
    slices: Iterable[ResourceSlice], allocated: Container[ClaimDeviceId]
) -> dict[tuple[str, str], Left]:
    """What allocated devices leave of the counters of each pool, by driver and pool."""
    left: dict[tuple[str, str], Left] = {}
    newest = tuple(_newest(slices))
    for part in newest:
        for name, counters in part.counters.items():
            pool = left.setdefault((part.driver, part.pool), {})
            pool.update({(name, counter): amount for counter, amount in counters.items()})
    for part in newest if left else ():
        for device in part.devices:
            if part.id_of(device) in allocated:
                take(left.get((part.driver, part.pool), {}), device)
    return left


def _crowded_out(left: Mapping[tuple[str, str], Left], identity: ClaimDeviceId, device: SliceDevice) -> bool:
    """Whether others have what the device would take of its pool's counters."""
    if not device.consumes:
        return False
    rest = dict(left.get((identity.driver, identity.pool), {}))
    take(rest, device)
    return not suffices(rest)


def pods_by_claim(
    pods: Iterable[Pod], claims: Iterable[ResourceClaim]
) -> Mapping[tuple[str, str], tuple[Pod, ...]]:
    """The pods that are not over by each claim that they name, or that is reserved for them.

    A pod names no claim that the scheduler made for its extended resources.
    """
    by_claim: defaultdict[tuple[str, str], dict[str, Pod]] = defaultdict(dict)
    alive = sorted((pod for pod in pods if not pod.finished), key=lambda pod: pod.name)
    by_uid = {pod.uid: pod for pod in alive if pod.uid}
    for pod in alive:
        for entry in pod.claims:
            if name := entry.claim or entry.made:
                by_claim[pod.namespace, name][pod.name] = pod
    for claim in claims:
        for consumer in claim.reserved_for:
            if (reserving := by_uid.get(consumer.uid)) is not None:
                by_claim[claim.key].setdefault(reserving.name, reserving)
    return {key: tuple(users.values()) for key, users in by_claim.items()}


def _lacks_claims(snapshot: Snapshot) -> bool:
    """Whether a list of objects has pods with claims, and no claim."""
    listed = not snapshot.complete and not snapshot.claims
    return listed and any(pod.claims for pod in snapshot.pods)


def _newest(slices: Iterable[ResourceSlice]) -> Iterator[ResourceSlice]:
    """Slices of the newest generation of each pool, as the scheduler takes them."""
    every = sorted(slices, key=lambda resource_slice: resource_slice.name)
    generations: dict[tuple[str, str], int] = {}
    for part in every:
        key = (part.driver, part.pool)
        generations[key] = max(part.generation, generations.get(key, part.generation))
    return (part for part in every if part.generation == generations[part.driver, part.pool])


def _pool(
    node: str,
    driver: str,
    kind: str,
    devices: list[tuple[ClaimDeviceId, SliceDevice]],
    allocated: Mapping[ClaimDeviceId, tuple[str, ...]] | None,
) -> ClaimPool:
    uuids = {str(uuid): d.name for _, d in devices if (uuid := _attribute(d, driver, "uuid"))}
    parents = frozenset(str(uuid) for _, d in devices if (uuid := _attribute(d, driver, "parentUUID")))
    tainted = {
        device.name: ", ".join(map(str, blocking))
        for _, device in devices
        if (blocking := [taint for taint in device.taints if taint.effect in _BLOCKING])
    }
    amounts: Counter[str] = Counter()
    if allocated is not None:
        amounts.update(holder for identity, _ in devices for holder in allocated.get(identity, ()))
    return ClaimPool(
        *(node, driver, kind),
        devices=tuple(device.name for _, device in devices),
        names=uuids,
        tainted=tainted,
        allocated=None if allocated is None else sum(identity in allocated for identity, _ in devices),
        holders=None if allocated is None else tuple(sorted(amounts.items())),
        held_tainted=sum(
            identity.device in tainted and identity in (allocated or ()) for identity, _ in devices
        ),
        parents=parents,
        shared=any(device.shareable for _, device in devices),
        overlapping=any(device.consumes for _, device in devices),
    )


def _add_reported(pools: list[ClaimPool], node: str, report: ClaimReport) -> None:
    """Add what the node's agent offers and no slice has."""
    own = [pool for pool in pools if pool.driver == report.driver]
    if not own:
        devices = report.devices
        kind = "mig" if report.unmade and not report.names else ""
        pools.append(ClaimPool(node, report.driver, kind, devices, report.names, published=False))
        return
    named = {uuid for pool in own for uuid in pool.names}
    whole = next((pool for pool in own if pool.type in _WHOLE), own[0])
    others = {uuid: name for uuid, name in report.names.items() if uuid not in named}
    pools[pools.index(whole)] = replace(whole, names={**whole.names, **others})


def _allocated(snapshot: Snapshot) -> dict[ClaimDeviceId, tuple[str, ...]]:
    """Who has each device that claims have: pods as `namespace/name`, or a claim that no pod uses."""
    users = pods_by_claim(snapshot.pods, snapshot.claims)
    holders: defaultdict[ClaimDeviceId, dict[str, None]] = defaultdict(dict)
    for claim in snapshot.claims:
        for device in claim.allocation.devices if claim.allocation is not None else ():
            if not device.admin:
                holders[device.id].update(dict.fromkeys(_names(claim, users)))
    return {identity: tuple(names) for identity, names in holders.items()}


def _names(claim: ResourceClaim, users: Mapping[tuple[str, str], tuple[Pod, ...]]) -> list[str]:
    reserved = {consumer.uid for consumer in claim.reserved_for}
    pods = [p for p in users.get(claim.key, ()) if not p.uid or p.uid in reserved]
    return [f"{pod.namespace}/{pod.name}" for pod in pods] or [f"{claim.namespace}/claim:{claim.name}"]


def _type_of(device: SliceDevice, driver: str) -> str:
    kind = _attribute(device, driver, "type")
    return kind if isinstance(kind, str) else ""


def _attribute(device: SliceDevice, driver: str, name: str) -> object:
    return device.attributes.get(name, device.attributes.get(f"{driver}/{name}"))
