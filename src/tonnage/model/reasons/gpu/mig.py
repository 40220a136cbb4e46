"""Why GPUs are not divided as is wanted, and why a change of a node's MIG layout does not go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from tonnage.model.layer import Layer
from tonnage.model.reasons.facts import MigUser
from tonnage.model.reasons.reason import Reason, reason


@reason
class MigLayoutReason(Reason):
    """Why a layout cannot be made; `instead`: what could be, the nearest first."""

    layer: Layer = Layer.HARDWARE
    instead: tuple[str, ...] = ()

    @property
    def in_short(self) -> str:
        """In a few words, with what could be had instead."""
        instead = "; ".join(self.instead[:4])
        return f"{self.message} (instead: {instead})" if instead else self.message


class MigProfileNotOffered(MigLayoutReason):
    """The GPU does not have the profile, or the layout of that name."""

    code: ClassVar[str] = "mig-profile-not-offered"
    advice: ClassVar[str] = "name one that it has"


class MigLayoutInvalid(MigLayoutReason):
    """The text is not a layout: a profile without a number, no profile, or a compute instance."""

    code: ClassVar[str] = "mig-layout-invalid"
    advice: ClassVar[str] = "write profiles with their number, `1g.10gb:2`"


@reason
class MigLayoutTooLarge(MigLayoutReason):
    """Profiles do not fit together on one GPU; the slices that they compete for are named."""

    code: ClassVar[str] = "mig-layout-too-large"
    advice: ClassVar[str] = "ask for fewer, or for smaller ones"
    profiles: Mapping[str, int]


@reason
class MigMemoryShort(MigLayoutReason):
    """A service needs more memory than one GPU has."""

    code: ClassVar[str] = "mig-memory-short"
    advice: ClassVar[str] = "use several GPUs"
    needed_mib: int
    most_mib: int


@reason
class MigNotSupported(MigLayoutReason):
    """The GPU does not support MIG, its profiles are unknown, or its driver refuses to divide it now."""

    code: ClassVar[str] = "mig-not-supported"
    advice: ClassVar[str] = "use time-slicing, MPS or another GPU"
    product: str


@reason
class MigGpuUnhealthy(MigLayoutReason):
    """The GPU is lost or unhealthy: nothing is planned on it."""

    code: ClassVar[str] = "mig-gpu-unhealthy"
    advice: ClassVar[str] = "repair or replace the GPU, then plan again"
    index: int
    why: str


@reason
class MigDeviceFilterUndecided(MigLayoutReason):
    """Tonnage cannot tell whether a device filter matches the GPU: its PCI device id, or its subsystem, is
    unknown.
    """

    code: ClassVar[str] = "mig-device-filter-undecided"
    advice: ClassVar[str] = "name the GPU by its index"
    filters: tuple[str, ...]


@reason
class MigEntriesDiffer(MigLayoutReason):
    """Two entries of a configuration ask for different layouts of one GPU."""

    code: ClassVar[str] = "mig-entries-differ"
    advice: ClassVar[str] = "leave one of them out"
    entries: tuple[str, ...]


@reason
class MigGpuMissing(MigLayoutReason):
    """A configuration names a GPU that the node does not have."""

    code: ClassVar[str] = "mig-gpu-missing"
    advice: ClassVar[str] = "correct its devices"
    index: int


@reason
class MigLayoutRefused(MigLayoutReason):
    """GPUs of a node cannot be divided as the node's layout says; the reason says why for each."""

    code: ClassVar[str] = "mig-layout-refused"
    advice: ClassVar[str] = "correct the configuration, or choose another"
    gpus: Mapping[str, str]


@reason
class MigConfigurationReason(Reason):
    """Why the layout that a node's label names is not known."""

    layer: Layer = Layer.PLUGIN
    config: str


@reason
class MigConfigurationMissing(MigConfigurationReason):
    """The label names a configuration that the ConfigMap of layouts does not have."""

    code: ClassVar[str] = "mig-configuration-missing"
    advice: ClassVar[str] = "add it, or correct the label"
    others: tuple[str, ...]


class MigConfigurationUnusable(MigConfigurationReason):
    """The ConfigMap of layouts may not be read, lacks the expected key, or is not valid."""

    code: ClassVar[str] = "mig-configuration-unusable"
    advice: ClassVar[str] = "make it readable to the agent, or correct it"


class MigHostWorkForbidden(MigConfigurationReason):
    """The ConfigMap of layouts has hooks or clients, but the agent may not run programs of its host."""

    code: ClassVar[str] = "mig-host-work-forbidden"
    advice: ClassVar[str] = "permit them (`migManager.hostPrograms`), or remove them"


@reason
class MigObstacle(Reason):
    """Why a change does not go on."""

    layer: Layer = Layer.DRIVER
    lasting: bool = False


@reason
class MigGpuGone(MigObstacle):
    """The driver does not show a GPU of the change, or of its board."""

    code: ClassVar[str] = "mig-gpu-gone"
    advice: ClassVar[str] = "check the GPU"
    uuid: str


@reason
class MigModeOff(MigObstacle):
    """A claim has a MIG device that is made for it, on a GPU whose MIG mode is off."""

    code: ClassVar[str] = "mig-mode-off"
    advice: ClassVar[str] = "turn MIG on, or take `dynamicMig` out of the node's configuration"
    uuid: str


@reason
class MigForeignInstance(MigObstacle):
    """A reset would destroy an instance that is in neither the new layout nor the previous one."""

    code: ClassVar[str] = "mig-foreign-instance"
    advice: ClassVar[str] = "destroy it with the program that created it"
    uuid: str
    profile: str
    start: int


@reason
class MigDeviceInUse(MigObstacle):
    """Pods, or processes outside pods, use what a change of the layout would destroy."""

    code: ClassVar[str] = "mig-device-in-use"
    advice: ClassVar[str] = "wait for them, or evict them"
    users: tuple[MigUser, ...]


@reason
class MigBoardResetNeeded(MigObstacle):
    """A GPU changes its MIG mode only by a reset of its board, whose other GPUs are in use."""

    code: ClassVar[str] = "mig-board-reset-needed"
    advice: ClassVar[str] = "free the GPUs of the board"
    uuid: str
    board: tuple[str, ...]


@reason
class MigRestartNeeded(MigObstacle):
    """No known reset changes the MIG mode of the GPU."""

    code: ClassVar[str] = "mig-restart-needed"
    advice: ClassVar[str] = "restart the node, or let the agent do it"
    uuid: str


class MigRestartUseless(MigObstacle):
    """The node has rebooted for a change of its layout, which did not help."""

    code: ClassVar[str] = "mig-restart-useless"
    advice: ClassVar[str] = "check the driver"


@reason
class MigRestartHeldUp(MigObstacle):
    """The node would reboot for a change of its layout, but pods use its GPUs."""

    code: ClassVar[str] = "mig-restart-held-up"
    advice: ClassVar[str] = "drain the node"
    holders: tuple[str, ...]


@reason
class MigAgentsEnded(MigObstacle):
    """Several agents ended during a change of the layout, so the previous layout is restored."""

    code: ClassVar[str] = "mig-agents-ended"
    advice: ClassVar[str] = "read the logs of the agents before"
    agents: int


class MigChangeRefused(MigObstacle):
    """The driver, a hook, a service or a disk refuses a part of a change of the layout, in its own words."""

    code: ClassVar[str] = "mig-change-refused"
    advice: ClassVar[str] = "see to what it says, then choose the layout again"


class MigLayoutContested(MigObstacle):
    """After many steps the GPUs are not divided as a change wants them: another program divides them, too."""

    code: ClassVar[str] = "mig-layout-contested"
    advice: ClassVar[str] = "stop the other program"


class MigNodeNotRestarted(MigObstacle):
    """The node was told to restart for a change of its layout, and has not."""

    code: ClassVar[str] = "mig-node-not-restarted"
    advice: ClassVar[str] = "restart the node"


@reason
class MigPodNotEvicted(MigObstacle):
    """A pod uses what a change of the layout would destroy, and is not evicted, or is ending already."""

    code: ClassVar[str] = "mig-pod-not-evicted"
    advice: ClassVar[str] = "end the pod, or wait for its end"
    namespace: str
    pod: str


@reason
class MigNodeNotPaused(MigObstacle):
    """The node is not paused for a change of its layout: the API server refuses, or pods have not ended."""

    code: ClassVar[str] = "mig-node-not-paused"
    advice: ClassVar[str] = "see to what it says; the agent tries again"
    pods: tuple[str, ...] = ()


REASONS: Final[tuple[type[Reason], ...]] = (
    MigProfileNotOffered,
    MigLayoutInvalid,
    MigLayoutTooLarge,
    MigMemoryShort,
    MigNotSupported,
    MigGpuUnhealthy,
    MigDeviceFilterUndecided,
    MigEntriesDiffer,
    MigGpuMissing,
    MigLayoutRefused,
    MigConfigurationMissing,
    MigConfigurationUnusable,
    MigHostWorkForbidden,
    MigAgentsEnded,
    MigGpuGone,
    MigModeOff,
    MigForeignInstance,
    MigDeviceInUse,
    MigBoardResetNeeded,
    MigRestartNeeded,
    MigRestartUseless,
    MigRestartHeldUp,
    MigChangeRefused,
    MigLayoutContested,
    MigNodeNotRestarted,
    MigPodNotEvicted,
    MigNodeNotPaused,
)
