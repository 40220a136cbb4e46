"""Which of the devices that kubelet has free a container should get."""

from __future__ import annotations

from collections.abc import Sequence

from tonnage.decide.node.preference.replicas import in_order, prefer_replicas
from tonnage.decide.node.preference.whole_devices import DeviceTopology, prefer_whole
from tonnage.model.devices.sharing import PlannedResource, SharedPolicy


def prefer(
    resource: PlannedResource,
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    *,
    policy: SharedPolicy = SharedPolicy.DISTRIBUTED,
    topology: DeviceTopology | None = None,
) -> tuple[str, ...]:
    """`size` ids out of `available`, `required` among them; fewer when there are no more.

    Whole devices: the best by the rules of `objective`, or the first ones without a topology. Replicas,
    and parts of devices, which cannot reach one another: by the policy, see `prefer_replicas`; of these only
    `spread-strict` may leave replicas that are available. Never fails; an id that is not known comes last.
    """
    if resource.shared or any(slot.part_of for slot in resource.slots):
        return prefer_replicas(resource, available, required, size, policy=policy)
    if topology is None:
        chosen, others = in_order(resource, available, required, size)
        return (*chosen, *others[: max(size, 0) - len(chosen)])
    return prefer_whole(topology, available, required, size)
