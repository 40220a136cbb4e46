"""Why the controller or `tonnage operator` leaves something as it is, which a policy would change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import Reason, reason


@reason
class OperatorReason(Reason):
    """About an object of the cluster."""

    layer: Layer = Layer.PLUGIN


@reason
class ConfigMapNotFollowed(OperatorReason):
    """The agents keep their configuration, since what a ClusterPolicy names cannot be copied to them."""

    code: ClassVar[str] = "config-map-not-followed"
    advice: ClassVar[str] = "correct the ConfigMap, or leave the field out of the ClusterPolicy"
    field: str
    config_map: str


@reason
class OperatorScaledUp(OperatorReason):
    """NVIDIA's operator was scaled up while its nodes are adopted."""

    code: ClassVar[str] = "operator-scaled-up"
    advice: ClassVar[str] = "keep it at 0 replicas there until the nodes are adopted"
    replicas: int
    owner: str


@reason
class OperandNamesTaken(OperatorReason):
    """DaemonSets of others have the names under which operands are to be shown."""

    code: ClassVar[str] = "operand-names-taken"
    advice: ClassVar[str] = "take NVIDIA's operator off the cluster, or set operands.nvidiaNames to false"
    daemon_sets: tuple[str, ...]
    namespace: str


@reason
class RuntimeClassTaken(OperatorReason):
    """RuntimeClasses of others lead pods that ask for NVIDIA's to another handler of their node's runtime."""

    code: ClassVar[str] = "runtime-class-taken"
    advice: ClassVar[str] = (
        "delete it, and the controller makes its own, or name another in operator.runtimeClass"
    )
    handlers: Mapping[str, str]


REASONS: Final[tuple[type[Reason], ...]] = (
    ConfigMapNotFollowed,
    OperatorScaledUp,
    OperandNamesTaken,
    RuntimeClassTaken,
)
