"""What is wrong with the CDI specs of a node."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.reason import NodeFault, NodeReason, reason
from tonnage.model.severity import Severity


@reason
class CdiReason(NodeFault):
    """What lies with CDI specs."""

    node_layer: ClassVar[NodeLayer] = NodeLayer.CDI
    layer: Layer = Layer.RUNTIME


@reason
class CdiDeviceTwice(CdiReason):
    """Two specs of one folder name the same device, so runtimes refuse both."""

    code: ClassVar[str] = "cdi-device-twice"
    advice: ClassVar[str] = "remove one"
    devices: tuple[str, ...]
    paths: tuple[str, ...]


@reason
class CdiFolderCrowded(CdiReason):
    """A folder has more specs than a node can need; only the first by name were read."""

    code: ClassVar[str] = "cdi-folder-crowded"
    advice: ClassVar[str] = "find out which program writes them"
    severity: ClassVar[Severity] = Severity.WARNING
    folder: str
    specs: int


@reason
class CdiSpecIncomplete(CdiReason):
    """A GPU is not in the agent's spec."""

    code: ClassVar[str] = "cdi-spec-incomplete"
    advice: ClassVar[str] = "see what `tonnage cdi generate` leaves out"
    severity: ClassVar[Severity] = Severity.WARNING
    devices: tuple[str, ...]


@reason
class CdiSpecInvalid(CdiReason):
    """Runtimes refuse the spec, or it cannot be read."""

    code: ClassVar[str] = "cdi-spec-invalid"
    advice: ClassVar[str] = "run `tonnage cdi validate`"
    path: str
    problem: str


@reason
class CdiSpecMissing(CdiReason):
    """The agent names devices by CDI, but no spec has them."""

    code: ClassVar[str] = "cdi-spec-missing"
    advice: ClassVar[str] = "mount `/var/run/cdi` writable in its pod"
    kind: str


@reason
class CdiSpecStale(CdiReason):
    """The spec is of another driver, or names paths that do not exist."""

    code: ClassVar[str] = "cdi-spec-stale"
    advice: ClassVar[str] = "write it again"
    path: str
    drivers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


REASONS: Final[tuple[type[NodeReason], ...]] = (
    CdiDeviceTwice,
    CdiFolderCrowded,
    CdiSpecIncomplete,
    CdiSpecInvalid,
    CdiSpecMissing,
    CdiSpecStale,
)
