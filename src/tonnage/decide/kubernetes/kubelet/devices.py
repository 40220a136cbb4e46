"""devicemanager.ManagerImpl: which devices a container gets.

A set of NUMA nodes is an int whose bit n stands for node n. Ids are device ids as a plugin advertises them.

Source: Kubernetes 1.36, pkg/kubelet/cm/devicemanager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tonnage.decide.kubernetes.kubelet.topology_manager import ANY, Hint, nodes_of, subsets_of

Ids: TypeAlias = frozenset[str]
NO_IDS: Ids = frozenset()


@dataclass(frozen=True, slots=True)
class Devices:
    """One resource of a node. `numa` names every registered device, with 0 for one without topology."""

    resource: str
    numa: Mapping[str, int]
    healthy: Ids
    allocated: Ids = NO_IDS

    @property
    def available(self) -> Ids:
        """Healthy and held by nobody."""
        return self.healthy - self.allocated


@dataclass(frozen=True, slots=True)
class DeviceSelection:
    """Devices to hand out: `certain` and the first `missing` of `pool`.

    The kubelet draws from the pool at random; here it is the smallest ids, so that a run can be repeated.
    """

    certain: Ids
    pool: Ids = NO_IDS
    missing: int = 0

    @property
    def ids(self) -> Ids:
        return self.certain | frozenset(sorted(self.pool)[: self.missing])


@dataclass(frozen=True, slots=True)
class AskPlugin:
    """The plugin's preference is wanted before the choice can be finished with `prefer`."""

    available: Ids
    must: Ids
    size: int
    groups: tuple[Ids, ...]
    """What to draw from after the preferred devices, in order; preferred ids count only if in `eligible`."""
    eligible: Ids


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why there are no devices to hand out, in the kubelet's words."""

    upstream_message: str


Choice: TypeAlias = DeviceSelection | AskPlugin | Unavailable


@dataclass(frozen=True, slots=True)
class ContainerDeviceRequest:
    """What a container asks of one resource; `reusable` are devices of the pod's finished init containers."""

    count: int
    reusable: Ids = NO_IDS
    hint: Hint = ANY


def choose(devices: Devices, request: ContainerDeviceRequest, *, plugin_prefers: bool) -> Choice:
    """The devices for a request, or what must be asked or said first.

    >>> four = Devices("nvidia.com/gpu", dict.fromkeys("abcd", 0), frozenset("abc"), frozenset("a"))
    >>> sorted(choose(four, ContainerDeviceRequest(1), plugin_prefers=False).ids)
    ['b']
    >>> choose(four, ContainerDeviceRequest(3), plugin_prefers=False).upstream_message
    'requested number of devices unavailable for nvidia.com/gpu. Requested: 3, Available: 2'
    """
    if not devices.healthy:
        return Unavailable(
            f"no healthy devices present; cannot allocate unhealthy devices {devices.resource}"
        )
    if request.count == 0:
        return DeviceSelection(NO_IDS)
    picked, done = _take(NO_IDS, request.reusable, request.count)
    if done is not None:
        return done
    available = devices.available
    missing = request.count - len(picked)
    if len(available) < missing:
        return Unavailable(
            f"requested number of devices unavailable for {devices.resource}. "
            f"Requested: {missing}, Available: {len(available)}"
        )
    aligned, unaligned, indifferent = _by_affinity(devices, available, request.hint)
    if missing < len(aligned):
        ask = AskPlugin(aligned | picked, picked, request.count, (aligned,), aligned)
        return ask if plugin_prefers else prefer(ask, NO_IDS)
    must, done = _take(picked, aligned, request.count)
    if done is not None:
        return done
    ask = AskPlugin(available | must, must, request.count, (unaligned, indifferent), available)
    return ask if plugin_prefers else prefer(ask, NO_IDS)


def prefer(ask: AskPlugin, preferred: Ids) -> DeviceSelection | Unavailable:
    """The choice once the plugin has answered; what it may not or need not name is filled up."""
    picked = ask.must
    for group in (preferred & ask.eligible, *ask.groups):
        picked, done = _take(picked, group, ask.size)
        if done is not None:
            return done
    return Unavailable(
        f"unexpectedly allocated less resources than required. Requested: {ask.size}, Got: {len(picked)}"
    )


def _take(picked: Ids, group: Ids, size: int) -> tuple[Ids, DeviceSelection | None]:
    fresh = group - picked
    missing = size - len(picked)
    if len(fresh) > missing:
        return picked, DeviceSelection(picked, fresh, missing)
    together = picked | fresh
    return together, DeviceSelection(together) if fresh and len(together) == size else None


def _by_affinity(devices: Devices, available: Ids, hint: Hint) -> tuple[Ids, Ids, Ids]:
    if hint.mask is None or not any(devices.numa.values()):
        return NO_IDS, NO_IDS, available
    placed = frozenset(device for device in available if devices.numa.get(device, 0))
    aligned = frozenset(device for device in placed if devices.numa[device] & hint.mask)
    return aligned, placed - aligned, available - placed


def hints_for(devices: Devices, count: int, reusable: Ids = NO_IDS) -> tuple[Hint, ...] | None:
    """The sets of NUMA nodes that could serve `count` devices, small ones first.

    None when no device has topology (anything will do); empty when there are not enough devices.
    """
    if not any(devices.numa.values()):
        return None
    available = devices.available
    if len(available | reusable) < count:
        return ()
    nodes = nodes_of(_union(devices.numa.values()))
    fewest = len(nodes)
    masks = []
    for mask in subsets_of(nodes):
        if sum(1 for numa in devices.numa.values() if numa & mask) >= count:
            fewest = min(fewest, mask.bit_count())
        if _serves(devices, mask, available, reusable) >= count:
            masks.append(mask)
    return tuple(Hint(mask, mask.bit_count() == fewest) for mask in masks)


def _serves(devices: Devices, mask: int, available: Ids, reusable: Ids) -> int:
    pinned = [devices.numa[device] for device in reusable if devices.numa.get(device, 0)]
    if any(not numa & mask for numa in pinned):
        return -1
    return len(pinned) + sum(1 for device in available if devices.numa[device] & mask)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union
