"""Which of the devices that kubelet has free a container should get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tonnage.decide.node.prefer_replicas import by_index, prefer_replicas
from tonnage.decide.node.prefer_whole import Topology, prefer_whole
from tonnage.model.sharing import PlannedResource, SharedPolicy


def prefer(
    resource: PlannedResource,
    available: Sequence[str],
    required: Sequence[str],
    size: int,
    *,
    index_of: Mapping[str, int],
    policy: SharedPolicy = SharedPolicy.DISTRIBUTED,
    topology: Topology | None = None,
) -> tuple[str, ...]:
    """`size` ids out of `available`, `required` among them; fewer when there are no more.

    Whole devices: the best by the rules of `objective`, or the lowest indices without a topology. Replicas:
    by the policy, see `prefer_replicas`; only `spread-strict` may leave some that are available. Never fails;
    an id that is not known comes last.
    """
    if resource.shared:
        return prefer_replicas(resource, available, required, size, index_of=index_of, policy=policy)
    if topology is None:
        return by_index(available, required, size, index_of=index_of)
    return prefer_whole(topology, available, required, size)
