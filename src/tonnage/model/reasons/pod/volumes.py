"""What the scheduler has against a node, or against every node, for a pod's volumes."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.reasons.reason import Reason, SchedulerReason, reason


@reason
class VolumeClaimNotUsable(SchedulerReason):
    """A PersistentVolumeClaim of the pod is missing, lost, being deleted or not bound."""

    code: ClassVar[str] = "volume-claim-not-usable"
    advice: ClassVar[str] = "create it, or look at its Events"
    claims: tuple[str, ...]


@reason
class VolumeInUse(SchedulerReason):
    """Another pod has a volume that only one pod at a time may use (ReadWriteOncePod)."""

    code: ClassVar[str] = "volume-in-use"
    advice: ClassVar[str] = "wait for that pod, or use a separate claim"
    node_words: ClassVar[str] = "while another pod has its volume to itself"
    lasting: bool = False
    volume: str | None = None
    claim: str | None = None
    user: str


@reason
class VolumeLimit(SchedulerReason):
    """The driver attaches no more volumes to the node."""

    code: ClassVar[str] = "volume-limit"
    advice: ClassVar[str] = "wait, or use other nodes"
    node_words: ClassVar[str] = "with too many volumes attached"
    driver: str
    limit: int
    attached: int


@reason
class VolumeElsewhere(SchedulerReason):
    """A volume of the pod cannot be reached from the node: its node affinity, or its zone."""

    code: ClassVar[str] = "volume-elsewhere"
    advice: ClassVar[str] = "use GPU nodes where the volume is, or WaitForFirstConsumer"
    node_words: ClassVar[str] = "that its volumes cannot be reached from"
    claim: str
    volume: str | None = None
    key: str | None = None
    wanted: str | None = None


@reason
class VolumeNotAvailable(SchedulerReason):
    """No volume is free on the node for a claim that is to be bound there, and none can be created."""

    code: ClassVar[str] = "volume-not-available"
    advice: ClassVar[str] = "create one, or use another class"
    node_words: ClassVar[str] = "without a volume for its claims"
    claim: str
    class_: str | None = None


@reason
class StorageShort(SchedulerReason):
    """The driver that would create a volume for a claim lacks storage on the node."""

    code: ClassVar[str] = "storage-short"
    advice: ClassVar[str] = "use a smaller claim or another class, or free some storage"
    node_words: ClassVar[str] = "without enough storage for its claims"
    lasting: bool = False
    claim: str
    class_: str


REASONS: Final[tuple[type[Reason], ...]] = (
    VolumeClaimNotUsable,
    VolumeInUse,
    VolumeLimit,
    VolumeElsewhere,
    VolumeNotAvailable,
    StorageShort,
)
