"""What the controller makes for a ClusterPolicy, as far as it may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tonnage.loop.refusals import or_none

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tonnage.model.operands import SeenObject
    from tonnage.ports.kubernetes import KubernetesReader

_REFUSED = (403, 404)


async def owned_objects(
    api: KubernetesReader, namespace: str, *, operated: bool
) -> tuple[Sequence[SeenObject] | None, Sequence[SeenObject] | None]:
    """DaemonSets and RuntimeClasses; None for those that may not be read.

    `operated`: a policy is there. Where it has brought no DaemonSet, the controller makes none.
    """
    from tonnage.reading.gpu_policy import seen_object
    from tonnage.wire.kinds import DAEMON_SET, RUNTIME_CLASS

    sets = await or_none(api.list(DAEMON_SET, namespace=namespace), _REFUSED)
    classes = await or_none(api.list(RUNTIME_CLASS), _REFUSED)
    own_sets = None if sets is None else [seen_object(obj) for obj in sets.items]
    if operated and own_sets is not None and not any(daemons.part for daemons in own_sets):
        own_sets = None
    return own_sets, None if classes is None else [seen_object(obj) for obj in classes.items]
