"""Why `tonnage migrate` or `tonnage convert` leaves an object as it is."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class MigrationReason(Reason):
    """About an object of a manifest."""

    layer: Layer = Layer.ADMISSION


@reason
class ResourceNotClaimable(MigrationReason):
    """A container asks for a resource that no claim can ask for in its place."""

    code: ClassVar[str] = "resource-not-claimable"
    advice: ClassVar[str] = "leave the pod with its extended resource"
    resource: str


@reason
class AmountNotClaimable(MigrationReason):
    """A container asks for an amount of a resource that is no number of devices of one claim."""

    code: ClassVar[str] = "amount-not-claimable"
    advice: ClassVar[str] = "correct the amount"
    container: str
    resource: str
    amount: str


@reason
class VersionNotConverted(MigrationReason):
    """An object has a version that is not known, or a kind that the newest version does not have."""

    code: ClassVar[str] = "version-not-converted"
    advice: ClassVar[str] = "convert v1beta1 or v1beta2, or wait for a newer Kubernetes"
    version: str
    kind: str


class TextNotEditable(MigrationReason):
    """The object's text cannot be changed without changing more than the object."""

    code: ClassVar[str] = "text-not-editable"
    advice: ClassVar[str] = "write the part that the message names in plain YAML"


REASONS: Final[tuple[type[Reason], ...]] = (
    ResourceNotClaimable,
    AmountNotClaimable,
    VersionNotConverted,
    TextNotEditable,
)
