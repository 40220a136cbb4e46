"""QueueingHintFn of the volume plugins: which changes have a refused pod tried again.

Source: kube-scheduler 1.35 plugins volumebinding, volumezone, volumerestrictions and nodevolumelimits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tonnage.decide.kubernetes.scheduler.filters import volume_use, volumes
from tonnage.loop.informer import Delta
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.quantity import integer_value
from tonnage.wire import objects as w
from tonnage.wire.claims import (
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

_BINDING: Final = frozenset((volumes.NAME, volumes.ZONE))
_NEW: Final = frozenset((*_BINDING, volume_use.NAME, volumes.LIMITS))
_LATE: Final = "WaitForFirstConsumer"


def volume_helps(plugins: frozenset[str], pod: Pod, delta: Delta[w.Object]) -> bool:
    """Whether what came, changed or went may help the pod."""
    match delta.before, delta.after:
        case before, PersistentVolumeClaim() as claim:
            names = {volume_use.claim for volume_use in pod.volumes}
            own = claim.metadata.namespace == pod.namespace and claim.metadata.name in names
            return own and not plugins.isdisjoint(_NEW if before is None else _BINDING)
        case before, PersistentVolume() as volume:
            moved = before is None or before.metadata.labels != volume.metadata.labels
            return volumes.NAME in plugins or (moved and volumes.ZONE in plugins)
        case before, StorageClass() as storage_class:
            late = before is None and storage_class.volume_binding_mode == _LATE
            other = not isinstance(before, StorageClass) or (
                before.allowed_topologies != storage_class.allowed_topologies
            )
            return (other and volumes.NAME in plugins) or (late and volumes.ZONE in plugins)
        case before, CSINode() as node:
            limits = _limits(before) if isinstance(before, CSINode) else {}
            more = any(count > limits.get(name, 0) for name, count in _limits(node).items())
            fresh = before is None and not plugins.isdisjoint((volumes.NAME, volumes.LIMITS))
            return fresh or (more and volumes.LIMITS in plugins)
        case before, CSIStorageCapacity() as now:
            most = _most(before) if isinstance(before, CSIStorageCapacity) else -1
            return volumes.NAME in plugins and (before is None or _most(now) > most)
        case VolumeAttachment(), None:
            return volumes.LIMITS in plugins and any(not volume_use.ephemeral for volume_use in pod.volumes)
    return False


def _limits(node: CSINode) -> Mapping[str, int]:
    """How many volumes of each driver the node takes."""
    drivers = node.spec.get("drivers") or ()
    return {driver["name"]: int((driver.get("allocatable") or {}).get("count") or 0) for driver in drivers}


def _most(capacity: CSIStorageCapacity) -> int:
    """The largest volume that can be made; -1 where nothing is said."""
    maximum = capacity.maximum_volume_size
    quantity = capacity.capacity if maximum is None else maximum
    return -1 if quantity is None else integer_value(str(quantity))
