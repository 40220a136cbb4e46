"""Which replicas or parts of devices a container should get, by policy."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from functools import partial
from heapq import heapify, heappop, heappush

from tonnage.model.devices.sharing import DeviceSlot, PlannedResource, SharedPolicy
from tonnage.model.names import parse_device_id


def prefer_replicas(
    resource: PlannedResource,
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    *,
    policy: SharedPolicy,
) -> tuple[str, ...]:
    """`size` ids out of `available`, `required` among them; fewer when there are no more.

    A device's `in_use` are those of its replicas that are not available, and those of this choice. Parts of a
    device that are not shared are chosen like replicas of it, but for spread-strict, which then is spread.

    - distributed: the next one from the device with the fewest taken, then the fewest of this choice
    - packed: from the device with the most taken, then the most of this choice
    - spread: from the device with the fewest of this choice, then the fewest taken, so that no device gives
      two while another has one
    - spread-strict: as spread, but never two of one device, even if there are fewer than `size`

    Equal devices: the first of the resource; of one device its first replica. Never fails. O(n log n).
    """
    device_of = partial(_device_of, resource)
    chosen, others = in_order(resource, available, required, size)
    lacking = max(size, 0) - len(chosen)
    free: dict[str, deque[str]] = {}
    for slot in others:
        free.setdefault(device_of(slot), deque()).append(slot)
    # After the required ones have left `others`: they count as taken, like those of other pods.
    in_use = Counter([_device(resource, slot) for slot in resource.slots])
    in_use.subtract({device: len(slots) for device, slots in free.items()})
    here = Counter(map(device_of, chosen))
    strict = policy is SharedPolicy.SPREAD_STRICT and resource.shared
    spread = policy in (SharedPolicy.SPREAD, SharedPolicy.SPREAD_STRICT)
    step = -1 if policy is SharedPolicy.PACKED else 1
    heap = [
        (
            step * (here if spread else in_use)[device],
            step * (in_use if spread else here)[device],
            place,
            device,
        )
        for place, device in enumerate(free)
        if not (strict and here[device])
    ]
    heapify(heap)
    while lacking and heap:
        first, second, place, device = heappop(heap)
        chosen.append(free[device].popleft())
        lacking -= 1
        # Only after its replica is out: a device that is in the heap twice would be chosen by its old counts.
        if free[device] and not strict:
            heappush(heap, (first + step, second + step, place, device))
    return tuple(chosen)


def in_order(
    resource: PlannedResource, available: Sequence[str], required: Sequence[str], size: int
) -> tuple[list[str], list[str]]:
    """(what is required, at most `size`; the other available ids in the resource's order, unknown last)."""
    left = set(available)
    chosen = [slot for slot in dict.fromkeys(required) if slot in left][: max(size, 0)]
    left.difference_update(chosen)
    advertised = [slot for slot in resource.by_id if slot in left]
    return chosen, advertised + sorted(left.difference(advertised))


def _device_of(resource: PlannedResource, text: str) -> str:
    """The uuid of the device whose replica or part an id is, whatever id it is."""
    slot = resource.by_id.get(text)
    return parse_device_id(text).uuid if slot is None else _device(resource, slot)


def _device(resource: PlannedResource, slot: DeviceSlot) -> str:
    return slot.uuid if resource.replicas > 1 else slot.part_of or slot.uuid
