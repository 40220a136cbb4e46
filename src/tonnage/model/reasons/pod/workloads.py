"""Why a workload makes no pods."""

from __future__ import annotations

from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.admission import AdmissionReason
from tonnage.model.reasons.reason import Reason, reason


@reason
class WorkloadDeadline(Reason):
    """A Deployment makes no progress (`ProgressDeadlineExceeded`)."""

    code: ClassVar[str] = "workload-deadline"
    advice: ClassVar[str] = "see why its pods do not become ready"
    layer: Layer = Layer.APPLICATION
    lasting: bool = False


@reason
class WorkloadEnded(Reason):
    """A Job has failed or is complete, so it creates no more pods."""

    code: ClassVar[str] = "workload-ended"
    advice: ClassVar[str] = "create it again"
    layer: Layer = Layer.APPLICATION


@reason
class WorkloadPaused(AdmissionReason):
    """A Deployment is paused, or a Job or CronJob suspended: no pods are created."""

    code: ClassVar[str] = "workload-paused"
    advice: ClassVar[str] = "resume it"
    lasting: bool = False


class WorkloadWantsNone(AdmissionReason):
    """The workload is scaled to zero, or matches no node."""

    code: ClassVar[str] = "workload-wants-none"
    advice: ClassVar[str] = "scale it up"


@reason
class WorkloadInOrder(Reason):
    """A StatefulSet starts its next pod only when the one before is ready."""

    code: ClassVar[str] = "workload-in-order"
    advice: ClassVar[str] = "explain that pod"
    layers: ClassVar[tuple[Layer, ...]] = (Layer.SCHEDULER, Layer.APPLICATION)
    layer: Layer = Layer.SCHEDULER
    lasting: bool = False


@reason
class WorkloadNotActedOn(AdmissionReason):
    """No controller has acted on the workload yet."""

    code: ClassVar[str] = "workload-not-acted-on"
    advice: ClassVar[str] = "look at kube-controller-manager"
    lasting: bool = False


@reason
class WorkloadPodsRefused(AdmissionReason):
    """The API server refused the workload's pods for a reason that only its own words tell."""

    code: ClassVar[str] = "workload-pods-refused"
    advice: ClassVar[str] = "do what they say"
    layers: ClassVar[tuple[Layer, ...]] = (Layer.ADMISSION, Layer.QUOTA)
    lasting: bool = False


REASONS: Final[tuple[type[Reason], ...]] = (
    WorkloadDeadline,
    WorkloadEnded,
    WorkloadPaused,
    WorkloadWantsNone,
    WorkloadInOrder,
    WorkloadNotActedOn,
    WorkloadPodsRefused,
)
