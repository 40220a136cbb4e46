"""Which of the devices that kubelet has free a container should get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tonnage.model.names import parse_device_id
from tonnage.model.sharing import PlannedResource, SharedPolicy


def prefer(
    resource: PlannedResource,
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    *,
    index_of: Mapping[str, int],
    policy: SharedPolicy = SharedPolicy.DISTRIBUTED,
) -> tuple[str, ...]:
    """`size` ids out of `available`, `required` among them; fewer when there are no more.

    Whole devices: lowest index first. Replicas: from the device with the fewest taken (`distributed`) or with
    the most (`packed`), counting this choice, so that a request is spread over devices or kept on one.
    Equal candidates: lowest index, then lowest replica. Never fails: an unknown id comes last.
    """
    uuid_of = {slot: parse_device_id(slot).uuid for slot in (*available, *required)}
    chosen = [slot for slot in dict.fromkeys(required) if slot in set(available)][: max(size, 0)]
    candidates = sorted(set(available) - set(chosen), key=lambda slot: _position(slot, index_of))
    if not resource.shared:
        return (*chosen, *candidates[: max(size - len(chosen), 0)])
    sign = -1 if policy is SharedPolicy.PACKED else 1
    taken = Counter(slot.uuid for slot in resource.slots)
    taken.subtract(uuid_of[slot] for slot in candidates)
    here = Counter(uuid_of[slot] for slot in chosen)
    while len(chosen) < size and candidates:
        best = min(candidates, key=lambda slot: (sign * taken[uuid_of[slot]], sign * here[uuid_of[slot]]))
        candidates.remove(best)
        chosen.append(best)
        taken[uuid_of[best]] += 1
        here[uuid_of[best]] += 1
    return tuple(chosen)


def _position(slot: str, index_of: Mapping[str, int]) -> tuple[int, str, int]:
    device = parse_device_id(slot)
    return index_of.get(device.uuid, 1 << 30), device.uuid, device.replica or 0
